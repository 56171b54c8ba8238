"""What a session says beforehand: pairs of each kind, launches, seconds."""

from dlcontainer.bench.measure import outlook
from dlcontainer.bench.samples.schedule import Schedule


def test_eight_pairs_are_twenty_with_controls_and_joiners() -> None:
    schedule = Schedule(looks=(8,), seed=1, controls=4, joiners=8)
    stages = schedule.stages(with_joiners=True)
    (line,) = outlook.lines(schedule, stages, lambda _: 2, 3.0)
    assert line == (
        "to the look at 8 pairs: 20 pairs (8 measured, 8 joiners, 4 control of native), "
        "40 launches, about 120 s by the warm-up"
    )


def test_each_look_counts_what_came_before() -> None:
    schedule = Schedule(looks=(12, 18), seed=1, arms=("native", "unpacked", "container"))
    stages = schedule.stages(with_joiners=False)
    first, last = outlook.lines(schedule, stages, lambda _: 3, 1.0)
    assert "12 triples (12 measured), 36 launches" in first
    assert "18 triples (18 measured), 54 launches, about 54 s" in last


def test_the_load_is_said_beside_the_cores_and_is_a_warning_above_them() -> None:
    assert outlook.load(1.94, 2) == "load 1.9 on 2 cores"
    busy = outlook.load(35.0, 2)
    assert busy.startswith("warning: load 35.0 on 2 cores: others are at work here")
