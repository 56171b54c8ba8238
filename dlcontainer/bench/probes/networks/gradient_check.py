"""Did ranks that train together train one network? Each says how far its weights moved. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

# Of the way that the weights went. Ranks that average end a rounding apart (1e-7 a step); ranks
# that don't, about as far apart as they went.
TOLERANCE = 1e-3


def problem(bodies: Sequence[Mapping[str, Any]]) -> str:
    """Return what is wrong with the averaging of a launch's ranks; empty where nothing is.

    Launches whose ranks do not train together have nothing to average.
    """
    distributed = [body.get("workload", {}).get("distributed") for body in bodies]
    if not any(distributed):
        return ""
    moved = [body.get("moved") for body in bodies]
    if not all(moved):
        return (
            "the ranks don't say how their weights moved: their probe is older than this check; "
            "build the image again"
        )
    try:
        parts = [
            [float(part) for part in (*body["sums"], body["length"])] for body in moved if body
        ]
        longest = max(part[-1] for part in parts)
        apart = max(
            abs(mine - first) for part in parts for mine, first in zip(part, parts[0], strict=True)
        )
    except (KeyError, TypeError, ValueError) as error:
        return f"how the weights moved is not said whole: {error!r}"
    if not 0 < longest < math.inf or math.isnan(apart):
        return f"the weights moved by {longest:g} in training"
    if apart > TOLERANCE * longest:
        return (
            f"the ranks' weights end {apart / longest:.2g} of their way apart: the gradients "
            f"are not averaged ({distributed[0]})"
        )
    return ""
