"""Bandwidths of collective operations, and the line through their times over bytes. Pure.

By nccl-tests' definitions (doc/PERFORMANCE.md, src/sendrecv.cu): S is the size of the whole array,
of reduce-scatter the input, of all-gather the output, of all-to-all a rank's whole buffer. OSU's
all-gather and all-to-all name a rank's part instead: their m is S / n.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

# A line that misses a point by more of its time is no description of these times.
MOST_RESIDUAL = 0.25
# Two points have a line through them, whatever they are.
FEWEST_POINTS = 3

# operation -> bus bandwidth over algorithm bandwidth, of n ranks
_FACTORS: Mapping[str, Callable[[int], float]] = {
    "broadcast": lambda _n: 1.0,
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "send_recv": lambda _n: 1.0,
}


def algorithm(size: int, seconds: float) -> float:
    """Return the algorithm bandwidth, GB/s (1e9 bytes): size over time."""
    return size / seconds / 1e9


def bus(operation: str, size: int, seconds: float, ranks: int) -> float | None:
    """Return the bus bandwidth, GB/s: what each rank's link moves; None without a definition."""
    factor = _FACTORS.get(operation)
    return None if factor is None or ranks < 1 else algorithm(size, seconds) * factor(ranks)


@dataclass(frozen=True, kw_only=True, slots=True)
class TransferTime:
    """The time of an operation on so many bytes, s."""

    size: int
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class BandwidthModel:
    """T(S) = alpha + beta S: s, and s a byte; `residual` is the largest, a share of the time.

    `problem` says why it is no description of the times; empty where it is one.
    """

    alpha: float
    beta: float
    residual: float
    problem: str = ""

    @property
    def gigabytes_per_s(self) -> float:
        """What beta is as a bandwidth, 1e9 bytes/s."""
        return 1 / self.beta / 1e9 if self.beta > 0 else math.inf


def line(points: Sequence[TransferTime]) -> BandwidthModel:
    """Fit by least squares of the relative residuals: else the largest size alone would count."""
    if len({point.size for point in points}) < FEWEST_POINTS:
        return BandwidthModel(
            alpha=math.nan,
            beta=math.nan,
            residual=math.nan,
            problem=f"{len(points)} sizes; a line takes {FEWEST_POINTS}",
        )
    # Each equation alpha + beta S = T is divided by its T.
    rows = [(1 / point.seconds, point.size / point.seconds) for point in points]
    aa, ab, bb = (math.fsum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    a, b = (math.fsum(row[i] for row in rows) for i in (0, 1))
    determinant = aa * bb - ab * ab
    alpha, beta = (a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant
    residual = max(abs(alpha * inverse + beta * size - 1) for inverse, size in rows)
    return BandwidthModel(
        alpha=alpha, beta=beta, residual=residual, problem=_problem(alpha, beta, residual)
    )


def _problem(alpha: float, beta: float, residual: float) -> str:
    if residual > MOST_RESIDUAL:
        return f"it misses a size by {100 * residual:.0f} %, more than {100 * MOST_RESIDUAL:.0f} %"
    if alpha < 0 or beta <= 0:
        return "a latency or a bandwidth below 0"
    return ""
