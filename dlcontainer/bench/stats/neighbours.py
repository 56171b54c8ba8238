"""How much neighbouring units resemble each other, and what that does to an interval. Pure.

Seen in n residuals, a correlation rho of neighbours averages rho - (1 + 4 rho)/n (Marriott and
Pope, 1954), and scatters by 1/sqrt(n): eight units can't tell 0 from 0.3. So there are two rules,
each settled by simulation of whole sessions (docs/measurements/verdict.md):

- of launches the noise of one side may persist from one pair to the next: the correlation is
  estimated, r + (1 + 3r)/n + 1/n: the middle undoes the bias of r, the last 1/n is to spare, since
  that bias is itself seen too small; the degrees of freedom shrink with it;
- of groups both sides share the machine's noise turn by turn, with new processes in each, so that
  only a slow change of one side is left: a correlation of `floor` is allowed for whatever is seen,
  and more where more is seen (r + 1/n: unbiased for independent groups; Huitema and McKean, 1991).
  Up to 12 groups it is 0.3; of more, it falls as 1/n, since they show it themselves.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

Rule = Literal["launches", "groups"]

FEWEST = 4
_FLOOR = 0.3
_FLOOR_UNTIL = 12
_MOST = 0.9
_FEWEST_DF = 2.0


def seen(residuals: Sequence[float]) -> float:
    """Return the correlation of neighbouring residuals as it is seen; -1 without any scatter."""
    squares = math.fsum(x * x for x in residuals)
    return math.fsum(a * b for a, b in pairwise(residuals)) / squares if squares else -1.0


def correlation(raw: float, n: int, rule: Rule) -> float:
    """Return the correlation that n units are corrected for, where `raw` is seen."""
    if n < FEWEST:
        return 0.0
    if rule == "groups":
        return min(_MOST, max(floor(n), raw + 1 / n))
    if raw + 1 / n <= 0:
        return 0.0
    return min(_MOST, raw + (1 + 3 * max(raw, 0.0)) / n + 1 / n)


def floor(n: int) -> float:
    """Return the correlation that is allowed for between n groups, whatever is seen."""
    return _FLOOR * min(1.0, _FLOOR_UNTIL / n)


def inflation(lag: float) -> float:
    """Return the factor by which a correlation of neighbours raises the variance of a mean."""
    return (1 + lag) / (1 - lag)


def widening(lag: float) -> float:
    """Return the factor by which it widens an interval."""
    return math.sqrt(inflation(lag))


def freedom(df: float, lag: float, rule: Rule) -> float:
    """Return the degrees of freedom that are left of a variance."""
    if rule == "groups" or not lag:
        return df
    return max(_FEWEST_DF, df / inflation(lag))
