"""Kernels beside the work: two gate, three may be the container's own."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.analysis import calibration
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report.tables import calibration_table
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.records import Json, Sample
from dlcontainer.bench.samples.vocabulary import ArmPair
from tests import benchseries
from tests.benchseries import FACTS, INSIDE, Plan
from tests.judging import analyse

TIMES = {"integer": 0.03, "bandwidth": 0.02, "malloc": 2e-5, "syscall": 2e-7, "open": 3e-6}
# Of the same distribution's build, and mounted in the same way: nothing explains anything.
ALIKE = {**INSIDE, "sys_prefix_mount": FACTS["sys_prefix_mount"]}


def analysed(
    folder: Path,
    ratios: dict[str, float],
    candidate: dict[str, Json] | None = None,
    scatter: float = 0.01,
) -> Analysis:
    """Analyse a session whose kernels take so many times as long in the container."""
    drawn = random.Random(3)

    def change(sample: Sample) -> Sample:
        times = {
            f"calibration_{kernel}_s": time
            * drawn.lognormvariate(0, scatter)
            * (ratios.get(kernel, 1.0) if sample.arm == "container" else 1.0)
            for kernel, time in TIMES.items()
        }
        return replace(sample, values={**sample.values, **times})

    settled: dict[str, Json] = {"calibration": dict(calibration.DECLARED)}
    plan = Plan(pairs=16, candidate=candidate or ALIKE, change=change, declared=settled)
    return analyse(reader.read(benchseries.write(folder / "a.jsonl", plan)))


def test_sides_that_are_alike_are_not_refused(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, {})
    assert len(analysis.calibration) == 5
    assert not any(item.refuses for item in analysis.calibration)
    assert analysis.verdict.word == "EQUIVALENT"
    table = calibration_table.of(analysis)
    assert len(table.rows) == 5
    assert table.rows[0][-1] == "no difference beyond 2 % is shown"
    # They are none of the session's other figures.
    assert not any(f.metric.startswith("calibration_") for f in analysis.secondary)


@pytest.mark.parametrize(
    ("kernel", "task"), [("integer", "an integer loop"), ("bandwidth", "copying in memory")]
)
def test_a_kernel_that_has_nothing_to_do_with_a_container_refuses(
    tmp_path: Path, kernel: str, task: str
) -> None:
    verdict = analysed(tmp_path, {kernel: 1.10}).verdict
    assert verdict.word == "NOT COMPARABLE"
    (reason,) = verdict.reasons
    assert reason.startswith(f"{task} takes 1.")
    assert reason.endswith("the same code on both sides, and nothing of a container's")
    assert "allowed: 2 %" in reason


def test_a_sure_and_small_difference_does_not(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, {"integer": 1.01}, scatter=0.001)
    assert analysis.calibration[0].interval.excludes_one()
    assert analysis.verdict.word == "EQUIVALENT"


def test_a_large_and_unsure_difference_does_not(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, {"integer": 1.05}, scatter=0.5)
    assert not analysis.calibration[0].refuses


def test_what_an_attested_fact_explains_is_the_runtimes_own(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, {"open": 8.0}, candidate=INSIDE)
    opened = analysis.calibration[-1]
    assert opened.differs
    assert opened.explained_by == ("sys_prefix_mount",)
    assert analysis.verdict.word == "EQUIVALENT"
    assert calibration_table.of(analysis).rows[-1][-1] == "the runtime's own, by sys_prefix_mount"


@pytest.mark.parametrize("kernel", ["malloc", "syscall", "open"])
def test_what_nothing_explains_refuses(tmp_path: Path, kernel: str) -> None:
    analysis = analysed(tmp_path, {kernel: 1.5})
    assert analysis.verdict.word == "NOT COMPARABLE"
    assert "nothing that the sides attest is a reason for it" in analysis.verdict.reasons[0]
    assert len(calibration_table.of(analysis).strong) == 1


def test_the_mount_of_an_image_explains_an_open_beside_its_unpacked_tree(tmp_path: Path) -> None:
    # Seen as a user on Debian 12: both show "overlay" inside, and an open took 4.8 times as long.
    series = analysed(tmp_path, {"open": 4.8, "syscall": 1.5}).series
    sides = ArmPair(reference="unpacked", candidate="container")
    found = {item.kernel: item for item in calibration.read(series, sides, ())}
    assert found["open"].differs
    assert found["open"].explained_by == ("image mount",)
    assert not found["open"].refuses
    assert found["syscall"].refuses


def test_older_sessions_declared_none(tmp_path: Path) -> None:
    found = analyse(reader.read(benchseries.write(tmp_path / "a.jsonl", Plan())))
    assert found.calibration == ()
    assert calibration_table.of(found).rows == ()
