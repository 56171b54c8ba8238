"""What ranks send of their gradients in a step, and what of it computing hides."""

from dataclasses import dataclass
from typing import Literal

# The strategy that a program's collectives show.
TrafficAxis = Literal["dp", "fsdp"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RankTraffic:
    """Seconds of a rank's step: computing, communication without waiting, what of it is exposed."""

    computing_s: float
    transfer_s: float
    exposed_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTraffic:
    """The gradients of a step: bytes that a rank puts in, in so many messages; each rank's time.

    `ranks` is empty where it is not known when they computed.
    """

    axis: TrafficAxis
    gradient_bytes: float
    messages: int
    ranks: tuple[RankTraffic, ...]
    # Of a step, mean of the ranks.
    waiting: float
