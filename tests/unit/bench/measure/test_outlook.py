"""What a session says beforehand: pairs of each kind, launches, seconds."""

from pathlib import Path

import pytest

from dlcontainer.bench.measure import outlook
from dlcontainer.bench.measure.outlook import MachineLoad
from dlcontainer.bench.samples.schedule import Schedule


def test_eight_pairs_are_twenty_with_controls_and_joiners() -> None:
    schedule = Schedule(looks=(8,), seed=1, controls=4, joiners=8)
    stages = schedule.stages(with_joiners=True)
    (line,) = outlook.lines(schedule, stages, lambda _: 2, 3.0)
    assert line == (
        "a result at 8 measured pairs: 20 pairs (8 measured, 8 of ranks that share a mount, "
        "4 control of native), 40 launches, about 2 min by the warm-up"
    )


def test_each_look_counts_what_came_before() -> None:
    schedule = Schedule(looks=(12, 18), seed=1, arms=("native", "unpacked", "container"))
    stages = schedule.stages(with_joiners=False)
    first, last = outlook.lines(schedule, stages, lambda _: 3, 1.0)
    assert "12 triples (12 measured), 36 launches" in first
    assert "18 triples (18 measured), 54 launches, about 54 s" in last


def test_the_load_is_said_beside_the_cores_and_is_a_warning_above_them() -> None:
    assert MachineLoad(load_1min=1.94, busy_cores=None).said(2) == "load 1.9 on 2 cores"
    busy = MachineLoad(load_1min=35.0, busy_cores=2.0).said(2)
    assert busy.startswith("warning: load 35.0 on 2 cores, 2.0 of them busy just then: others are")
    # What this program did in the minute before is nobody's work now.
    assert not MachineLoad(load_1min=3.6, busy_cores=0.04).said(2).startswith("warning")


def ticks(*cores: str) -> str:
    lines = (f"cpu{i} {line}" for i, line in enumerate(cores))
    return "\n".join(["cpu  9 9 9 9 9 9 9 9 0 0", *lines, "intr 1 2 3", "ctxt 4", ""])


@pytest.mark.parametrize(
    ("after", "busy"),
    [
        # user nice system idle iowait irq softirq steal guest guest_nice
        (("120 0 0 200 0 0 0 0 99 0", "0 0 0 120 200 0 0 0 0 0"), 1.0),
        (("100 0 0 218 2 0 0 0 0 0", "0 0 0 120 200 0 0 0 0 0"), 0.0),
        (("100 0 2 210 0 0 0 8 0 0", "5 5 0 110 200 0 0 0 0 0"), 1.0),
        (("100 0 0 200 0 0 0 0 0 0", "0 0 0 100 200 0 0 0 0 0"), None),
        (("100 0 0", ""), None),
    ],
)
def test_cores_that_are_busy_just_now(
    after: tuple[str, ...], busy: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = tmp_path / "stat"
    stat.write_text(ticks("100 0 0 200 0 0 0 0 0 0", "0 0 0 100 200 0 0 0 0 0"))
    monkeypatch.setattr("time.sleep", lambda _seconds: stat.write_text(ticks(*after)))
    assert outlook.load(stat=stat).busy_cores == busy


def test_a_machine_that_shows_no_ticks(tmp_path: Path) -> None:
    assert outlook.load(0, tmp_path / "none").busy_cores is None


LONG = Schedule(looks=(8, 16), seed=1, controls=16, candidate_controls=9, joiners=16)


def test_on_a_busy_machine_the_first_look_is_the_last() -> None:
    seen = MachineLoad(load_1min=11.0, busy_cores=2.0)
    schedule, why = outlook.one_look(LONG, seen, 2)
    # What nothing is decided by is not controlled either.
    assert schedule == Schedule(looks=(8,), seed=1)
    assert why is not None
    assert "too busy to decide: load 11.0 on 2 cores, 2.0 of them busy just then" in why
    assert "says nothing about the container" in why
    assert "measure again" in why


@pytest.mark.parametrize(
    "seen",
    [
        MachineLoad(load_1min=0.1, busy_cores=0.0),
        # What this program did in the minute before is nobody's work now.
        MachineLoad(load_1min=11.0, busy_cores=0.1),
        MachineLoad(load_1min=1.9, busy_cores=None),
    ],
)
def test_on_an_idle_machine_all_looks_are_taken(seen: MachineLoad) -> None:
    assert outlook.one_look(LONG, seen, 2) == (LONG, None)


def test_a_time_that_is_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 200.0)
    assert outlook.left(100.0, 0, 5) == ""
    assert outlook.left(100.0, 10, 5) == "in about 50 s"
    assert outlook.left(100.0, 1, 3) == "in about 5 min"
