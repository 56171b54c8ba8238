"""What a count leaves open, against SciPy's exact interval."""

import pytest

from dlcontainer.bench.stats.counts import rate_bounds, rate_not_excluded


@pytest.mark.parametrize(("events", "count"), [(0, 8), (0, 16), (0, 32), (1, 8), (3, 40), (7, 7)])
def test_the_rate_is_clopper_and_pearsons(events: int, count: int) -> None:
    import scipy.stats

    wanted = scipy.stats.binomtest(events, count, alternative="less").proportion_ci(0.95).high
    assert rate_not_excluded(events, count) == pytest.approx(float(wanted), abs=1e-9)


def test_the_rates_of_the_protocol() -> None:
    assert [round(100 * rate_not_excluded(0, n)) for n in (8, 16, 32)] == [31, 17, 9]


@pytest.mark.parametrize(("events", "count"), [(0, 8), (8, 8), (1, 8), (3, 40), (160, 400), (0, 0)])
def test_the_bounds_are_clopper_and_pearsons(events: int, count: int) -> None:
    import scipy.stats

    wanted = (0.0, 1.0)
    if count:
        interval = scipy.stats.binomtest(events, count).proportion_ci(0.95)
        wanted = (float(interval.low), float(interval.high))
    assert rate_bounds(events, count) == pytest.approx(wanted, abs=1e-9)
