"""Which strategies at which numbers of ranks a forecast looks at, and which don't divide. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from dlcontainer.bench.samples import parallel_strategy
from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.study.advice.forecast_records import LeftOutStrategy
from dlcontainer.bench.study.forecast.step_terms import StrategyChoice
from dlcontainer.bench.study.study_records import Scaling
from dlcontainer.errors import UsageError

# Enough for every strategy of any machine; a table of more is read by nobody.
MOST = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class DividedWork:
    """What strategies divide: counts of the network (0: not known, not divided), and the batch.

    batch: samples of one data-parallel group at weak scaling, of all ranks at strong scaling.
    micro_batches: 0 is twice the stages, or the batch if that is less, as `bench train` has it.
    """

    layers: int
    heads: int
    batch: int
    micro_batches: int
    scaling: Scaling


@dataclass(frozen=True, kw_only=True, slots=True)
class StrategyCandidate:
    """A strategy, as it was typed and at so many ranks."""

    typed: str
    ranks: int
    nodes: int
    choice: StrategyChoice


@dataclass(frozen=True, kw_only=True, slots=True)
class StrategyCandidates:
    """Candidates, and what was left out with the reason."""

    candidates: tuple[StrategyCandidate, ...]
    left_out: tuple[LeftOutStrategy, ...]


def counts(least: int, ranks_per_node: int, most: int) -> tuple[int, ...]:
    """Return numbers of ranks to look at: doublings within a node, then of nodes, and the most."""
    within, ranks = [], least
    while ranks < min(ranks_per_node, most):
        within.append(ranks)
        ranks *= 2
    nodes = []
    ranks = max(ranks_per_node, least)
    while ranks < most:
        nodes.append(ranks)
        ranks *= 2
    return tuple(sorted({*within, *nodes, most}))


def listed(
    typed: Sequence[str], ranks: Sequence[int], ranks_per_node: int, work: DividedWork
) -> StrategyCandidates:
    """Return each strategy at each number of ranks, or why it is none there."""
    if len(typed) * len(ranks) > MOST:
        raise UsageError(
            f"{len(typed) * len(ranks)} combinations of strategies and ranks; at most {MOST}",
            next_step="name fewer strategies, or fewer nodes with --nodes",
        )
    candidates: dict[tuple[str, int], StrategyCandidate] = {}
    left_out: list[LeftOutStrategy] = []
    for name in typed:
        for count in ranks:
            try:
                strategy = parallel_strategy.parse(name, count)
            except UsageError as error:
                why = error.what.removeprefix(f"--parallel {name}: ")
                left_out.append(LeftOutStrategy(strategy=name, ranks=count, why=why))
                continue
            why = undivided(strategy, work)
            if why:
                left_out.append(LeftOutStrategy(strategy=name, ranks=count, why=why))
                continue
            choice = StrategyChoice(
                strategy=strategy,
                global_batch=_global_batch(strategy, work),
                micro_batches=micro_batches(strategy, work),
            )
            nodes = -(-count // ranks_per_node)
            candidate = StrategyCandidate(typed=name, ranks=count, nodes=nodes, choice=choice)
            # Two names may come to the same strategy: of one rank there is one.
            candidates.setdefault((strategy.name, count), candidate)
    return StrategyCandidates(candidates=tuple(candidates.values()), left_out=tuple(left_out))


def micro_batches(strategy: ParallelStrategy, work: DividedWork) -> int:
    """Return into how many parts a pipeline cuts the batch of a data-parallel group."""
    if strategy.pp == 1:
        return 1
    of_group = max(_global_batch(strategy, work) // strategy.batches, 1)
    return work.micro_batches or min(2 * strategy.pp, of_group)


def undivided(strategy: ParallelStrategy, work: DividedWork) -> str:
    """Return which number a strategy does not divide; empty where it divides all."""
    batch, groups = _global_batch(strategy, work), strategy.batches
    # The usual number cuts a batch as it can.
    micro = micro_batches(strategy, work) if work.micro_batches else 1
    for divisor, axis, whole, what in (
        (strategy.tp, f"tp{strategy.tp}", work.heads, "heads"),
        (strategy.pp, f"pp{strategy.pp}", work.layers, "layers"),
        (groups, f"{groups} data-parallel groups", batch, "samples of a step"),
        (micro, f"{micro} micro-batches", batch // groups, "samples of a data-parallel group"),
    ):
        if whole % divisor:
            return f"{axis}: {whole} {what} can't be divided by {divisor}"
    if (strategy.tp > 1 or strategy.pp > 1) and not work.layers:
        return "nothing tells the network's layers, which tp and pp divide"
    return ""


def wrong_name(name: str) -> str:
    """Return why a name is no strategy at any number of ranks; empty for one that is."""
    try:
        parallel_strategy.parse(name, 1)
    except UsageError as error:
        why = error.what.partition(": ")[2]
        return "" if "ranks" in why and "no number" not in why else why
    return ""


def _global_batch(strategy: ParallelStrategy, work: DividedWork) -> int:
    return work.batch if work.scaling == "strong" else work.batch * strategy.batches
