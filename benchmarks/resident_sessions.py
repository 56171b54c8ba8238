"""Sessions of resident groups drawn at random, and statements across several sessions (NumPy).

As `simulation.py` does for pairs: one number a group goes through the same looks, model, ranks and
gates. What belongs to turns is drawn from the groups' own orders.
"""

import math
from dataclasses import replace
from itertools import pairwise

import numpy
import scipy.stats
from numpy.typing import NDArray

from benchmarks.regressions import Floats, ran
from benchmarks.simulation import (
    WORDS,
    Bools,
    Design,
    Drawing,
    Drawn,
    Ended,
    gates,
    simulate,
    word_of,
)
from benchmarks.worlds import World, of_arm, walk
from dlcontainer.bench.analysis.across_sessions import FEWEST
from dlcontainer.bench.analysis.verdict import VerdictRules
from dlcontainer.bench.samples import launch_order
from dlcontainer.bench.samples.launch_order import ScheduledPair
from dlcontainer.bench.samples.resident import order
from dlcontainer.bench.samples.resident.resident_records import GroupPlan

PER_ARM = 2
_PLAN = GroupPlan(
    per_arm=PER_ARM, rounds=4, turn_steps=8, renew_rounds=1, gap_s=0.01, cpus=(0,), lost_most=4
)


def draw(
    world: World, design: Design, sessions: int, random: numpy.random.Generator, seed: int
) -> Drawn:
    """Draw every group of sessions that share the orders of `seed`.

    `sd` is that of a group's d. What both arms share in a group (drift, the machine's noise)
    cancels: it is alive at once. An outlier is a group; a slow launch is a process, for all of its
    life; carry-over is between turns.
    """
    counts = launch_order.LaunchCounts()
    stages = launch_order.plan_stages(looks=design.looks, counts=counts, seed=seed)
    groups = [group for stage in stages for group in stage if isinstance(group, ScheduledPair)]
    count, when = len(groups), numpy.arange(len(groups)) / len(groups)
    d = numpy.full((sessions, count), math.log(world.truth))
    d += numpy.array([_carried(seed, group) * world.carry for group in groups])
    for sign in (1.0, -1.0):
        ar, sd = world.own_ar, world.sd / math.sqrt(2)
        d += sign * walk(sessions, count, ar, sd, random)
        d += sign * of_arm(world, sessions, when, random)
        far = random.random((sessions, count)) < world.outliers / 2
        d += sign * math.log1p(world.far) * far
    if world.slow:
        d += _slow(world, random.random((sessions, count, PER_ARM)) < world.slow)
    kernels = gates(world, sessions, count, random)
    how = [ran(group, "", ("n", "c"), "n") for group in groups]
    return Drawn(d, how, numpy.zeros((sessions, 0)), (), kernels)


def _carried(seed: int, group: ScheduledPair) -> float:
    """Return the share of the container's turns that follow a container, less the reference's.

    Before the first turn of a round a trainer is made, which leaves as much.
    """
    follows = dict.fromkeys((order.REFERENCE, order.CANDIDATE), 0)
    for each in order.drawn(seed, group, _PLAN).rounds:
        for before, name in pairwise((each.makes[-1], *each.turns)):
            follows[name[0]] += before[0] == order.CANDIDATE
    return (follows[order.CANDIDATE] - follows[order.REFERENCE]) / (PER_ARM * _PLAN.rounds)


def _slow(world: World, hit: Bools) -> Floats:
    """Return the logs of an arm's mean time with slow processes, their expectation taken out."""
    hits, chance = numpy.arange(PER_ARM + 1), world.slow
    logs = numpy.log1p((world.slower - 1) * hits / PER_ARM)
    expected = float((scipy.stats.binom.pmf(hits, PER_ARM, chance) * logs).sum())
    return numpy.asarray(logs[hit.sum(axis=2)] - expected)


def across(
    world: World, design: Design, statements: int, seed: int, drawing: Drawing | None = None
) -> Ended:
    """Simulate statements over three sessions each, as `across_sessions` judges their means."""
    ended = simulate(world, design, FEWEST * statements, seed, drawing)
    # Sessions that stand beside each other share an order: not those of one statement.
    mixed = numpy.random.default_rng(seed).permutation(len(ended.words)).reshape(-1, FEWEST)
    means, words = ended.means[mixed], ended.words[mixed]
    rules = replace(design.rules, alpha=design.alpha)
    said = together(rules, means)
    said[(words == WORDS.index("NOT COMPARABLE")).any(axis=1)] = WORDS.index("NOT COMPARABLE")
    pairs = ended.pairs[mixed].sum(axis=1)
    return Ended(said, pairs, numpy.zeros(len(said), dtype=bool))


def together(rules: VerdictRules, means: Floats) -> NDArray[numpy.int64]:
    """Return the word over each row of sessions' means."""
    count = means.shape[1]
    se, middle = means.std(axis=1, ddof=1) / math.sqrt(count), means.mean(axis=1)
    halves = [scipy.stats.t.isf(tail, count - 1) * se for tail in (rules.alpha / 2, rules.alpha)]
    return word_of(rules, *((middle - half, middle + half) for half in halves))
