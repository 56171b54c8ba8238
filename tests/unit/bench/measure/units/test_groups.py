"""Sessions of resident groups, with processes that are threads of a fake."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Unpack

import pytest

from dlcontainer.bench.measure.units import availability
from dlcontainer.bench.report import html_report
from dlcontainer.bench.samples import continuation, reader
from dlcontainer.bench.samples.resident import agreement, order
from dlcontainer.bench.samples.series import Series
from dlcontainer.config.resources import probe_files
from dlcontainer.errors import BenchDataError, UsageError
from dlcontainer.system import digests
from dlcontainer.system.process import CompletedCommand, Runner, RunOptions
from tests.benchrunner import Bench, ProbeRunner
from tests.judging import analyse
from tests.residents import STEP_S, Odd, ResidentRunner, short
from tests.unit.bench.report.test_html_report import TEMPLATES

PAIRS = 2


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    short(monkeypatch)
    return Bench(tmp_path, unit="groups")


def run(bench: Bench, runner: Runner, **changes: Any) -> Series:
    bench.run(runner, probe="train", **{"threads": 1, "looks": (PAIRS,), **changes})
    return bench.read()


def test_a_whole_session(bench: Bench) -> None:
    runner = ResidentRunner(ratio=lambda contained: 1.2 if contained else 1.0)
    series = run(bench, runner)
    assert series.complete
    declared = series.session.declared
    plan = declared.groups
    assert plan is not None
    assert (declared.version, declared.unit, declared.control_pairs) == (4, "groups", 0)
    assert plan.turn_steps == 5  # 2 ms of the quickest step of 0.5 ms, and 10 %
    assert declared.steps == plan.steps == 2 * 4 * 5
    assert [(s.role, s.arm) for s in series.samples[:2]] == [
        ("warmup", "native"), ("warmup", "container"),
    ]  # fmt: skip
    parts = list(series.samples)[2:]
    assert [(s.role, s.pair, s.position) for s in parts] == [
        ("pair", 1, 0), ("pair", 1, 1), ("pair", 2, 0), ("pair", 2, 1),
    ]  # fmt: skip
    for part in parts:
        step = STEP_S * (1.2 if part.arm == "container" else 1.0)
        assert part.wall_s == pytest.approx(plan.steps * step)
        assert part.values["step_p95_s"] == pytest.approx(step)
        assert part.values["loss"] == [2.0, 1.0]
    assert parts[0].figure("counts.max_rss_mb") == 300.0
    page = html_report.html([analyse(series)], TEMPLATES)
    assert "2 groups" in page
    assert "Processes of the groups" in page


def test_one_process_is_at_work_at_a_time_and_each_group_has_new_ones(bench: Bench) -> None:
    runner = ResidentRunner()
    series = run(bench, runner)
    assert runner.together == 0
    assert len(runner.starts) == 2 + 4 * PAIRS
    plan = series.session.declared.groups
    assert plan is not None
    stages = agreement.schedule(series.session.declared)
    drawn = [order.drawn(5, group, plan) for group in stages[0]]
    assert runner.starts[2:] == [name for one in drawn for name in one.start]
    begun = [one for part in list(series.samples)[2:4] for one in part.residents]
    assert [one.name for one in sorted(begun, key=lambda one: one.started_s)] == list(
        drawn[0].start
    )
    turns = sorted((turn.start_s, one.name) for one in begun for turn in one.turns)
    assert [name for _, name in turns] == [name for each in drawn[0].rounds for name in each.turns]


def test_each_process_makes_its_trainer_anew(bench: Bench) -> None:
    made: list[str] = []

    def odd(name: str, _start: int, text: str) -> None:
        if text == "make":
            made.append(name)

    series = run(bench, ResidentRunner(odd=odd), looks=(1,))
    plan = series.session.declared.groups
    assert plan is not None
    group = agreement.schedule(series.session.declared)[0][0]
    drawn = order.drawn(5, group, plan)
    assert made[2:] == [name for each in drawn.rounds for name in each.makes]
    for one in list(series.samples)[2].residents:
        assert [turn.trainer for turn in one.turns] == [1, 2, 3, 4]


def test_threads_of_a_group_are_not_those_of_a_launch(bench: Bench) -> None:
    series = run(bench, ResidentRunner(), threads=8, group_threads=1, looks=(1,))
    declared = series.session.declared
    assert declared.workload["threads"] == 1
    assert declared.groups is not None
    assert len(declared.groups.cpus) == 1
    assert "--threads 1" in " ".join(series.session.arms["native"].argv)


def test_four_of_each_arm(bench: Bench) -> None:
    runner = ResidentRunner()
    bench.group = 4
    series = run(bench, runner, looks=(1,))
    assert len(series.samples[2].residents) == 4
    assert len(runner.starts) == 2 + 8
    bench.group = 5
    with pytest.raises(UsageError, match="at most 4"):
        run(bench, ResidentRunner(), output=bench.folder / "b.jsonl")


def once(name: str, text: str, said: str) -> Odd:
    """Let a process of a group do this once."""
    left = [said]

    def odd(who: str, start: int, asked: str) -> str | None:
        right = who == name and start > 2 and asked.startswith(text)
        return left.pop() if right and left else None

    return odd


NONSENSE = json.dumps({"start_s": -1, "steps_s": [1]})


@pytest.mark.parametrize(
    ("text", "said", "reason"),
    [
        ("turn", "dies", "ended by signal 11"),
        ("make", "dies", "ended by signal 11"),
        ("turn", NONSENSE, "not whole"),
        ("turn", "[1]", "no JSON object"),
    ],
)
def test_a_group_that_loses_a_process_is_measured_again(
    bench: Bench, text: str, said: str, reason: str
) -> None:
    series = run(bench, ResidentRunner(odd=once("c1", text, said)))
    assert series.complete
    lost = series.lost[0]
    assert (lost.arm, lost.process) == ("container", "c1")
    assert reason in lost.reason
    assert len(series.lost) == 1
    assert [s.pair for s in series.samples] == [0, 0, 1, 1, 2, 2]


def test_more_lost_groups_than_were_declared(bench: Bench) -> None:
    def odd(name: str, start: int, text: str) -> str | None:
        return "dies" if name == "n1" and start > 2 and text == "make" else None

    with pytest.raises(BenchDataError, match="more groups were lost than the 2") as caught:
        run(bench, ResidentRunner(odd=odd))
    assert "Segmentation fault" in str(caught.value)
    series = bench.read()
    assert not series.complete
    assert [one.arm for one in series.lost] == ["native"] * 3


def test_the_warm_up_loses_a_process(bench: Bench) -> None:
    runner = ResidentRunner(odd=lambda name, *_: "dies" if name == "c0" else None)
    with pytest.raises(BenchDataError, match="container, launch 0: process c0: ended by signal 11"):
        run(bench, runner)
    assert not bench.read().complete


def test_a_process_that_spins_while_it_waits(bench: Bench) -> None:
    with pytest.raises(BenchDataError, match="use processor time while they wait for their turn"):
        run(bench, ResidentRunner(spun_s=0.01))
    assert not (bench.folder / "samples.jsonl").exists()


def test_launches_where_a_process_would_spin(bench: Bench) -> None:
    bench.unit = None
    fresh, resident = ProbeRunner(), ResidentRunner(spun_s=0.01)

    def runner(argv: Sequence[str], **options: Unpack[RunOptions]) -> CompletedCommand:
        return (resident if "--baton" in argv else fresh)(argv, **options)

    series = run(bench, runner, controls=1)
    assert series.session.declared.groups is None
    assert series.session.declared.control_pairs == 1
    assert series.complete


def test_the_gap_is_longer_than_the_longest_spin(bench: Bench) -> None:
    plan = run(bench, ResidentRunner(spun_s=0.004), looks=(1,)).session.declared.groups
    assert plan is not None
    assert plan.gap_s == 0.006


def test_spinning_that_was_not_seen_before_loses_the_group(bench: Bench) -> None:
    runner = ResidentRunner()

    def odd(_name: str, start: int, _text: str) -> None:
        runner.spun_s = 0.0 if start <= 2 or len(runner.starts) > 6 else 0.5

    runner.odd = odd
    series = run(bench, runner)
    assert [one.reason for one in series.lost] == [
        "it used 0.500 s of processor time while others had their turn"
    ]


def test_a_side_that_changes_within_the_session(bench: Bench) -> None:
    runner = ResidentRunner()

    def odd(_name: str, start: int, _text: str) -> None:
        runner.stack = {"python": "3.11.2", "threads": 2 if start > 6 else 1}

    runner.odd = odd
    with pytest.raises(BenchDataError, match="changed within the session: threads"):
        run(bench, runner)


def test_a_session_goes_on(bench: Bench) -> None:
    whole = run(bench, ResidentRunner())
    path = whole.path
    lines = path.read_text().splitlines(keepends=True)
    # The second group's other half was never written.
    path.write_text("".join(lines[:8]))
    begun = continuation.read(path)
    series = run(bench, ResidentRunner(), cut=begun)
    assert series.complete
    assert series.resumes[0].aside == (4,)
    used = [(sample.pair, sample.position) for sample in continuation.used(series)]
    assert used == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert reader.read(path).session.declared == whole.session.declared


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"has_controls": True}, "--controls are pairs of launches"),
        ({"threads": 4096}, "no NUMA node has a core for each of 4096 threads"),
    ],
)
def test_launches_where_groups_cannot_run(
    bench: Bench, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UsageError, match="--unit groups") as caught:
        run(bench, ProbeRunner(), **changes)
    assert reason in str(caught.value)
    bench.unit = None
    series = run(bench, ProbeRunner(), **changes)
    assert (series.session.declared.version, series.session.declared.groups) == (3, None)


def test_groups_are_the_default_where_they_can_run(bench: Bench) -> None:
    bench.unit = None
    assert run(bench, ResidentRunner(), looks=(1,)).session.declared.unit == "groups"


def test_an_image_with_another_probe_would_not_understand_the_orders() -> None:
    own = probe_files()
    carried = {path.name: digests.of_file(path) for path in own}
    settings: Any = SimpleNamespace(probe_files=own)

    def is_other(files: dict[str, str]) -> bool:
        sides: Any = SimpleNamespace(candidate=SimpleNamespace(probe_files=files))
        return availability._is_other_probe(settings, sides)

    assert not is_other(carried)
    assert not is_other({})  # an image that can't tell
    assert is_other({**carried, "baton.py": "0" * 64})
    del carried["baton.py"]
    assert is_other(carried)
