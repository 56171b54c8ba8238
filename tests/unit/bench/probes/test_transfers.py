"""`bench transfers`: the rows that are declared, what is refused, and the report's tables."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.probes import PROBES, processor
from dlcontainer.bench.probes.probe import ParameterContext, ProbeCell, ProbeSubject
from dlcontainer.bench.report import json_report
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.records import AttestedStack, Json
from dlcontainer.bench.samples.rows import agreement
from dlcontainer.bench.samples.rows.row_records import SampleRow
from dlcontainer.bench.samples.traits import ROWS_METRIC
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.errors import ChecksFailedError, UsageError
from tests import benchseries, rowseries
from tests.judging import analyse

PROBE = PROBES["transfers"]
TORCH = ProbeSubject(image="x.sif", recipe="demo", modules=("torch",))
KILO, MEGA = 1 << 10, 1 << 20
ALPHA_S, GIGABYTES = 10e-6, 20.0


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "nodes", lambda: (0, 1))


def settled(**typed: Any) -> ProbeCell:
    return ProbeCell(values=PROBE.values(typed, ParameterContext(contents=TORCH)), threads=1)


def rows(cell: ProbeCell) -> list[dict[str, str | int]]:
    plan = PROBE.rows(cell)
    assert plan is not None
    assert plan.curve == "bytes"
    return [dict(row) for row in plan.rows]


def ways(own: list[dict[str, str | int]]) -> list[tuple[object, ...]]:
    return list(dict.fromkeys((row["memory"], row["from"], row["to"]) for row in own))


def test_on_a_cpu_copies_are_within_and_between_nodes() -> None:
    own = rows(settled())
    assert ways(own) == [
        ("pageable", f"node {one}", f"node {other}") for one in (0, 1) for other in (0, 1)
    ]
    sizes = sorted({int(row["bytes"]) for row in own})
    assert sizes == [4 * KILO * 4**i for i in range(9)]
    assert sizes[-1] == 256 * MEGA
    quick = settled(quick=True, numa="1")
    assert quick.values["numa"] == "1"
    assert [row["bytes"] for row in rows(quick)] == [4 * KILO, 64 * KILO, MEGA, 16 * MEGA]
    assert {row["transfer"] for row in own} == {"host to host"}


def test_with_gpus_each_way_and_each_pair_is_a_curve() -> None:
    own = rows(settled(device="cuda", gpus=3, largest="4K"))
    by_way = {(row["transfer"], row["memory"]) for row in own}
    assert by_way == {
        *((way, memory) for way in ("host to device", "device to host")
          for memory in ("pageable", "pinned")),
        ("device to device", "device"),
    }  # fmt: skip
    # Two nodes, three GPUs, two memories, both ways; and each GPU to each other one.
    assert len(own) == 2 * 3 * 2 * 2 + 3 * 2
    assert len(ways(own)) == len(own)
    alone = rows(settled(device="cuda", largest="4K", numa="0"))
    assert {row["transfer"] for row in alone} == {"host to device", "device to host"}
    assert {name for row in alone for name in (row["from"], row["to"])} == {"node 0", "gpu 0"}


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ({"gpus": 2}, "--gpus 2: copies within host memory use no GPU"),
        ({"numa": "2"}, "cannot use a NUMA node '2'"),
        ({"numa": "0,x"}, "cannot use a NUMA node 'x'"),
        ({"largest": "1K"}, "--largest 1K: must be a size from 4096 bytes to 1G"),
        ({"largest": "2G"}, "--largest 2G"),
        ({"largest": "M"}, "--largest M"),
    ],
)
def test_what_can_not_be_measured(typed: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        settled(**typed)


def test_images_and_ranks_that_can_not() -> None:
    with pytest.raises(UsageError, match="bench transfers: one process"):
        PROBE.values({}, ParameterContext(contents=TORCH, ranks=2))
    none = ProbeSubject(image="x.sif", recipe="demo", modules=("tensorflow",))
    with pytest.raises(ChecksFailedError, match=r"x\.sif has no framework to compute with"):
        PROBE.values({}, ParameterContext(contents=none))


def test_the_nodes_that_this_process_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {1, 4, 5})
    folders = tmp_path / "sys/devices/system/node"
    for number, cpus, memory in ((0, "0-1", 9), (1, "2-3", 9), (2, "4", 0), (10, "5,9", 9)):
        (folders / f"node{number}").mkdir(parents=True)
        (folders / f"node{number}/cpulist").write_text(f"{cpus}\n")
        text = f"Node {number} MemTotal:       {memory} kB\nNode {number} MemFree:  0 kB\n"
        (folders / f"node{number}/meminfo").write_text(text)
    # Not 1, whose processors are others'; not 2, which has no memory.
    assert processor.nodes(tmp_path) == (0, 10)
    assert processor.nodes(tmp_path / "none") == (0,)


def truth(row: Mapping[str, str | int]) -> float:
    """Give a row's time: a line, but of pageable memory, which goes by steps."""
    size = int(row["bytes"])
    line = ALPHA_S + size / GIGABYTES / 1e9
    return line * (3 if row["memory"] == "pageable" and size == 64 * KILO else 1)


def write(path: Path, cell: ProbeCell, attested: Mapping[str, Json]) -> Path:
    base = rowseries.session(rowseries.Plant())
    plan = PROBE.rows(cell)
    assert plan is not None
    declared = replace(
        base.declared, probe="transfers", rows=plan, workload={**PROBE.declared(cell), "threads": 1}
    )
    facts = (benchseries.FACTS, benchseries.INSIDE)
    with Writer(path, replace(base, declared=declared)) as out:
        for arm, own in zip(declared.arms, facts, strict=True):
            out.stack(AttestedStack(arm=arm, facts={**own, **attested}))
        for sample in rowseries.draw(rowseries.Plant()):
            made = tuple(
                SampleRow(
                    parameters=row, n=9, best=truth(row), median=truth(row), cpu_s=0.1,
                    steal_s=0.0, checked=int(row["bytes"]) // 4,
                )
                for row in plan.rows
            )  # fmt: skip
            values = {**sample.values, ROWS_METRIC: agreement.mean(made)}
            out.sample(replace(sample, rows=made, values=values))
        out.end(complete=True)
    return path


def test_the_report_has_latency_rate_line_and_peers(tmp_path: Path) -> None:
    attested: dict[str, Json] = {
        "peer_access": {"gpu 0 gpu 1": True, "gpu 1 gpu 0": False},
        "memory_places": {"node 0": "checked"},
    }
    cell = settled(device="cuda", gpus=2, numa="0", quick=True)
    analysis = analyse(reader.read(write(tmp_path / "x.jsonl", cell, attested)))
    found = analysis.traits.section
    assert found is not None
    by_name = [dict(zip(found.head, line, strict=True)) for line in found.rows]
    assert len(by_name) == (2 * 2 * 2 + 2) * 2
    for line in by_name:
        smallest = ALPHA_S + 4 * KILO / GIGABYTES / 1e9
        assert float(line["smallest, us"]) == pytest.approx(1e6 * smallest, rel=1e-3)
        if line["memory"] == "pageable":
            assert line["fit"].startswith("not fitted: it misses a size by")
            assert line["alpha, us"] == "-"
        else:
            assert float(line["alpha, us"]) == pytest.approx(1e6 * ALPHA_S, rel=1e-3)
            assert float(line["1/beta, GB/s"]) == pytest.approx(GIGABYTES, rel=1e-2)
    assert "the call and of the wait until the devices are idle" in found.note
    peers = found.companion
    assert peers is not None
    assert peers.rows == (("gpu 0 gpu 1", "yes", "yes"), ("gpu 1 gpu 0", "no", "no"))
    (rate,) = analysis.traits.derived
    assert rate.of({"bytes": 1000}, 1e-6) == pytest.approx(1.0)
    assert rate.of({}, 1e-6) is None
    said = json_report.session(analysis)["rows"]
    assert isinstance(said, list)
    assert set(said[0]["arms"]["native"]) >= {"rate_GB/s", "median_s"}


def test_copies_in_memory_are_called_so(tmp_path: Path) -> None:
    cell = settled(quick=True, numa="0")
    analysis = analyse(reader.read(write(tmp_path / "x.jsonl", cell, {})))
    found = analysis.traits.section
    assert found is not None
    assert "copies in this node's memory by its processors; no device takes part" in found.note
    assert "Where memory lay was not told by the kernel: native, container" in found.note
    assert found.companion is None
    assert analysis.traits.task == "copies in the host's memory"
    assert "transfers to any device" in analysis.traits.unsaid
