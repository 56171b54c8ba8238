"""`bench train --input`: what is declared, refused, lent, and what the report says of waiting."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.measure.arms import Workload
from dlcontainer.bench.measure.ranks import RankGroup, RankLaunch
from dlcontainer.bench.measure.units.baton import GroupSeat
from dlcontainer.bench.probes import PROBES
from dlcontainer.bench.probes.inputs import training
from dlcontainer.bench.probes.inputs.options import FORMATS, VARIANT
from dlcontainer.bench.probes.inputs.waiting import WAITED
from dlcontainer.bench.probes.lending import SharedStorage
from dlcontainer.bench.probes.probe import ParameterContext, ProbeCell, ProbeSubject
from dlcontainer.bench.report import json_report
from dlcontainer.bench.report.tables import session_tables
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.records import Json, Sample
from dlcontainer.errors import ChecksFailedError, UsageError
from tests import benchseries, residents
from tests.benchrunner import ProbeRunner
from tests.benchseries import Plan
from tests.judging import analyse

TRAIN = PROBES["train"]
TORCH = ProbeSubject(image="x.sif", recipe="demo", modules=("torch", "numpy"))
WHOLE = replace(TORCH, modules=("torch", "h5py", "lmdb", "zarr", "pyarrow"))
BARE_FORMATS = [name for name, module in FORMATS.items() if not module]


def settled(contents: ProbeSubject = TORCH, ranks: int = 0, **typed: Any) -> ProbeCell:
    setting = ParameterContext(contents=contents, ranks=ranks)
    values = TRAIN.values({"device": "cpu", **typed}, setting)
    return ProbeCell(values=values, threads=2, steps=3, ranks=ranks)


def lending_of(folder: Path) -> SharedStorage:
    folder.mkdir(exist_ok=True)
    return SharedStorage(work=folder, runner=ProbeRunner(), note=list[str]().append)


def test_noise_is_declared_and_called_as_ever(tmp_path: Path) -> None:
    cell = settled()
    assert dict(TRAIN.declared(cell)) == {
        "framework": "torch",
        "device": "cpu",
        "warmup_steps": 5,
        "seed": 20190617,
    }
    words = ("--steps", "3", "--warmup", "5", "--seed", "20190617", "--threads", "2")
    assert TRAIN.words(cell) == ("train", *words, "--device", "cpu")
    assert isinstance(TRAIN.lends(cell.values, lending_of(tmp_path / "w")), nullcontext)
    assert list((tmp_path / "w").iterdir()) == []


@pytest.mark.parametrize("name", BARE_FORMATS)
def test_samples_are_declared(name: str) -> None:
    cell = settled(input=name, samples=100)
    declared = TRAIN.declared(cell)
    assert {key: declared[key] for key in ("input", "shuffle", "samples")} == {
        "input": name, "shuffle": "full", "samples": 100
    }  # fmt: skip
    # 100 in 16 shards of 7 would be 15 shards.
    assert (declared["shards"], declared["window"], declared["sample_bytes"]) == (15, 7, 3074)
    assert (declared["input_checked"], declared["input_read"]) == (
        "before the first step", "in the step"
    )  # fmt: skip
    words = " ".join(TRAIN.words(cell))
    assert f"--input {name} --shuffle full --samples 100 --sample-bytes 3074" in words
    assert "--size 32" in words


def test_large_samples_are_fewer() -> None:
    assert training.usual_samples(3074) == 1024
    assert training.usual_samples(500_000) == 512
    assert training.usual_samples(17 * 768 * 1152) == 64


def test_a_session_that_goes_on_reads_the_same(tmp_path: Path) -> None:
    first = settled(input="npz", shuffle="window", samples=64, batch=4)
    plan = Plan(declared=TRAIN.declared(first), pairs=8)
    begun = reader.read(benchseries.write(tmp_path / "x.jsonl", plan)).session.declared
    again = ProbeCell(
        values=TRAIN.values({}, ParameterContext(contents=TORCH, begun=begun)), threads=2, steps=3
    )
    assert TRAIN.declared(again) == TRAIN.declared(first)
    assert TRAIN.words(again) == TRAIN.words(first)


@pytest.mark.parametrize(
    ("typed", "says", "then"),
    [
        ({"input": "cd"}, "--input cd: unknown format 'cd'", ", ".join(FORMATS)),
        ({"shuffle": "full"}, "--shuffle requires --input", "--input tar"),
        ({"samples": 5}, "--samples requires --input", "--input tar"),
        ({"input": "tar", "samples": 20, "batch": 32}, "too few for a batch of 32", "32 or more"),
        ({"input": "tar", "samples": 60, "batch": 16, "ranks": 4}, "of 4 ranks", "64 or more"),
        ({"input": "raw", "shuffle": "window", "ranks": 17}, "16 shards for 17", "--shuffle full"),
        (
            {"input": "raw", "workload": "tiramisu", "device": "auto"},
            "depends on the device",
            "--device cpu",
        ),
    ],
)
def test_what_cannot_be_read(typed: dict[str, Any], says: str, then: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        settled(**{"contents": TORCH, **typed})
    assert then in str(caught.value.next_step)


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
def test_another_framework_has_noise_only(framework: str) -> None:
    with pytest.raises(UsageError, match=f"--input tar: {framework} can only train on noise"):
        settled(replace(TORCH, modules=(framework,)), input="tar")


@pytest.mark.parametrize("name", [name for name, module in FORMATS.items() if module])
def test_a_format_that_takes_a_module(name: str) -> None:
    with pytest.raises(ChecksFailedError, match=f"does not verify {FORMATS[name]}") as caught:
        settled(input=name)
    assert VARIANT in str(caught.value.next_step)
    shuffle = "window" if name == "parquet" else "full"
    assert settled(WHOLE, input=name).values["shuffle"] == shuffle


def test_parquet_has_no_full_shuffle() -> None:
    with pytest.raises(UsageError, match="cannot be read one sample at a time"):
        settled(WHOLE, input="parquet", shuffle="full")


def test_samples_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    values = settled(input="files", samples=1 << 40).values
    with (
        pytest.raises(ChecksFailedError, match="TMPDIR: the samples need") as caught,
        TRAIN.lends(values, lending_of(tmp_path / "w")),
    ):
        pass
    assert "fewer --samples, or another TMPDIR" in str(caught.value.next_step)


def test_both_sides_are_handed_one_folder(tmp_path: Path) -> None:
    cell = settled(input="raw")
    with TRAIN.lends(cell.values, lending_of(tmp_path / "w")) as lent:
        load = Workload(probe=TRAIN, cell=cell, environment={}, lent=tuple(lent))
        own = tmp_path / "w/input"
        assert load.binds == ((own, "/mnt"),)
        assert load.argv("p", "x")[-2:] == ("--at", str(own))
        assert load.argv("p", "x", contained=True)[-2:] == ("--at", "/mnt")
        # Pipes and ranks have /mnt: the folder lies below them there.
        pipes = GroupSeat(folder=tmp_path / "g", name="n0", cpus=(0,))
        group = replace(load, seat=pipes)
        assert group.binds == ((tmp_path / "g", "/mnt"), (own, "/mnt/lent"))
        assert "--at /mnt/lent --baton /mnt" in " ".join(group.argv("p", "x", contained=True))
        gathered = RankLaunch(
            rank_group=RankGroup(launcher=(), ranks=2, per_node=2, environment={}),
            folder=tmp_path / "r/launch-1", patience_s=1.0, meet=1, master=2, token="t",
        )  # fmt: skip
        ranks = replace(load, gathering=gathered)
        assert ranks.binds == ((tmp_path / "r", "/mnt"), (own, "/mnt/lent"))
        assert ranks.argv("p", "x", contained=True)[-2:] == ("--at", "/mnt/lent")
        assert ranks.argv("p", "x")[-2:] == ("--at", str(own))


ATTESTED: dict[str, Json] = {"batch": 16, "ranks": 2}


def test_the_report_says_what_steps_waited(tmp_path: Path) -> None:
    def waits(sample: Sample) -> Sample:
        return replace(sample, values={**sample.values, WAITED: 0.002}, wall_s=0.01 * 3)

    work: dict[str, Json] = {"workload": ATTESTED}
    plan = Plan(
        declared={**TRAIN.declared(settled(input="tar")), "threads": 2},
        pairs=8,
        reference={**benchseries.FACTS, **work},
        candidate={**benchseries.INSIDE, **work},
        change=waits,
    )
    judged = analyse(reader.read(benchseries.write(tmp_path / "x.jsonl", plan)))
    section = judged.traits.section
    assert section is not None
    steps = judged.series.session.declared.steps
    line = dict(zip(section.head, section.rows[0], strict=True))
    step = 0.03 / steps
    assert line["step, ms"] == f"{1000 * step:.3f}"
    assert line["input, ms"] == "2.000"
    assert float(line["waiting for input, %"]) == pytest.approx(100 * 0.002 / step, abs=0.06)
    # 16 samples of 3,074 bytes by each of two ranks.
    assert float(line["samples/s"]) == pytest.approx(32 / step, rel=1e-3)
    assert float(line["MB/s"]) == pytest.approx(32 * 3074 / step / 1e6, rel=1e-2)
    assert judged.traits.subject == "Training on samples in tar"
    assert judged.traits.task == "training on samples in tar"


def test_groups_of_a_network_have_three_tables(tmp_path: Path) -> None:
    series = reader.read(residents.write(tmp_path / "x.jsonl", residents.Truth()))
    cell = settled(input="raw", workload="resnet50")
    declared = series.session.declared
    named = replace(declared, workload={**declared.workload, **TRAIN.declared(cell)})
    facts: dict[str, Json] = {"workload": {"batch": 4, "multiply_adds": 4_089_184_256, "ranks": 1}}
    samples = tuple(
        replace(one, residents=tuple(replace(r, values={WAITED: 0.005}) for r in one.residents))
        for one in series.samples
    )
    other = replace(
        series,
        session=replace(series.session, declared=named),
        stacks=tuple(replace(one, facts={**one.facts, **facts}) for one in series.stacks),
        samples=samples,
    )
    found = TRAIN.traits(other).section
    titles = []
    while found is not None:
        titles.append(found.title)
        last, found = found, found.companion
    assert titles == [
        "Processes of the groups", "ResNet-50: operations and memory", "Waiting for input"
    ]  # fmt: skip
    line = dict(zip(last.head, last.rows[0], strict=True))
    assert line["input, ms"] == "5.000"
    assert float(line["compute, ms"]) == pytest.approx(float(line["step, ms"]) - 5, abs=0.002)
    names = [table.name for table in session_tables.open_tables(analyse(other))]
    assert names[names.index(titles[0]) :][:3] == titles
    body: Any = json_report._section(TRAIN.traits(other).section)
    assert body["beside"]["beside"]["title"] == "Waiting for input"
    # A file whose processes say less has no such table.
    mute = tuple(
        replace(one, residents=tuple(replace(r, values={}) for r in one.residents))
        for one in series.samples
    )
    assert session_titles(TRAIN.traits(replace(other, samples=mute)).section) == titles[:2]


def session_titles(section: Any) -> list[str]:
    return [section.title, *session_titles(section.companion)] if section else []
