"""The interval by ranks against scipy's."""

import math
import statistics
from collections.abc import Sequence

import pytest

from dlcontainer.bench.stats import hodges_lehmann, paired
from tests.unit.bench.stats.test_paired import fit, normal


def robust(values: Sequence[float], level: float) -> paired.Interval | None:
    return hodges_lehmann.interval(hodges_lehmann.walsh(values), len(values), level)


@pytest.mark.parametrize("n", [6, 7, 8, 12, 20, 32])
def test_the_rank_interval_inverts_scipys_signed_rank_test(n: int) -> None:
    import numpy
    import scipy.stats

    values = normal(n, 0.01, 0.02, n)
    found = robust(values, 0.9)
    assert found is not None

    def p(shift: float) -> float:
        return float(scipy.stats.wilcoxon(numpy.array(values) - shift, method="exact").pvalue)

    tail = 1 - found.level
    nudge = 1e-9
    for bound, inward in ((math.log(found.low), nudge), (math.log(found.high), -nudge)):
        assert p(bound + inward) > tail * (1 + 1e-9)
        assert p(bound - inward) <= tail * (1 + 1e-9)
    walsh = [(a + b) / 2 for i, a in enumerate(values) for b in values[i:]]
    assert found.ratio == pytest.approx(math.exp(float(numpy.median(walsh))))


@pytest.mark.parametrize("tail", [0.05, 0.025, 0.019, 0.0095])
def test_of_many_pairs_the_rank_interval_is_normal(
    tail: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in (30, 60):
        exact, _ = hodges_lehmann.cut.__wrapped__(n, tail)
        monkeypatch.setattr(hodges_lehmann, "_EXACT", 10)
        normal_cut, level = hodges_lehmann.cut.__wrapped__(n, tail)
        monkeypatch.undo()
        assert abs(exact - normal_cut) <= 2
        assert level == 1 - 2 * tail


def test_of_very_many_pairs_there_is_no_rank_interval() -> None:
    values = normal(hodges_lehmann.MOST + 1, 0.01, 0.02)
    assert hodges_lehmann.walsh(values) == ()
    assert robust(values, 0.9) is None
    fitted = fit(values)
    assert statistics.median(fitted.adjusted) == pytest.approx(0.01, abs=0.002)


def test_of_hundreds_of_normal_pairs_ranks_and_mean_agree() -> None:
    found = robust(normal(400, 0.01, 0.02), 0.95)
    assert found is not None
    assert found.low < math.exp(0.01) < found.high
    oracle = paired.interval(fit(normal(400, 0.01, 0.02)), 0.95)
    assert found.low == pytest.approx(oracle.low, abs=5e-4)


def test_there_is_no_rank_interval_of_few_pairs() -> None:
    assert robust(normal(5, 0, 1), 0.9) is None
    assert robust(normal(6, 0, 1), 0.981) is None
    assert robust(normal(8, 0, 1), 0.981) is not None
