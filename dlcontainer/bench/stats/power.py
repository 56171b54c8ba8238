"""How likely n pairs decide, and how many are needed. Pure; exact for normal d."""

import math
from dataclasses import dataclass

from dlcontainer.bench.stats import margins, neighbours, student_t
from dlcontainer.bench.stats.neighbours import Rule

LARGEST_PLAN = 10_000
FEWEST = 8
BLOCK = 4  # pairs come in blocks, in which the orders are balanced
POWER = 0.9
_MARGIN_STEP = 1e-4
_NODES = 400  # even: Simpson's rule
_WIDTH = 9.0  # in standard deviations of the sample's sd


@dataclass(frozen=True, kw_only=True, slots=True)
class Scatter:
    """The sd of a unit, and how its neighbours are taken to resemble each other."""

    sd: float
    rule: Rule = "launches"

    def of(self, n: int) -> float:
        """Return the sd that n units are planned with."""
        return self.sd * lag_cost(n, self.rule)


def equivalent(n: int, sd: float, margin: float, alpha: float, truth: float) -> float:
    """Return the probability that n pairs end EQUIVALENT within the margin at a true log-ratio."""
    if n < 3:
        return 0.0
    root, t = math.sqrt(n), student_t.quantile(alpha, n - 2)
    total = 0.0
    for weight, scale in _scales(n - 2):
        room = margins.band(margin).half_width - t * scale * sd / root
        if room > 0:
            above, below = (room - truth) * root / sd, (-room - truth) * root / sd
            total += weight * (_normal(above) - _normal(below))
    return total


def different(n: int, sd: float, alpha: float, truth: float) -> float:
    """Return the probability that n pairs exclude 1 in the right direction at a true log-ratio."""
    if n < 3:
        return 0.0
    shift, t = abs(truth) * math.sqrt(n) / sd, student_t.quantile(alpha / 2, n - 2)
    return math.fsum(weight * _normal(shift - t * scale) for weight, scale in _scales(n - 2))


def pairs_needed(
    scatter: float | Scatter,
    margin: float,
    alpha: float,
    *,
    equivalence: bool,
    truth: float | None = None,
) -> int | None:
    """Return the pairs for a power of 0.9, never fewer than 8; None above 10,000.

    For equivalence at a true +0.5 % (a quarter of the margin where that is less); else for a true
    difference of one margin. `truth` is another log-ratio for equivalence: 0 for a side against
    itself.
    """
    spread_of = scatter if isinstance(scatter, Scatter) else Scatter(sd=scatter)
    if not spread_of.sd > 0:
        return FEWEST
    apart = _small(margin) if truth is None else truth

    def enough(n: int) -> bool:
        spread = spread_of.of(n)
        if equivalence:
            return equivalent(n, spread, margin, alpha, apart) >= POWER
        return different(n, spread, alpha, margins.band(margin).half_width) >= POWER

    low, high = FEWEST - 1, FEWEST
    while not enough(high):
        low, high = high, high * 2
        if high > LARGEST_PLAN:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def smallest_margin(n: int, sd: float, alpha: float) -> float | None:
    """Return the smallest margin for which n pairs have a power of 0.9 to end EQUIVALENT.

    At the true difference that `pairs_needed` plans for; None above 100 %.
    """
    low, high, sd = 0.0, 1.0, sd * lag_cost(n)
    if not sd > 0 or equivalent(n, sd, high, alpha, _small(high)) < POWER:
        return None
    while high - low > _MARGIN_STEP:
        middle = (low + high) / 2
        enough = equivalent(n, sd, middle, alpha, _small(middle)) >= POWER
        low, high = (low, middle) if enough else (middle, high)
    return high


def lag_cost(n: int, rule: Rule = "launches") -> float:
    """Return what the correction for neighbours' correlation costs where there is none, as an sd.

    Of n pairs it finds some by chance. Fitted to 1,000 simulated sessions each of 8, 12, 16 and 32
    pairs, whose power it gives within 0.06. Of groups it is the floor's (of 4,000, within 0.07).
    """
    if rule == "groups":
        return neighbours.widening(neighbours.floor(n))
    return 1 + 4 / n


def _small(margin: float) -> float:
    # Nothing is ever exactly equal.
    return min(math.log1p(0.005), margins.band(margin).half_width / 4)


def _scales(df: int) -> list[tuple[float, float]]:
    """Return weights and values of (sample sd / sd): Simpson's rule on its density."""
    spread = _WIDTH / math.sqrt(2 * df)
    low, high = max(0.0, 1 - spread), 1 + spread
    step = (high - low) / _NODES
    constant = math.log(2) + df / 2 * math.log(df / 2) - math.lgamma(df / 2)
    points = []
    for node in range(_NODES + 1):
        scale = low + node * step
        factor = 1 if node in (0, _NODES) else 4 if node % 2 else 2
        log_power = (df - 1) * math.log(scale) if scale > 0 else 0.0 if df == 1 else -math.inf
        density = math.exp(constant + log_power - df * scale * scale / 2)
        points.append((factor * density * step / 3, scale))
    return points


def _normal(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2
