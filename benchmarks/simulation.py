"""Whole sessions drawn at random, and our procedure on many of them at once (NumPy).

What is simulated is the procedure of `dlcontainer.bench`, not a textbook's: its own schedules,
model, rank diagnostic, control and looks. `agrees` holds these arrays against the real code.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy
from numpy.typing import NDArray

from dlcontainer.bench.analysis.verdict import CONTROL_LEVEL, Evidence, Rules, judge
from dlcontainer.bench.samples import launch_order
from dlcontainer.bench.stats import hodges_lehmann, paired, student_t

Floats = NDArray[numpy.float64]
Bools = NDArray[numpy.bool_]

WORDS = ("INCONCLUSIVE", "EQUIVALENT", "SLOWER", "FASTER", "NOT COMPARABLE")
_SCHEDULES = 64  # orders drawn for a cell; each serves many sessions
_CHUNK = 4000  # sessions at once: 528 Walsh averages each, of 8 bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """A machine, and what is true: logs of factors; `sd` is that of a pair's d without outliers.

    `drift` is over the planned session; `ar` the correlation of neighbouring launches; a launch
    is an outlier with the probability `outliers` and then takes `far` longer.
    """

    truth: float = 1.0
    sd: float = 0.01
    drift: float = 0.03
    ar: float = 0.5
    outliers: float = 0.03
    far: float = 0.05
    second: float = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class Design:
    """What is declared of a session."""

    looks: tuple[int, ...] = (8, 16, 32)
    controls: int = 32
    margin: float = 0.02
    alpha: float = 0.05
    equivalence: bool = True

    @property
    def rules(self) -> Rules:
        """The rules of each look."""
        spent = paired.spent_alpha(self.looks, self.alpha)
        return Rules(margin=self.margin, alpha=spent, equivalence=self.equivalence)


@dataclass(frozen=True, slots=True)
class Drawn:
    """Log-ratios of many sessions of one schedule, a row each, and who went first in each pair."""

    pairs: Floats
    pairs_first: Bools
    controls: Floats
    controls_first: Bools


@dataclass(frozen=True, slots=True)
class Ended:
    """How sessions ended: an index of WORDS, the pairs measured, whether held for a tail."""

    words: NDArray[numpy.int64]
    pairs: NDArray[numpy.int64]
    tails: Bools


def simulate(world: World, design: Design, sessions: int, seed: int) -> Ended:
    """Draw sessions and end each at its first look that decides, else at its last."""
    random = numpy.random.default_rng(seed)
    left, ends = sessions, []
    schedules = max(1, min(_SCHEDULES, sessions // 100))
    for number in range(schedules):
        share = left // (schedules - number)
        left -= share
        for start in range(0, share, _CHUNK):
            size = min(_CHUNK, share - start)
            ends.append(run(draw(world, design, size, random, seed * 1000 + number), design))
    return Ended(
        numpy.concatenate([end.words for end in ends]),
        numpy.concatenate([end.pairs for end in ends]),
        numpy.concatenate([end.tails for end in ends]),
    )


def draw(
    world: World, design: Design, sessions: int, random: numpy.random.Generator, seed: int
) -> Drawn:
    """Draw every launch of sessions that share the schedule of `seed`."""
    counts = launch_order.Counts(controls=design.controls)
    stages = launch_order.plan_stages(looks=design.looks, counts=counts, seed=seed)
    schedule = [pair for stage in stages for pair in stage]
    noise = launches(world, sessions, 2 * len(schedule), random)
    noise[:, 1::2] += world.second
    signs = numpy.array([1.0 if pair.order == "nc" else -1.0 for pair in schedule])
    d = (noise[:, 1::2] - noise[:, ::2]) * signs
    is_pair = numpy.array([pair.series == "pair" for pair in schedule])
    d[:, is_pair] += math.log(world.truth)
    return Drawn(d[:, is_pair], signs[is_pair] < 0, d[:, ~is_pair], signs[~is_pair] < 0)


def launches(world: World, sessions: int, count: int, random: numpy.random.Generator) -> Floats:
    """Draw the logs of the launches' times, in their order: drift, noise, outliers."""
    # The sd of the difference of neighbours of such a process is sd_launch * sqrt(2 (1 - ar)).
    spread = world.sd / math.sqrt(2 * (1 - world.ar))
    noise = random.normal(0, spread, (sessions, count))
    for i in range(1, count):
        noise[:, i] = world.ar * noise[:, i - 1] + math.sqrt(1 - world.ar**2) * noise[:, i]
    noise += world.drift * numpy.arange(count) / count
    noise += math.log1p(world.far) * (random.random((sessions, count)) < world.outliers)
    return noise


def run(drawn: Drawn, design: Design) -> Ended:
    """Take the looks in their order; a look that says INCONCLUSIVE is followed by the next."""
    count = len(drawn.pairs)
    words, tails = numpy.zeros(count, dtype=numpy.int64), numpy.zeros(count, dtype=bool)
    pairs = numpy.full(count, design.looks[-1])
    is_open = numpy.ones(count, dtype=bool)
    for look in design.looks:
        if not is_open.any():
            break
        controls = launch_order.due(design.controls, look, design.looks)
        now, tail = at_look(
            Drawn(
                drawn.pairs[is_open, :look], drawn.pairs_first[:look],
                drawn.controls[is_open, :controls], drawn.controls_first[:controls],
            ),
            design.rules,
        )  # fmt: skip
        words[is_open], tails[is_open] = now, tail
        pairs[numpy.flatnonzero(is_open)[now > 0]] = look
        is_open &= words == 0
    return Ended(words, pairs, tails)


def at_look(drawn: Drawn, rules: Rules) -> tuple[NDArray[numpy.int64], Bools]:
    """Give each session's word as `verdict.judge` does, and whether a tail held it."""
    mean, se, adjusted = _fit(drawn.pairs, drawn.pairs_first)
    word, tail = worded(rules, mean, se, adjusted, drawn.pairs.shape[1] - 2)
    turned = refused(drawn.controls, drawn.controls_first)
    word[turned] = WORDS.index("NOT COMPARABLE")
    return word, tail & ~turned


def worded(
    rules: Rules, mean: Floats, se: Floats, adjusted: Floats, df: int
) -> tuple[NDArray[numpy.int64], Bools]:
    """Give each session's word of a fitted model without its controls, and whether a tail held."""
    n = adjusted.shape[1]
    halves = [student_t.quantile(tail, df) * se for tail in (rules.alpha / 2, rules.alpha)]
    word = _word(rules, (mean - halves[0], mean + halves[0]), (mean - halves[1], mean + halves[1]))
    i, j = numpy.triu_indices(n)
    walsh = numpy.sort((adjusted[:, i] + adjusted[:, j]) / 2, axis=1)
    bounds = []
    for level in (1 - rules.alpha, 1 - 2 * rules.alpha):
        below, _ = hodges_lehmann.cut(n, (1 - level) / 2)
        bounds.append((walsh[:, below], walsh[:, -1 - below]))
    tail = word != _word(rules, *bounds)
    word[tail] = 0
    return word, tail


def _fit(d: Floats, first: Bools) -> tuple[Floats, Floats, Floats]:
    after, before = d[:, ~first], d[:, first]
    shift = (after[:, :, None] - before[:, None, :]).reshape(len(d), -1)
    robust = numpy.median(shift, axis=1, keepdims=True) / 2
    order_effect = (after.mean(axis=1) - before.mean(axis=1)) / 2
    mean = (after.mean(axis=1) + before.mean(axis=1)) / 2
    left = d - mean[:, None] + numpy.where(first, 1, -1) * order_effect[:, None]
    sd = numpy.sqrt((left**2).sum(axis=1) / (d.shape[1] - 2))
    se = sd / 2 * math.sqrt(1 / after.shape[1] + 1 / before.shape[1])
    return mean, se, d + numpy.where(first, 1, -1) * robust


def _word(
    rules: Rules, difference: tuple[Floats, Floats], equivalence: tuple[Floats, Floats]
) -> NDArray[numpy.int64]:
    margin = math.log1p(rules.margin)
    word = numpy.zeros(len(difference[0]), dtype=numpy.int64)
    word[difference[1] < 0] = WORDS.index("FASTER")
    word[difference[0] > 0] = WORDS.index("SLOWER")
    if rules.equivalence:
        word[(equivalence[0] >= -margin) & (equivalence[1] <= margin)] = WORDS.index("EQUIVALENT")
    return word


def refused(d: Floats, first: Bools) -> Bools:
    """Whether the interval of each session's controls excludes 1."""
    if d.shape[1] < 3 or first.all() or not first.any():
        return numpy.zeros(len(d), dtype=bool)
    mean, se, _ = _fit(d, first)
    half = student_t.quantile((1 - CONTROL_LEVEL) / 2, d.shape[1] - 2) * se
    return numpy.asarray(numpy.abs(mean) > half)


def agrees(world: World, design: Design, sessions: int, seed: int) -> bool:
    """Whether the real code, one session at a time, gives the words that the arrays give."""
    drawn = draw(world, design, sessions, numpy.random.default_rng(seed), seed)
    ended = run(drawn, design)
    real = [_judged(drawn, row, design) for row in range(sessions)]
    return real == [
        (WORDS[word], pairs) for word, pairs in zip(ended.words, ended.pairs, strict=True)
    ]


def _judged(drawn: Drawn, row: int, design: Design) -> tuple[str, int]:
    word = ""
    for look in design.looks:
        controls = launch_order.due(design.controls, look, design.looks)
        pairs = differences(drawn.pairs[row, :look], drawn.pairs_first)
        control = differences(drawn.controls[row, :controls], drawn.controls_first)
        evidence = Evidence(
            pairs=paired.fit(pairs), control=paired.fit(control) if control else None
        )
        word = judge(design.rules, evidence).word
        if word != "INCONCLUSIVE":
            return word, look
    return word, design.looks[-1]


def differences(d: Floats, first: Bools) -> list[paired.Difference]:
    """Give one session's pairs as the real code takes them."""
    return [
        paired.Difference(number=i + 1, d=float(value), candidate_first=bool(first[i]))
        for i, value in enumerate(d)
    ]


def agresti_coull(hits: int, count: int, z: float = 1.96) -> tuple[float, float, float]:
    """Give a share with its 95 % interval (Agresti & Coull, 1998)."""
    middle = (hits + z * z / 2) / (count + z * z)
    half = z * math.sqrt(middle * (1 - middle) / (count + z * z))
    return hits / count, max(0.0, middle - half), min(1.0, middle + half)


def share(ended: Ended, words: Sequence[str]) -> tuple[float, float, float]:
    """Give the share of sessions that ended in one of the words, with its interval."""
    wanted = numpy.isin(ended.words, [WORDS.index(word) for word in words])
    return agresti_coull(int(wanted.sum()), len(ended.words))


def quiet(world: World) -> World:
    """Give the same machine without outliers."""
    return replace(world, outliers=0.0)
