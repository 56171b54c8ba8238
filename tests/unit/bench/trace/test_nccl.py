"""A trace of NCCL's, recorded on a GPU: two ranks, of which rank 1 slept for 50 ms a step."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from dlcontainer.bench.trace import process_trace, rank_profile, trace_analysis
from dlcontainer.bench.trace.process_trace import KINETO, TRACED
from dlcontainer.bench.trace.trace_records import SideTrace
from tests.skips import skip
from tests.values import ROOT

RECORDED = ROOT / "tests/recorded/h100/nccl-trace"
STEPS = 4
BYTES = 4 * (1024 * 4096 + 4096 + 4096 * 1024 + 1024)
SLEPT_S = 0.05


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RECORDED, tmp_path / "native" / "trace"))


@pytest.fixture
def side(folder: Path) -> SideTrace:
    return trace_analysis.read(folder, "native", 2, "ended")


def test_collectives_are_kernels_of_the_device_with_exact_bytes(side: SideTrace) -> None:
    [row] = side.collectives
    assert (row.kind, row.bytes, row.calls) == ("all_reduce", BYTES, STEPS)
    assert side.notes == ()


def test_the_rank_that_slept_is_waited_for(side: SideTrace) -> None:
    first, second = side.ranks
    assert first.waiting_for == {1: pytest.approx(STEPS * SLEPT_S, rel=0.1)}
    assert second.waiting_for == {}
    assert second.other_s == pytest.approx(STEPS * SLEPT_S, rel=0.1)


def bare(path: Path, *left_out: str) -> None:
    """Leave out what needs operations, and some annotations of the host."""
    trace = json.loads(path.read_text())
    kept = []
    for event in trace["traceEvents"]:
        if event["cat"] == "cpu_op" or event["name"] in left_out:
            continue
        if event["cat"] == "kernel":
            event.pop("args", None)
        kept.append(event)
    path.write_text(json.dumps({**trace, "traceEvents": kept}))


def test_without_operations_the_host_s_annotations_have_the_bytes(
    side: SideTrace, folder: Path
) -> None:
    """Made of the recorded trace: PyTorch without operations was not seen on a GPU."""
    for path in folder.glob("*.kineto.json"):
        bare(path)
    for path in folder.glob("*.trace"):
        head = '"operations": false, "torch"'
        path.write_text(path.read_text().replace('"torch"', head, 1))
    alone = trace_analysis.read(folder, "native", 2, "ended")
    [row] = alone.collectives
    assert (row.kind, row.bytes, row.calls) == ("all_reduce", BYTES, STEPS)
    assert alone.is_computing_known
    for one, other in zip(alone.ranks, side.ranks, strict=True):
        assert one.waiting_for == other.waiting_for
        assert one.computing_s == other.computing_s


def test_a_kernel_that_no_annotation_tells_has_no_bytes(folder: Path) -> None:
    for path in folder.glob("*.kineto.json"):
        bare(path, "nccl:all_reduce")
    [row] = trace_analysis.read(folder, "native", 2, "ended").collectives
    assert (row.bytes, row.calls) == (None, STEPS)


def test_steps_are_the_device_s(folder: Path) -> None:
    """Each has the kernels of one forward, backward and update, and none lies outside of all."""
    for process in process_trace.read(folder):
        path = process.profile(KINETO)
        assert path is not None
        [*collectives] = rank_profile.read(path).collectives
        lines = process.block(TRACED)
        assert len(collectives) == len(lines) == STEPS
        for line, collective in zip(lines, collectives, strict=True):
            assert line.s is not None
            assert line.at - line.s <= collective.begin * 1e-9 < collective.end * 1e-9 <= line.at


def test_an_archive_has_the_device_s_streams(side: SideTrace, folder: Path) -> None:
    if importlib.util.find_spec("otf2") is None:
        skip("no package otf2; type `make setup`")
    otf2 = importlib.import_module("otf2")
    assert side.archive is not None
    with otf2.reader.open(str(folder.parent / side.archive)) as archive:
        sizes = [
            size
            for location, event in archive.events
            if location.name.startswith("stream ") and "ncclDevKernel" in event.region.name
            for size in (event.attributes or {}).values()
        ]
    assert sizes == [BYTES] * (2 * STEPS)
