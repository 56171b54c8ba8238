"""Golden steps of SGD, LARS and LARC: the reference, number by number, in plain Python (fp64).

Written from the publications, and sharing nothing with the probe: SGD with momentum as PyTorch
documents it; LARS as algorithm 1 of arXiv:1708.03888; LARC as NVIDIA apex defines it, clipped, over
SGD with momentum.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Layer = Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """An optimizer's numbers."""

    rate: float
    momentum: float
    decay: float = 0.0
    trust: float = 0.0


SETTINGS = {
    "sgd": Setting(rate=0.1, momentum=0.9),
    "lars": Setting(rate=2.0, momentum=0.9, decay=5e-4, trust=0.001),
    "larc": Setting(rate=0.05, momentum=0.9, decay=5e-4, trust=0.02),
}
# Weights of four layers: usual and large ones (LARC clips), small ones (it does not), zeros.
WEIGHTS: tuple[Layer, ...] = ((0.5, -1.25, 2.0), (30.0, -40.0), (1e-3, 2e-3), (0.0, 0.0))
# Gradients of four steps; once a layer has none.
GRADIENTS: tuple[tuple[Layer, ...], ...] = (
    ((0.1, 0.2, -0.3), (0.01, 0.02), (3.0, -4.0), (0.5, -0.25)),
    ((-0.7, 0.05, 0.4), (0.03, -0.01), (1.0, 2.0), (0.125, 0.25)),
    ((0.0, 0.0, 0.0), (0.02, 0.02), (-2.0, 1.5), (-0.375, 0.5)),
    ((0.35, -0.15, 0.25), (-0.04, 0.01), (0.5, 0.5), (0.25, 0.75)),
)


def length(values: Layer) -> float:
    return math.sqrt(math.fsum(value * value for value in values))


def _sgd(_w: Layer, g: Layer, own: Setting) -> list[float]:
    return [own.rate * one for one in g]


def _lars(w: Layer, g: Layer, own: Setting) -> list[float]:
    # lambda = eta |w| / (|g| + beta |w|); without one of the lengths: plain SGD.
    both = length(w) > 0 and length(g) > 0
    trusted = own.trust * length(w) / (length(g) + own.decay * length(w)) if both else 1.0
    return [
        own.rate * trusted * (slope + own.decay * weight)
        for weight, slope in zip(w, g, strict=True)
    ]


def _larc(w: Layer, g: Layer, own: Setting) -> list[float]:
    # Apex leaves a layer without one of the lengths as it is, weight decay included.
    if not (length(w) > 0 and length(g) > 0):
        return [own.rate * slope for slope in g]
    local = own.trust * length(w) / (length(g) + own.decay * length(w) + 1e-8)
    clipped = min(local / own.rate, 1.0)
    return [
        own.rate * (slope + own.decay * weight) * clipped
        for weight, slope in zip(w, g, strict=True)
    ]


_RULES: dict[str, Callable[[Layer, Layer, Setting], list[float]]] = {
    "sgd": _sgd,
    "lars": _lars,
    "larc": _larc,
}


def golden(name: str) -> list[list[list[float]]]:
    """Give the weights after each step, layer by layer."""
    own, weights = SETTINGS[name], [list(layer) for layer in WEIGHTS]
    speeds, found = [[0.0] * len(layer) for layer in WEIGHTS], []
    for slopes in GRADIENTS:
        for layer, slope in enumerate(slopes):
            step = _RULES[name](weights[layer], slope, own)
            speeds[layer] = [
                own.momentum * speed + one for speed, one in zip(speeds[layer], step, strict=True)
            ]
            weights[layer] = [
                weight - speed for weight, speed in zip(weights[layer], speeds[layer], strict=True)
            ]
        found.append([list(layer) for layer in weights])
    return found


def farthest(found: list[list[list[float]]], wanted: list[list[list[float]]]) -> float:
    """Give the largest relative distance of any weight after any step; the shapes must agree."""
    return max(
        abs(mine - theirs) / max(abs(theirs), 1e-12)
        for step, truth in zip(found, wanted, strict=True)
        for layer, known in zip(step, truth, strict=True)
        for mine, theirs in zip(layer, known, strict=True)
    )
