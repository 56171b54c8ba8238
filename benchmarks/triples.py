"""Sessions of three arms drawn at random, and our procedure on many of them at once (NumPy).

As `simulation.py` does for pairs: the drawn sequences, the model of places, the rank diagnostic,
both controls, the looks of the main contrast, and the contrasts that are judged where it ends.
"""

import math
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from benchmarks import simulation
from benchmarks.simulation import (
    WORDS,
    Bools,
    Design,
    Floats,
    World,
    differences,
    launches,
    refused,
    worded,
)
from dlcontainer.bench.analysis import pairing
from dlcontainer.bench.analysis.verdict import Evidence, Rules, judge
from dlcontainer.bench.samples import launch_order
from dlcontainer.bench.samples.launch_order import Triple
from dlcontainer.bench.stats import paired, student_t
from dlcontainer.bench.stats.paired import Difference

CONTRASTS = (("n", "c"), ("n", "u"), ("u", "c"))
_SCHEDULES = 64
_CHUNK = 4000

Words = NDArray[numpy.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Arms:
    """What is declared, and what is true of the build: `built` is unpacked over native."""

    design: Design
    built: float = 1.0
    own_controls: int = 0

    @property
    def rules(self) -> Rules:
        """The rules of each look."""
        found = self.design.rules
        return Rules(
            margin=found.margin, alpha=found.alpha, equivalence=found.equivalence,
            block=launch_order.TRIPLES,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Drawn:
    """Logs of times by arm, a session a row; the sequences; both controls with their orders."""

    times: dict[str, Floats]
    orders: tuple[str, ...]
    controls: tuple[tuple[Floats, Bools], tuple[Floats, Bools]]


@dataclass(frozen=True, slots=True)
class Ended:
    """How sessions ended: words by contrast, triples measured, tails of the main contrast.

    `claims` is whether a difference is claimed on some contrast, by Holm's correction.
    """

    words: dict[tuple[str, str], Words]
    pairs: Words
    tails: Bools
    claims: Bools


def simulate(world: World, arms: Arms, sessions: int, seed: int) -> list[Ended]:
    """Draw sessions and end each at its first look that decides, else at its last."""
    random = numpy.random.default_rng(seed)
    left, ends = sessions, []
    schedules = max(1, min(_SCHEDULES, sessions // 100))
    for number in range(schedules):
        share = left // (schedules - number)
        left -= share
        for start in range(0, share, _CHUNK):
            size = min(_CHUNK, share - start)
            ends.append(run(draw(world, arms, size, random, seed * 1000 + number), arms))
    return ends


def draw(
    world: World, arms: Arms, sessions: int, random: numpy.random.Generator, seed: int
) -> Drawn:
    """Draw every launch of sessions that share the schedule of `seed`."""
    design = arms.design
    counts = launch_order.Counts(
        controls=design.controls, candidate_controls=arms.own_controls, triples=True
    )
    stages = launch_order.plan_stages(looks=design.looks, counts=counts, seed=seed)
    schedule = [group for stage in stages for group in stage]
    places = [place for group in schedule for place in range(len(group.order))]
    noise = launches(world, sessions, len(places), random)
    noise += world.second * numpy.array(places)  # running third costs twice that
    begins = numpy.cumsum([0, *(len(group.order) for group in schedule)])
    begun = list(zip(schedule, begins, strict=False))
    effects = {"n": 0.0, "u": math.log(arms.built), "c": math.log(world.truth)}
    triples = [(group, at) for group, at in begun if isinstance(group, Triple)]
    times = {
        arm: noise[:, [at + group.order.index(arm) for group, at in triples]] + effect
        for arm, effect in effects.items()
    }
    controls = []
    for series in ("control", "candidate_control"):
        own = [(group, at) for group, at in begun if group.series == series]
        first = numpy.array([group.order == "cn" for group, _ in own], dtype=bool)
        at = numpy.array([at for _, at in own], dtype=int)
        d = (noise[:, at + 1] - noise[:, at]) * numpy.where(first, -1.0, 1.0)
        controls.append((d, first))
    orders = tuple(group.order for group, _ in triples)
    return Drawn(times, orders, (controls[0], controls[1]))


def run(drawn: Drawn, arms: Arms) -> Ended:
    """Take the looks by the main contrast; judge the others where the session ended."""
    design, rules = arms.design, arms.rules
    count = len(drawn.times["n"])
    words = {pair: numpy.zeros(count, dtype=numpy.int64) for pair in CONTRASTS}
    pairs = numpy.full(count, design.looks[-1])
    tails, claims = numpy.zeros(count, dtype=bool), numpy.zeros(count, dtype=bool)
    is_open = numpy.ones(count, dtype=bool)
    for look in design.looks:
        unsteady, ratios = _unsteady(drawn, arms, look), []
        for pair in CONTRASTS:
            d = drawn.times[pair[1]][:, :look] - drawn.times[pair[0]][:, :look]
            mean, se, adjusted = fit(d[is_open], design_matrix(drawn.orders[:look], pair))
            word, tail = worded(rules, mean, se, adjusted, look - 3)
            word[unsteady[is_open]] = WORDS.index("NOT COMPARABLE")
            words[pair][is_open] = word
            ratios.append(numpy.abs(mean) / se)
            if pair == CONTRASTS[0]:
                tails[is_open] = tail
        table = numpy.stack([words[pair][is_open] for pair in CONTRASTS], axis=1)
        holds = (table > 0) & (table < WORDS.index("NOT COMPARABLE"))
        claims[is_open] = (holm(numpy.stack(ratios, axis=1), rules.alpha, look - 3) & holds).any(1)
        decided = is_open & (words[CONTRASTS[0]] > 0)
        pairs[decided] = look
        is_open &= ~decided
        if not is_open.any():
            break
    return Ended(words, pairs, tails, claims)


def holm(ratios: Floats, alpha: float, df: int) -> Bools:
    """Give which of each row's t are beyond Holm's bounds."""
    order_of = numpy.argsort(-ratios, axis=1)
    count = ratios.shape[1]
    bounds = [student_t.quantile(alpha / (count - rank) / 2, df) for rank in range(count)]
    passed = numpy.take_along_axis(ratios, order_of, axis=1) > bounds
    beyond = numpy.zeros_like(passed)
    numpy.put_along_axis(beyond, order_of, numpy.logical_and.accumulate(passed, axis=1), axis=1)
    return numpy.asarray(beyond)


def seen(ends: list[Ended], contrast: tuple[str, str] | None) -> simulation.Ended:
    """Give one contrast's ends; without one SLOWER stands for a difference claimed on some."""
    words = [
        end.words[contrast] if contrast else end.claims * WORDS.index("SLOWER") for end in ends
    ]
    return simulation.Ended(
        numpy.concatenate(words),
        numpy.concatenate([end.pairs for end in ends]),
        numpy.concatenate([end.tails for end in ends]),
    )


def _unsteady(drawn: Drawn, arms: Arms, look: int) -> Bools:
    found = numpy.zeros(len(drawn.times["n"]), dtype=bool)
    totals = (arms.design.controls, arms.own_controls)
    for (d, first), total in zip(drawn.controls, totals, strict=True):
        due = launch_order.due(total, look, arms.design.looks)
        found |= refused(d[:, :due], first[:due])
    return found


def design_matrix(orders: tuple[str, ...], pair: tuple[str, str]) -> Floats:
    """Give the columns of d ~ arm + second + third for one contrast."""
    places = [(one.index(pair[0]), one.index(pair[1])) for one in orders]
    return numpy.array(
        [[1.0, float(c == 1) - float(r == 1), float(c == 2) - float(r == 2)] for r, c in places]
    )


def fit(d: Floats, columns: Floats) -> tuple[Floats, Floats, Floats]:
    """Fit each row; give means, standard errors and the d without robust effects of places."""
    effects = d @ numpy.linalg.pinv(columns).T
    left = d - effects @ columns.T
    sd = numpy.sqrt((left**2).sum(axis=1) / (len(columns) - 3))
    se = sd * math.sqrt(numpy.linalg.inv(columns.T @ columns)[0, 0])
    second, third = _place_effect(d, columns, 1), _place_effect(d, columns, 2)
    adjusted = d - second[:, None] * columns[:, 1] - third[:, None] * columns[:, 2]
    return effects[:, 0], se, adjusted


def _place_effect(d: Floats, columns: Floats, k: int) -> Floats:
    """Give each row's median of what two triples say of one place alone."""
    others = columns[:, 3 - k]

    def apart(plus: tuple[float, float], minus: tuple[float, float], by: float) -> Floats:
        one, two = (
            d[:, (columns[:, k] == own) & (others == other)] for own, other in (plus, minus)
        )
        return (one[:, :, None] - two[:, None, :]).reshape(len(d), -1) / by

    found = (
        apart((1, 0), (-1, 0), 2.0),
        apart((0, 1), (-1, 1), 1.0),
        apart((1, -1), (0, -1), 1.0),
    )
    return numpy.asarray(numpy.median(numpy.concatenate(found, axis=1), axis=1))


def agrees(world: World, arms: Arms, sessions: int, seed: int) -> bool:
    """Whether the real code, one session at a time, gives the words that the arrays give."""
    drawn = draw(world, arms, sessions, numpy.random.default_rng(seed), seed)
    ended = run(drawn, arms)
    for row in range(sessions):
        words = [WORDS[ended.words[pair][row]] for pair in CONTRASTS]
        if _judged(drawn, row, arms) != (words, int(ended.pairs[row])):
            return False
    return True


def _judged(drawn: Drawn, row: int, arms: Arms) -> tuple[list[str], int]:
    words: list[str] = []
    for look in arms.design.looks:
        controls = []
        totals = (arms.design.controls, arms.own_controls)
        for (d, first), total in zip(drawn.controls, totals, strict=True):
            due = launch_order.due(total, look, arms.design.looks)
            own = differences(d[row, :due], first)
            controls.append(paired.fit(own) if own else None)
        words = []
        for pair in CONTRASTS:
            fitted = pairing.fit(_differences(drawn, row, look, pair))
            evidence = Evidence(pairs=fitted, control=controls[0], candidate_control=controls[1])
            words.append(judge(arms.rules, evidence).word)
        if words[0] != "INCONCLUSIVE":
            return words, look
    return words, arms.design.looks[-1]


def _differences(drawn: Drawn, row: int, look: int, pair: tuple[str, str]) -> list[Difference]:
    found = []
    for number, one in enumerate(drawn.orders[:look]):
        places = (one.index(pair[0]), one.index(pair[1]))
        d = float(drawn.times[pair[1]][row, number] - drawn.times[pair[0]][row, number])
        found.append(
            Difference(number=number + 1, d=d, candidate_first=places[1] < places[0], places=places)
        )
    return found
