"""What a study will take, by an assumption that is printed: minutes, hours of devices. Pure.

A point ends at its first look or at its last one, so there is a least and a most of each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dlcontainer.bench.study.study_points import StudySession

# Seconds of a launch: some 10 of steps, and the start of Python, framework and ranks.
LAUNCH_S = 30.0
# The session's own: its native side is found, the image is read.
_BEGIN_S = 10.0
# One of each side before the first pair.
_WARM_UPS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeShape:
    """What a node is paid for: its devices, or its cores where it has none."""

    devices: int
    cores: int

    @property
    def unit(self) -> str:
        """Return what hours are counted of."""
        return "GPU" if self.devices else "core"

    @property
    def count(self) -> int:
        """Return how many of them a node has."""
        return self.devices or self.cores


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyCost:
    """What one session takes, or all of them: at its first look and at its last one."""

    least_s: float
    most_s: float
    least_hours: float
    most_hours: float


def of_session(session: StudySession, shape: NodeShape, *, nodes: int | None = None) -> StudyCost:
    """Return the cost of a session on its own nodes, or on those that are held for it."""
    first, last = session.looks[0], session.looks[-1]
    controls = last if session.controls is None else session.controls
    node_hours = (nodes or session.nodes) * shape.count / 3600
    # Controls come in between, as many at a look as its share of the pairs.
    least_s, most_s = (
        _BEGIN_S + LAUNCH_S * (_WARM_UPS + 2 * (pairs + controls * pairs / last))
        for pairs in (first, last)
    )
    return StudyCost(
        least_s=least_s,
        most_s=most_s,
        least_hours=least_s * node_hours,
        most_hours=most_s * node_hours,
    )


def of_study(
    sessions: Sequence[StudySession], shape: NodeShape, *, one_allocation: bool
) -> StudyCost:
    """Return the cost of all sessions, one after another.

    In one allocation all nodes are held from begin to end, also while few are used.
    """
    widest = max(session.nodes for session in sessions) if one_allocation else None
    costs = [of_session(session, shape, nodes=widest) for session in sessions]
    return StudyCost(
        least_s=sum(cost.least_s for cost in costs),
        most_s=sum(cost.most_s for cost in costs),
        least_hours=sum(cost.least_hours for cost in costs),
        most_hours=sum(cost.most_hours for cost in costs),
    )
