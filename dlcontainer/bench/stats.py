"""Statistics of paired launches: pure functions of log-ratios; no file, no clock, no random number.

One number a pair: d = log(time of the candidate / time of the reference). The model is
d = arm + order, where the launch that ran second may be slower or faster by a common factor; the
degrees of freedom are n - 2. SciPy (`dlcontainer[report]`) gives the distributions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dlcontainer.errors import ConfigError

# Looks at the same growing data spend alpha. A constant two-sided level per look that holds the
# whole at 0.05; simulated for a normal walk: 0.046 over looks at 8, 16, 32 (0.11-0.12 without).
SPENT: dict[tuple[tuple[int, ...], float], float] = {((8, 16, 32), 0.05): 0.019}

ROBUST_FROM = 6  # no signed-rank interval at 95 % exists below
LARGEST_PLAN = 10_000
_NODES = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One pair: its number, d, and whether the candidate ran before the reference."""

    number: int
    d: float
    candidate_first: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A ratio with its two-sided interval at `level`."""

    ratio: float
    low: float
    high: float
    level: float

    def excludes_one(self) -> bool:
        """Whether the whole interval lies on one side of 1."""
        return self.low > 1 or self.high < 1

    def within(self, margin: float) -> bool:
        """Whether the whole interval lies in [1/(1+m), 1+m]."""
        return self.low >= 1 / (1 + margin) and self.high <= 1 + margin

    def beyond(self, margin: float) -> bool:
        """Whether the whole interval lies outside of [1/(1+m), 1+m]."""
        return self.low > 1 + margin or self.high < 1 / (1 + margin)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """The model fitted; logs throughout.

    `order_effect` is the log of the factor by which running second changes a launch; `sd` that of
    one pair's d around the model; `adjusted` the d without the order effect, this one estimated
    robustly: one far launch would else shift every pair of its order. Where the model
    cannot be fitted (fewer than 3 pairs, or one order only) `df` is 0 and `se` infinite.
    """

    numbers: tuple[int, ...]
    adjusted: tuple[float, ...]
    mean: float
    order_effect: float
    sd: float
    se: float
    df: int

    @property
    def n(self) -> int:
        """The number of pairs."""
        return len(self.numbers)


def fit(differences: Sequence[Difference]) -> Fit:
    """Fit d ~ arm + order by least squares (each order's mean; their half sum and difference).

    Raises ValueError without any pair.
    """
    if not differences:
        raise ValueError("no pairs")
    numbers = tuple(item.number for item in differences)
    after = [item.d for item in differences if not item.candidate_first]
    before = [item.d for item in differences if item.candidate_first]
    if not after or not before or len(differences) < 3:
        d = tuple(item.d for item in differences)
        nan = math.nan
        return Fit(
            numbers=numbers, adjusted=d, mean=_mean(d), order_effect=nan, sd=nan, se=math.inf, df=0
        )
    order = (_mean(after) - _mean(before)) / 2
    mean = (_mean(after) + _mean(before)) / 2
    df = len(differences) - 2
    squares = [(item.d - mean + _signed(order, item)) ** 2 for item in differences]
    sd = math.sqrt(math.fsum(squares) / df)
    se = sd / 2 * math.sqrt(1 / len(after) + 1 / len(before))
    # Hodges and Lehmann's shift between the two orders: the median of all differences.
    shift = _median(sorted(one - other for one in after for other in before)) / 2
    adjusted = tuple(item.d + _signed(shift, item) for item in differences)
    return Fit(
        numbers=numbers, adjusted=adjusted, mean=mean, order_effect=order, sd=sd, se=se, df=df
    )


def _signed(order: float, item: Difference) -> float:
    return order if item.candidate_first else -order


def interval(fitted: Fit, level: float) -> Interval:
    """Give the ratio and its t interval; [0, inf] where the model could not be fitted."""
    return _t_interval(fitted.mean, fitted, level)


def order_interval(fitted: Fit, level: float) -> Interval:
    """Give the factor of running second and its t interval."""
    return _t_interval(fitted.order_effect, fitted, level)


def _t_interval(centre: float, fitted: Fit, level: float) -> Interval:
    if fitted.df < 1:
        return Interval(ratio=math.exp(centre), low=0.0, high=math.inf, level=level)
    half = float(_scipy().t.isf((1 - level) / 2, fitted.df)) * fitted.se
    return Interval(
        ratio=math.exp(centre),
        low=math.exp(centre - half),
        high=_exp(centre + half),
        level=level,
    )


def robust_interval(values: Sequence[float], level: float) -> Interval | None:
    """Give the Hodges-Lehmann ratio and its signed-rank interval (Walsh averages).

    The attainable level nearest to the asked one is taken: the interval is a diagnostic. None
    below 6 pairs and where no interval reaches the level. Source: Hollander, Wolfe & Chicken,
    Nonparametric Statistical Methods, 3.2-3.3.
    """
    n = len(values)
    if n < ROBUST_FROM or 1 - 2 ** (1 - n) < level:
        return None
    walsh = sorted((values[i] + values[j]) / 2 for i in range(n) for j in range(i, n))
    cut, attained = _signed_rank_cut(n, (1 - level) / 2)
    return Interval(
        ratio=math.exp(_median(walsh)),
        low=math.exp(walsh[cut]),
        high=math.exp(walsh[-1 - cut]),
        level=attained,
    )


def _signed_rank_cut(n: int, tail: float) -> tuple[int, float]:
    # counts[w]: how many of the 2^n sign patterns have the rank sum w.
    counts = [1]
    for rank in range(1, n + 1):
        counts = [
            (counts[w] if w < len(counts) else 0) + (counts[w - rank] if w >= rank else 0)
            for w in range(len(counts) + rank)
        ]
    below, best = 0, (0, 0.0)
    for w, count in enumerate(counts):
        below += count
        share = below / 2**n
        if abs(share - tail) < abs(best[1] - tail) or w == 0:
            best = (w, share)
        if share > tail:
            break
    return best[0], 1 - 2 * best[1]


def outlying(fitted: Fit) -> tuple[int, ...]:
    """Name the pairs more than 3 robust sd from the median, else the farthest; none is deleted."""
    middle = _median(sorted(fitted.adjusted))
    away = [abs(d - middle) for d in fitted.adjusted]
    spread = 1.4826 * _median(sorted(away))  # the MAD of a normal sample, as its sd
    far = [n for n, size in zip(fitted.numbers, away, strict=True) if size > 3 * spread]
    return tuple(far) or (fitted.numbers[away.index(max(away))],)


def spent_alpha(looks: Sequence[int], alpha: float) -> float:
    """Give the level of each look: alpha for one, the table's, else Bonferroni's, always valid."""
    if len(looks) <= 1:
        return alpha
    return SPENT.get((tuple(looks), alpha), alpha / len(looks))


def power_equivalent(n: int, sd: float, margin: float, alpha: float, truth: float) -> float:
    """Give the probability that n pairs end EQUIVALENT within the margin at a true log-ratio.

    Exact for normal d: the mean over the distribution of the sample's sd (400 quantiles).
    """
    if n < 3:
        return 0.0
    scipy_stats, root = _scipy(), math.sqrt(n)
    quantiles = [(node + 0.5) / _NODES for node in range(_NODES)]
    scales = [math.sqrt(x / (n - 2)) for x in scipy_stats.chi2.ppf(quantiles, n - 2)]
    t = float(scipy_stats.t.isf(alpha, n - 2))
    total = 0.0
    for scale in scales:
        room = math.log1p(margin) - t * scale * sd / root
        if room > 0:
            total += _normal((room - truth) * root / sd) - _normal((-room - truth) * root / sd)
    return total / _NODES


def power_different(n: int, sd: float, alpha: float, truth: float) -> float:
    """Give the probability that n pairs exclude 1 in the right direction at a true log-ratio."""
    if n < 3:
        return 0.0
    scipy_stats = _scipy()
    critical = float(scipy_stats.t.isf(alpha / 2, n - 2))
    return float(scipy_stats.nct.sf(critical, n - 2, abs(truth) * math.sqrt(n) / sd))


def pairs_needed(
    sd: float, margin: float, alpha: float, *, equivalence: bool, power: float = 0.9
) -> int | None:
    """Give the pairs for a power of 0.9, never fewer than 8; None above 10,000.

    For equivalence at a true +0.5 % (a quarter of the margin where that is less), because nothing
    is ever exactly equal; else for a true difference of one margin.
    """
    if not sd > 0:
        return 8
    truth = min(math.log1p(0.005), math.log1p(margin) / 4)

    def enough(n: int) -> bool:
        if equivalence:
            return power_equivalent(n, sd, margin, alpha, truth) >= power
        return power_different(n, sd, alpha, math.log1p(margin)) >= power

    low, high = 7, 8
    while not enough(high):
        low, high = high, high * 2
        if high > LARGEST_PLAN:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _normal(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _median(ordered: Sequence[float]) -> float:
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def _scipy() -> Any:
    try:
        import scipy.stats
    except ImportError:
        raise ConfigError(
            "the statistics need SciPy, which is not installed",
            next_step="pip install 'dlcontainer[report]'",
        ) from None
    return scipy.stats
