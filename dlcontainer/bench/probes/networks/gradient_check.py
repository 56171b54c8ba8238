"""Did ranks that train together train one network? Each says how far its weights moved. Pure.

A rank of a strategy says it of each part of the weights that it holds. Of a part that several ranks
hold, all must end alike; of one that a single rank holds only the gate can tell, in the warm-up.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

# Of the way that the weights went. Ranks that average end a rounding apart (1e-7 a step); ranks
# that don't, about as far apart as they went.
TOLERANCE = 1e-3
# Each trains for itself: there is nothing to average.
_ALONE = (None, "", "none")
# The part of ranks that hold all weights.
_ALL = "all"


def problem(bodies: Sequence[Mapping[str, Any]]) -> str:
    """Return what is wrong with the averaging of a launch's ranks; empty where nothing is.

    Launches whose ranks do not train together have nothing to average.
    """
    distributed = [body.get("workload", {}).get("distributed") for body in bodies]
    if all(way in _ALONE for way in distributed):
        return ""
    moved = [body.get("moved") for body in bodies]
    if not all(moved):
        return (
            "the ranks don't say how their weights moved: their probe is older than this check; "
            "build the image again"
        )
    try:
        parts = _by_part([movement for movement in moved if movement])
        problems = [_apart(part, held, distributed[0]) for part, held in parts.items()]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return f"how the weights moved is not said whole: {error!r}"
    return next(filter(None, problems), "")


def _by_part(moved: Sequence[Mapping[str, Any]]) -> dict[str, list[list[float]]]:
    """Return of each part its holders' figures: the sums, then the length."""
    parts: dict[str, list[list[float]]] = {}
    for movement in moved:
        named = {_ALL: movement} if "sums" in movement else movement
        for part, body in named.items():
            figures = [float(figure) for figure in (*body["sums"], body["length"])]
            parts.setdefault(part, []).append(figures)
    return parts


def _apart(part: str, held: list[list[float]], distributed: object) -> str:
    longest = max(figures[-1] for figures in held)
    apart = max(
        abs(mine - first) for figures in held for mine, first in zip(figures, held[0], strict=True)
    )
    of = "" if part == _ALL else f" of {part}"
    if not 0 < longest < math.inf or math.isnan(apart):
        return f"the weights{of} moved by {longest:g} in training"
    if apart > TOLERANCE * longest:
        return (
            f"the ranks' weights{of} end {apart / longest:.2g} of their way apart: the gradients "
            f"are not averaged ({distributed})"
        )
    return ""
