"""Whole sessions drawn at random, and our procedure on many of them at once (NumPy).

What is simulated is the procedure of `dlcontainer.bench`, not a textbook's: its own schedules,
model, rank diagnostic, control and looks. `agrees` holds these arrays against the real code.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy
import scipy.stats
from numpy.typing import NDArray

from benchmarks import regressions
from benchmarks.regressions import Fits, Floats
from benchmarks.worlds import World, launches
from dlcontainer.bench.analysis import calibration
from dlcontainer.bench.analysis.verdict import CONTROL_LEVEL, Evidence, VerdictRules, judge
from dlcontainer.bench.samples import launch_order
from dlcontainer.bench.stats import hodges_lehmann, margins, paired, regression
from dlcontainer.bench.stats.differences import PairDifference, PairOrder
from dlcontainer.bench.stats.neighbours import Rule

Bools = NDArray[numpy.bool_]

WORDS = ("INCONCLUSIVE", "EQUIVALENT", "SLOWER", "FASTER", "NOT COMPARABLE")
_SCHEDULES = 64  # orders drawn for a cell; each serves many sessions
_CHUNK = 4000  # sessions at once: 528 Walsh averages each, of 8 bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Design:
    """What is declared of a session."""

    looks: tuple[int, ...] = (8, 16, 32)
    controls: int = 32
    margin: float = 0.02
    alpha: float = 0.05
    equivalence: bool = True
    rule: Rule = "launches"

    @property
    def rules(self) -> VerdictRules:
        """The rules of each look."""
        spent = paired.spent_alpha(self.looks, self.alpha)
        return VerdictRules(margin=self.margin, alpha=spent, equivalence=self.equivalence)


@dataclass(frozen=True, slots=True)
class Drawn:
    """Log-ratios of many sessions of one schedule, a row each, and how each pair ran."""

    pairs: Floats
    pairs_ran: Sequence[PairOrder]
    controls: Floats
    controls_ran: Sequence[PairOrder]
    # The pairs' log-ratios of each kernel that gates.
    kernels: Floats

    def until(self, pairs: int, controls: int) -> "Drawn":
        """Return the first so many of each."""
        return Drawn(
            self.pairs[:, :pairs], self.pairs_ran[:pairs],
            self.controls[:, :controls], self.controls_ran[:controls],
            self.kernels[:, :pairs],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ended:
    """How sessions ended: an index of WORDS, the pairs measured, whether held for a tail.

    `means` are the logs of the ratios at the end.
    """

    words: NDArray[numpy.int64]
    pairs: NDArray[numpy.int64]
    tails: Bools
    means: Floats = field(default_factory=lambda: numpy.zeros(0))


Drawing = Callable[[World, Design, int, numpy.random.Generator, int], Drawn]


def simulate(
    world: World, design: Design, sessions: int, seed: int, drawing: Drawing | None = None
) -> Ended:
    """Draw sessions and end each at its first look that decides, else at its last."""
    random = numpy.random.default_rng(seed)
    left, ends = sessions, []
    schedules = max(1, min(_SCHEDULES, sessions // 100))
    for number in range(schedules):
        share = left // (schedules - number)
        left -= share
        for start in range(0, share, _CHUNK):
            size = min(_CHUNK, share - start)
            drawn = (drawing or draw)(world, design, size, random, seed * 1000 + number)
            ends.append(run(drawn, design))
    return Ended(
        numpy.concatenate([end.words for end in ends]),
        numpy.concatenate([end.pairs for end in ends]),
        numpy.concatenate([end.tails for end in ends]),
        numpy.concatenate([end.means for end in ends]),
    )


def draw(
    world: World, design: Design, sessions: int, random: numpy.random.Generator, seed: int
) -> Drawn:
    """Draw every launch of sessions that share the schedule of `seed`."""
    counts = launch_order.LaunchCounts(controls=design.controls)
    stages = launch_order.plan_stages(looks=design.looks, counts=counts, seed=seed)
    schedule = [pair for stage in stages for pair in stage]
    launched = "".join(map(regressions.letters, schedule))
    noise = launches(world, sessions, launched, random)
    noise[:, 1::2] += world.second
    befores = ["", *launched[1:-1:2]]
    ran = [
        regressions.ran(pair, before, ("n", "c"), "nc")
        for pair, before in zip(schedule, befores, strict=True)
    ]
    signs = numpy.array([1.0 if pair.order == "nc" else -1.0 for pair in schedule])
    d = (noise[:, 1::2] - noise[:, ::2]) * signs
    is_pair = numpy.array([pair.series == "pair" for pair in schedule])
    d[:, is_pair] += math.log(world.truth)
    pairs = [one for one, mine in zip(ran, is_pair, strict=True) if mine]
    controls = [one for one, mine in zip(ran, is_pair, strict=True) if not mine]
    kernels = gates(world, sessions, len(pairs), random)
    return Drawn(d[:, is_pair], pairs, d[:, ~is_pair], controls, kernels)


def gates(world: World, sessions: int, pairs: int, random: numpy.random.Generator) -> Floats:
    """Draw the log-ratios of the kernels that gate, of sides that don't differ in them."""
    return random.normal(0, world.kernels, (sessions, pairs, len(calibration.GATING)))


def run(drawn: Drawn, design: Design) -> Ended:
    """Take the looks in their order; a look that says INCONCLUSIVE is followed by the next."""
    count = len(drawn.pairs)
    words, tails = numpy.zeros(count, dtype=numpy.int64), numpy.zeros(count, dtype=bool)
    pairs = numpy.full(count, design.looks[-1])
    is_open, means = numpy.ones(count, dtype=bool), numpy.zeros(count)
    for look in design.looks:
        if not is_open.any():
            break
        controls = launch_order.due(design.controls, look, design.looks)
        left = Drawn(
            drawn.pairs[is_open], drawn.pairs_ran, drawn.controls[is_open], drawn.controls_ran,
            drawn.kernels[is_open],
        )  # fmt: skip
        now, tail, mean = at_look(left.until(look, controls), design)
        words[is_open], tails[is_open], means[is_open] = now, tail, mean
        pairs[numpy.flatnonzero(is_open)[now > 0]] = look
        is_open &= words == 0
    return Ended(words, pairs, tails, means)


def at_look(drawn: Drawn, design: Design) -> tuple[NDArray[numpy.int64], Bools, Floats]:
    """Return each session's word as `verdict.judge` does, whether a tail held it, and its mean."""
    controls = (drawn.controls, drawn.controls_ran)
    fits = regressions.fit([(drawn.pairs, drawn.pairs_ran), controls], design.rule)
    word, tail = worded(design.rules, fits)
    turned = refused(*controls) | _differ(drawn.kernels, len(design.looks))
    word[turned] = WORDS.index("NOT COMPARABLE")
    return word, tail & ~turned, fits.mean


def _differ(kernels: Floats, looks: int) -> Bools:
    """Whether some kernel ran at another speed, as `calibration.compare` tells it."""
    n, tests = kernels.shape[1], len(calibration.GATING) * looks
    half = scipy.stats.t.isf(_settled("alpha") / tests / 2, n - 1) * kernels.std(axis=1, ddof=1)
    apart = numpy.abs(kernels.mean(axis=1))
    beyond = apart > margins.band(_settled("threshold")).half_width
    return numpy.asarray((beyond & (apart > half / math.sqrt(n))).any(axis=1))


def _settled(name: str) -> float:
    return float(str(calibration.DECLARED[name]))


def worded(rules: VerdictRules, fits: Fits) -> tuple[NDArray[numpy.int64], Bools]:
    """Return each session's word of a fitted model without its controls, and whether a tail
    held.
    """
    n = fits.adjusted.shape[1]
    halves = [scipy.stats.t.isf(tail, fits.df) * fits.se for tail in (rules.alpha / 2, rules.alpha)]
    bounds = [(fits.mean - half, fits.mean + half) for half in halves]
    word = word_of(rules, *bounds)
    i, j = numpy.triu_indices(n)
    walsh = numpy.sort((fits.adjusted[:, i] + fits.adjusted[:, j]) / 2, axis=1)
    middle, wider = numpy.median(walsh, axis=1), numpy.sqrt(regressions.inflation(fits.lag))
    ranks = []
    for level in (1 - rules.alpha, 1 - 2 * rules.alpha):
        below, _ = hodges_lehmann.cut(n, (1 - level) / 2)
        ends = (walsh[:, below], walsh[:, -1 - below])
        ranks.append(tuple(middle + wider * (end - middle) for end in ends))
    tail = word != word_of(rules, ranks[0], ranks[1])
    tail[(word == WORDS.index("SLOWER")) & (ranks[0][0] > 0)] = False
    tail[(word == WORDS.index("FASTER")) & (ranks[0][1] < 0)] = False
    word[tail] = 0
    return word, tail


def word_of(
    rules: VerdictRules, difference: tuple[Floats, ...], equivalence: tuple[Floats, ...]
) -> NDArray[numpy.int64]:
    """Return the words of intervals of logs, one for each question, as `verdict.worded` does."""
    margin, (low, high) = margins.band(rules.margin).half_width, difference
    word = numpy.zeros(len(low), dtype=numpy.int64)
    narrow = high - low <= margin
    word[(high < 0) & (narrow | (high < -margin))] = WORDS.index("FASTER")
    word[(low > 0) & (narrow | (low > margin))] = WORDS.index("SLOWER")
    if rules.equivalence:
        word[(equivalence[0] >= -margin) & (equivalence[1] <= margin)] = WORDS.index("EQUIVALENT")
    return word


def refused(d: Floats, ran: Sequence[PairOrder]) -> Bools:
    """Whether the interval of each session's controls excludes 1."""
    if d.shape[1] < 3 or len({one.candidate_first for one in ran}) < 2:
        return numpy.zeros(len(d), dtype=bool)
    fits = regressions.fit([(d, ran)])
    half = scipy.stats.t.isf((1 - CONTROL_LEVEL) / 2, fits.df) * fits.se
    return numpy.asarray(numpy.abs(fits.mean) > half)


def agrees(
    world: World, design: Design, sessions: int, seed: int, drawing: Drawing | None = None
) -> bool:
    """Whether the real code, one session at a time, gives the words that the arrays give."""
    drawn = (drawing or draw)(world, design, sessions, numpy.random.default_rng(seed), seed)
    ended = run(drawn, design)
    real = [_judged(drawn, row, design) for row in range(sessions)]
    return real == [
        (WORDS[word], pairs) for word, pairs in zip(ended.words, ended.pairs, strict=True)
    ]


def _judged(drawn: Drawn, row: int, design: Design) -> tuple[str, int]:
    word = ""
    for look in design.looks:
        controls = launch_order.due(design.controls, look, design.looks)
        pairs = differences(drawn.pairs[row, :look], drawn.pairs_ran)
        control = differences(drawn.controls[row, :controls], drawn.controls_ran)
        evidence = Evidence(
            pairs=regression.fit(pairs, control, rule=design.rule),
            control=regression.fit(control) if control else None,
            refusals=_refusals(drawn, row, look, design),
        )
        word = judge(design.rules, evidence).word
        if word != "INCONCLUSIVE":
            return word, look
    return word, design.looks[-1]


def _refusals(drawn: Drawn, row: int, look: int, design: Design) -> tuple[str, ...]:
    readings = (
        calibration.compare(
            kernel, [1.0] * look, [math.exp(d) for d in drawn.kernels[row, :look, i]],
            settled=calibration.DECLARED, looks=len(design.looks),
        )
        for i, kernel in enumerate(calibration.GATING)
    )  # fmt: skip
    return tuple(reading.task for reading in readings if reading.refuses)


def differences(d: Floats, ran: Sequence[PairOrder]) -> list[PairDifference]:
    """Return one session's pairs as the real code takes them."""
    return [
        PairDifference(
            number=i + 1, d=float(value), candidate_first=ran[i].candidate_first,
            places=ran[i].places, carry=ran[i].carry,
        )
        for i, value in enumerate(d)
    ]  # fmt: skip


def agresti_coull(hits: int, count: int, z: float = 1.96) -> tuple[float, float, float]:
    """Return a share with its 95 % interval (Agresti & Coull, 1998)."""
    middle = (hits + z * z / 2) / (count + z * z)
    half = z * math.sqrt(middle * (1 - middle) / (count + z * z))
    return hits / count, max(0.0, middle - half), min(1.0, middle + half)


def share(ended: Ended, words: Sequence[str]) -> tuple[float, float, float]:
    """Return the share of sessions that ended in one of the words, with its interval."""
    wanted = numpy.isin(ended.words, [WORDS.index(word) for word in words])
    return agresti_coull(int(wanted.sum()), len(ended.words))
