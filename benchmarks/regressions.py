"""The regression of `dlcontainer.bench.stats` on many sessions at once (NumPy, SciPy)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from dlcontainer.bench.samples.launch_order import Group, Triple
from dlcontainer.bench.stats import neighbours, regression
from dlcontainer.bench.stats.differences import PairOrder
from dlcontainer.bench.stats.neighbours import Rule

Floats = NDArray[numpy.float64]
_ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Fits:
    """Fits of many sessions of one schedule, a row each."""

    mean: Floats
    se: Floats
    df: Floats
    adjusted: Floats
    lag: Floats


def letters(group: Group) -> str:
    """Return the arms that a pair or triple launches, in their order."""
    if group.series == "control":
        return "nn"
    return "cc" if group.series == "candidate_control" else group.order


def ran(group: Group, before: str, sides: tuple[str, str], arms: str) -> PairOrder:
    """Return how two launches of a group ran; `before` is the arm that ran before the group."""
    launched = letters(group)
    if isinstance(group, Triple):
        places = launched.index(sides[0]), launched.index(sides[1])
    else:
        places = (0, 1) if group.order == "nc" else (1, 0)
    follows = [before, *launched]
    carry = tuple(
        int(follows[places[1]] == arm) - int(follows[places[0]] == arm) for arm in arms[1:]
    )
    return PairOrder(places, carry)


def fit(series: Sequence[tuple[Floats, Sequence[PairOrder]]], rule: Rule = "launches") -> Fits:
    """Fit sessions: the differences of the pairs, then those of each control that there is."""
    series = [one for one in series if one[1]]
    kept = regression.columns_of([set(one) for _, one in series], len(series[0][1]))
    rows = [
        [every[i] if i < len(every) else 0.0 for i in kept]
        for number, (_, own) in enumerate(series)
        for every in (regression.row(one, of_pair=not number) for one in own)
    ]
    columns, d = numpy.array(rows), numpy.concatenate([one for one, _ in series], axis=1)
    belongs = numpy.repeat(range(len(series)), [len(own) for _, own in series])
    inverse = numpy.linalg.inv(columns.T @ columns)
    effects = d @ columns @ inverse
    left = d - effects @ columns.T
    lag = correlation(left[:, belongs == 0], rule)
    se, df = _spread(left, columns, _Model(inverse, belongs, rule), lag)
    robust = _huber(d, columns, effects)
    own = columns[belongs == 0]
    return Fits(effects[:, 0], se, df, d[:, belongs == 0] - robust[:, 1:] @ own[:, 1:].T, lag)


@dataclass(frozen=True, slots=True)
class _Model:
    inverse: Floats
    # The series of each row.
    belongs: NDArray[numpy.int64]
    rule: Rule


def _spread(left: Floats, columns: Floats, model: _Model, lag: Floats) -> tuple[Floats, Floats]:
    inverse, belongs = model.inverse, model.belongs
    hat = numpy.einsum("ij,jk,ik->i", columns, inverse, columns)
    weights = (inverse[0] @ columns.T) ** 2
    count = int(belongs.max()) + 1
    sizes = [int((belongs == i).sum()) for i in range(count)]
    freedoms = [float(sizes[i] - hat[belongs == i].sum()) for i in range(count)]
    squares = [(left[:, belongs == i] ** 2).sum(axis=1) for i in range(count)]
    shared = [i for i in range(count) if not i or sizes[i] < 4]
    if freedoms[0] < 1:
        shared = list(range(count))
    joint = sum(freedoms[i] for i in shared)
    variance = sum(squares[i] for i in shared) / joint
    inflated = inflation(lag)
    whole, degrees = numpy.zeros(len(left)), numpy.zeros(len(left))
    for i in range(count):
        own = variance if i in shared else squares[i] / freedoms[i]
        df = numpy.full(len(left), joint if i in shared else freedoms[i])
        part = own * weights[belongs == i].sum()
        if not i:
            part, df = part * inflated, _freedom(df, lag, model.rule)
        whole += part
        degrees += part**2 / df
    return numpy.sqrt(whole), whole**2 / degrees


def correlation(left: Floats, rule: Rule) -> Floats:
    """Return each row's correlation of neighbours, corrected by the real code."""
    raw = (left[:, 1:] * left[:, :-1]).sum(axis=1) / (left**2).sum(axis=1)
    return numpy.array([neighbours.correlation(one, left.shape[1], rule) for one in raw])


def inflation(lag: Floats) -> Floats:
    """Return the factor of each row's variance, by the real code."""
    return numpy.array([neighbours.inflation(one) for one in lag])


def _freedom(df: Floats, lag: Floats, rule: Rule) -> Floats:
    return numpy.array([neighbours.freedom(*each, rule) for each in zip(df, lag, strict=True)])


def _huber(d: Floats, columns: Floats, start: Floats) -> Floats:
    effects = start
    for _ in range(_ROUNDS):
        left = d - effects @ columns.T
        bound = 1.345 * 1.4826 * numpy.median(numpy.abs(left), axis=1, keepdims=True)
        weights = numpy.minimum(1.0, bound / numpy.maximum(numpy.abs(left), 1e-300))
        products = numpy.einsum("sn,ni,nj->sij", weights, columns, columns)
        moments = (weights * d) @ columns
        effects = numpy.linalg.solve(products, moments[:, :, None])[:, :, 0]
    return effects
