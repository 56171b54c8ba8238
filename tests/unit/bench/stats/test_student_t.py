"""Student's distribution and the power against SciPy's."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlcontainer.bench.stats import power, student_t


# SciPy rounds t below 1e-8 to 0; ours is held against the slope of the tail there, below.
@given(st.floats(-60, 60).filter(lambda t: abs(t) > 1e-6 or t == 0), st.integers(1, 3000))
@settings(max_examples=300)
def test_the_tail_is_scipys(t: float, df: int) -> None:
    import scipy.stats

    assert student_t.tail(t, df) == pytest.approx(float(scipy.stats.t.sf(t, df)), rel=1e-9)


@given(st.floats(1e-300, 1e-6), st.integers(1, 3000))
def test_the_tail_near_zero_is_a_line(t: float, df: int) -> None:
    import scipy.stats

    slope = float(scipy.stats.t.pdf(0, df))
    assert student_t.tail(t, df) == pytest.approx(0.5 - slope * t, abs=1e-14)


@given(st.floats(1e-6, 0.999), st.integers(1, 500))
@settings(max_examples=200)
def test_the_quantile_is_scipys(above: float, df: int) -> None:
    import scipy.stats

    wanted = float(scipy.stats.t.isf(above, df))
    assert student_t.quantile(above, df) == pytest.approx(wanted, rel=1e-8, abs=1e-9)


def test_a_published_table() -> None:
    # Student's t, two-sided 95 %.
    for df, t in ((1, 12.706), (2, 4.303), (6, 2.447), (14, 2.145), (30, 2.042), (120, 1.980)):
        assert round(student_t.quantile(0.025, df), 3) == t


@pytest.mark.parametrize("above", [0.0, 1.0, -0.1, 2.0, math.nan])
def test_what_is_no_probability(above: float) -> None:
    with pytest.raises(ValueError, match="probability"):
        student_t.quantile(above, 5)


@pytest.mark.parametrize("n", [3, 4, 8, 32, 400])
@pytest.mark.parametrize("effect", [0.0, 0.3, 1.5])
def test_the_power_of_a_difference_is_the_noncentral_t(n: int, effect: float) -> None:
    import scipy.stats

    critical = scipy.stats.t.isf(0.025, n - 2)
    wanted = float(scipy.stats.nct.sf(critical, n - 2, effect * math.sqrt(n)))
    found = power.different(n, 0.01, 0.05, effect * 0.01)
    assert found == pytest.approx(wanted, abs=2e-4 if n == 3 else 1e-6)


@pytest.mark.parametrize("n", [3, 4, 8, 32])
@pytest.mark.parametrize("truth", [0.0, 0.005])
def test_the_power_of_equivalence_is_scipys_integral(n: int, truth: float) -> None:
    import scipy.integrate
    import scipy.stats

    sd, margin, df = 0.012, math.log1p(0.02), n - 2
    t, se = scipy.stats.t.isf(0.05, df), sd / math.sqrt(n)

    def chance(scale: float) -> float:
        room = margin - t * scale * se
        if room <= 0:
            return 0.0
        inside = scipy.stats.norm.cdf((room - truth) / se) - scipy.stats.norm.cdf(
            (-room - truth) / se
        )
        return float(inside * scipy.stats.chi.pdf(scale * math.sqrt(df), df) * math.sqrt(df))

    wanted, _ = scipy.integrate.quad(chance, 0, margin / (t * se))
    assert power.equivalent(n, sd, 0.02, 0.05, truth) == pytest.approx(wanted, abs=2e-3)


def test_no_power_of_two_pairs() -> None:
    assert power.equivalent(2, 0.01, 0.02, 0.05, 0.0) == 0
    assert power.different(2, 0.01, 0.05, 0.5) == 0


def test_pairs_for_a_site_to_be_qualified() -> None:
    # The protocol's 16, 24 and 48 are without the correction for neighbours' correlation.
    found = [
        power.pairs_needed(sd, 0.01, 0.05, equivalence=True, truth=0.0)
        for sd in (0.01, 0.014, 0.02)
    ]
    assert found == [18, 30, 53]
    for wanted, sd in ((16, 0.01), (24, 0.014), (48, 0.02)):
        assert power.equivalent(wanted, sd, 0.01, 0.05, 0.0) > 0.9


def test_the_scales_are_a_distribution() -> None:
    import numpy

    for df in (1, 2, 6, 30, 5000):
        weights = numpy.array(power._scales(df))
        assert weights[:, 0].sum() == pytest.approx(1, abs=3e-3 if df == 1 else 1e-6)
        mean_square = (weights[:, 0] * weights[:, 1] ** 2).sum()
        assert mean_square == pytest.approx(1, abs=3e-3 if df == 1 else 1e-6)
