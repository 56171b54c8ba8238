"""Sessions of three arms drawn at random, and our procedure on many of them at once (NumPy).

As `simulation.py` does for pairs: the drawn sequences, the model of places, the rank diagnostic,
both controls, the looks of the main contrast, and the contrasts that are judged where it ends.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import scipy.stats
from numpy.typing import NDArray

from benchmarks import regressions, simulation
from benchmarks.regressions import Floats
from benchmarks.simulation import (
    WORDS,
    Bools,
    Design,
    differences,
    refused,
    worded,
)
from benchmarks.worlds import World, launches
from dlcontainer.bench.analysis.verdict import Evidence, VerdictRules, judge
from dlcontainer.bench.samples import launch_order
from dlcontainer.bench.stats import regression
from dlcontainer.bench.stats.differences import PairOrder

CONTRASTS = (("n", "c"), ("n", "u"), ("u", "c"))
_SCHEDULES = 64
_CHUNK = 4000

Words = NDArray[numpy.int64]
# Differences of sessions, a row each, and how each of them ran.
Series = tuple[Floats, Sequence[PairOrder]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Arms:
    """What is declared, and what is true of the build: `built` is unpacked over native."""

    design: Design
    built: float = 1.0
    own_controls: int = 0

    @property
    def rules(self) -> VerdictRules:
        """The rules of each look."""
        found = self.design.rules
        return VerdictRules(
            margin=found.margin, alpha=found.alpha, equivalence=found.equivalence,
            block=launch_order.TRIPLES,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Drawn:
    """Log-ratios by contrast, a session a row, and how each ran; the same of both controls."""

    pairs: dict[tuple[str, str], Series]
    controls: tuple[Series, Series]


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
    counts = launch_order.LaunchCounts(
        controls=design.controls, candidate_controls=arms.own_controls, triples=True
    )
    stages = launch_order.plan_stages(looks=design.looks, counts=counts, seed=seed)
    schedule = [group for stage in stages for group in stage]
    launched = [regressions.letters(group) for group in schedule]
    places = [place for letters in launched for place in range(len(letters))]
    noise = launches(world, sessions, "".join(launched), random)
    noise += world.second * numpy.array(places)  # running third costs twice that
    effects = {"n": 0.0, "u": math.log(arms.built), "c": math.log(world.truth)}
    noise += numpy.array([effects[letter] for letter in "".join(launched)])
    befores = ["", *(letters[-1] for letters in launched[:-1])]
    begins = numpy.cumsum([0, *map(len, launched)])
    begun = list(zip(schedule, befores, begins, strict=False))

    def series(name: str, sides: tuple[str, str]) -> Series:
        own = [(group, before, at) for group, before, at in begun if group.series == name]
        ran = [regressions.ran(group, before, sides, "nuc") for group, before, _ in own]
        ends = [
            numpy.array([at + how.places[i] for (_, _, at), how in zip(own, ran, strict=True)], int)
            for i in (0, 1)
        ]
        return noise[:, ends[1]] - noise[:, ends[0]], ran

    return Drawn(
        {pair: series("triple", pair) for pair in CONTRASTS},
        (series("control", ("n", "c")), series("candidate_control", ("n", "c"))),
    )


def run(drawn: Drawn, arms: Arms) -> Ended:
    """Take the looks by the main contrast; judge the others where the session ended."""
    design, rules = arms.design, arms.rules
    count = len(drawn.controls[0][0])
    words = {pair: numpy.zeros(count, dtype=numpy.int64) for pair in CONTRASTS}
    pairs = numpy.full(count, design.looks[-1])
    tails, claims = numpy.zeros(count, dtype=bool), numpy.zeros(count, dtype=bool)
    is_open = numpy.ones(count, dtype=bool)
    for look in design.looks:
        controls = _until(drawn, arms, look)
        unsteady, ratios = refused(*controls[0]) | refused(*controls[1]), []
        beside = [(d[is_open], ran) for d, ran in controls]
        for pair in CONTRASTS:
            d, ran = drawn.pairs[pair]
            fits = regressions.fit([(d[is_open, :look], ran[:look]), *beside])
            word, tail = worded(rules, fits)
            word[unsteady[is_open]] = WORDS.index("NOT COMPARABLE")
            words[pair][is_open] = word
            ratios.append(2 * scipy.stats.t.sf(numpy.abs(fits.mean) / fits.se, fits.df))
            if pair == CONTRASTS[0]:
                tails[is_open] = tail
        table = numpy.stack([words[pair][is_open] for pair in CONTRASTS], axis=1)
        holds = (table > 0) & (table < WORDS.index("NOT COMPARABLE"))
        claims[is_open] = (holm(numpy.stack(ratios, axis=1), rules.alpha) & holds).any(1)
        decided = is_open & (words[CONTRASTS[0]] > 0)
        pairs[decided] = look
        is_open &= ~decided
        if not is_open.any():
            break
    return Ended(words, pairs, tails, claims)


def holm(p_values: Floats, alpha: float) -> Bools:
    """Return which of each row's p are significant by Holm's correction."""
    order_of = numpy.argsort(p_values, axis=1)
    count = p_values.shape[1]
    bounds = [alpha / (count - rank) for rank in range(count)]
    passed = numpy.take_along_axis(p_values, order_of, axis=1) <= bounds
    beyond = numpy.zeros_like(passed)
    numpy.put_along_axis(beyond, order_of, numpy.logical_and.accumulate(passed, axis=1), axis=1)
    return numpy.asarray(beyond)


def seen(ends: list[Ended], contrast: tuple[str, str] | None) -> simulation.Ended:
    """Return one contrast's ends; without one SLOWER stands for a difference claimed on some."""
    words = [
        end.words[contrast] if contrast else end.claims * WORDS.index("SLOWER") for end in ends
    ]
    return simulation.Ended(
        numpy.concatenate(words),
        numpy.concatenate([end.pairs for end in ends]),
        numpy.concatenate([end.tails for end in ends]),
    )


def _until(drawn: Drawn, arms: Arms, look: int) -> list[Series]:
    totals = (arms.design.controls, arms.own_controls)
    dues = [launch_order.due(total, look, arms.design.looks) for total in totals]
    return [(d[:, :due], ran[:due]) for (d, ran), due in zip(drawn.controls, dues, strict=True)]


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
        controls = [differences(d[row], ran) for d, ran in _until(drawn, arms, look)]
        own = [regression.fit(one) if one else None for one in controls]
        words = []
        for pair in CONTRASTS:
            d, ran = drawn.pairs[pair]
            fitted = regression.fit(differences(d[row, :look], ran), *controls)
            evidence = Evidence(pairs=fitted, control=own[0], candidate_control=own[1])
            words.append(judge(arms.rules, evidence).word)
        if words[0] != "INCONCLUSIVE":
            return words, look
    return words, arms.design.looks[-1]
