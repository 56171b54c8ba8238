"""When times of repeated imports are believed: recorded times, of quiet and of busy machines."""

from collections.abc import Sequence

import pytest

from dlcontainer.errors import BenchDataError
from dlcontainer.lab.storm.repeats import (
    MOST_RUNS,
    ColdImport,
    MeasuringNode,
    ReadWaits,
    WarmImport,
    processor_s,
    settled,
    waits,
)

QUIET = MeasuringNode(cores=2, load_1min=0.4)
BUSY = MeasuringNode(cores=2, load_1min=9.62)

# `import numpy`, 8 times each, on 2 cores that others used too (load 8.6 to 9.6, 23 November 2026):
# seconds of the processor by rusage, and on the wall; then beside 1, 2 and 6 processes that spin.
ALONE = ((0.168, 0.25), (0.157, 0.28), (0.174, 0.31), (0.186, 0.32), (0.161, 0.36), (0.163, 0.28),
         (0.158, 0.34), (0.164, 0.36))  # fmt: skip
BESIDE_1 = ((0.137, 0.43), (0.151, 0.49), (0.128, 0.37), (0.124, 0.21), (0.134, 0.43),
            (0.145, 0.52), (0.172, 0.58), (0.164, 0.52))  # fmt: skip
BESIDE_2 = ((0.171, 0.86), (0.143, 0.73), (0.148, 0.66), (0.140, 0.65), (0.142, 0.66),
            (0.141, 0.65), (0.159, 0.84), (0.127, 0.30))  # fmt: skip
BESIDE_6 = ((0.132, 1.64), (0.136, 1.54), (0.127, 1.34), (0.145, 1.69), (0.148, 1.45),
            (0.162, 1.64), (0.159, 1.75), (0.153, 1.57))  # fmt: skip


def recorded(times: Sequence[tuple[float, float]]) -> tuple[WarmImport, ...]:
    runs = [WarmImport(processor_s=used, wall_s=wall) for used, wall in times]
    given = iter(runs * MOST_RUNS)
    return settled(lambda: next(given), BUSY)


def test_repeats_end_once_the_least_agree() -> None:
    assert len(recorded(ALONE)) == 3
    # The first was luck: a fourth, a fifth are asked for until three of the least agree.
    assert len(recorded([(0.5, 0.5), (0.9, 0.9), (0.8, 0.8), (0.52, 0.6), (0.53, 0.7)])) == 5
    # What takes next to nothing agrees within what is nothing beside a storm.
    assert len(recorded([(0.011, 0.02), (0.034, 0.05), (0.058, 0.09)])) == 3
    # Waiting alone for less than that is no busy machine either.
    assert len(recorded([(0.02, 2.9)])) == 3


@pytest.mark.parametrize("times", [BESIDE_1, BESIDE_2, BESIDE_6])
def test_others_at_work_changed_processor_time_less_than_the_wall_s(
    times: Sequence[tuple[float, float]],
) -> None:
    alone, beside = processor_s(recorded(ALONE)), processor_s(recorded(times))
    # In these times; another machine changed it by 1.86 (docs/measurements/storm.md).
    assert 1 / 1.3 <= beside / alone <= 1.3
    # The clock on the wall, which was taken for it before.
    assert max(wall for _, wall in times) > 2 * min(wall for _, wall in ALONE)


def test_a_machine_that_never_gives_a_core_is_refused_with_its_load() -> None:
    # As the recorded ones beside 6 processes that spin, of an import ten times as large.
    with pytest.raises(BenchDataError, match=r"too busy .* load 9\.6 on 2 cores") as caught:
        recorded([(10 * used, 10 * wall) for used, wall in BESIDE_6])
    assert "took 13.40 s for 1.27 s of processor time" in str(caught.value.why)
    assert "--loads" in str(caught.value.next_step)


def test_times_that_never_agree_are_refused() -> None:
    # Each a fifth more than the one before it: no three of the least agree.
    growing = [(1.2**number, 1.2**number) for number in range(MOST_RUNS)]
    with pytest.raises(BenchDataError, match="too busy") as caught:
        recorded(growing)
    assert "don't settle" in str(caught.value.why)


def test_a_loaded_machine_is_named_so() -> None:
    assert BUSY.is_shared
    assert not QUIET.is_shared


def answered(prompt: Sequence[float], late: Sequence[float], turns: float = 1000) -> ReadWaits:
    prompt_left, late_left = iter(prompt), iter(late)

    def cold(late_s: float) -> ColdImport:
        return ColdImport(wall_s=next(late_left if late_s else prompt_left), read_turns=turns)

    return waits(cold, 0.01)


def test_waits_are_the_least_times_apart() -> None:
    found = answered([1.0, 1.02], [7.0, 7.3])
    assert found.reads == pytest.approx(600)
    assert not found.is_bound
    # One slow run of the prompt ones, repeated: it is not taken for fewer waits.
    assert answered([3.9, 1.0, 1.01], [7.0, 7.2, 7.1]).reads == pytest.approx(600)


def test_waits_are_bounded_by_what_was_counted() -> None:
    found = answered([1.0, 1.0], [7.0, 7.0], turns=430)
    assert (found.reads, found.is_bound) == (430, True)
    assert answered([2.0, 2.0], [1.9, 1.9]).reads == 0


def test_waits_whose_times_never_settle_are_the_bound() -> None:
    # Least and most as measured of an image at load 12.5 on 2 cores (23 November 2026).
    found = answered([5.09, 2.09, 3.6], [11.39, 7.91, 9.3], turns=520)
    assert (found.reads, found.is_bound) == (520, True)
    assert len(found.late_s) == 3
