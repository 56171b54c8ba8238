"""What a study's sessions are measured with: one for each point, one for each extra. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dlcontainer.bench.probes import collectives, train
from dlcontainer.bench.probes.networks import choices, parallel, script
from dlcontainer.bench.probes.probe import QUICK, Value
from dlcontainer.bench.samples.schedule import FEWEST
from dlcontainer.bench.study import study_plan
from dlcontainer.bench.study.study_records import ExtraPlan, PointPlan, StudyPlan
from dlcontainer.system.runner import quote

# Small enough for its latency alone, large enough for its bytes alone: KiB, MiB.
SIZES = "4K,4M"
OPERATIONS = "all_reduce,send_recv"
# Pairs of messages; they are shown, and a step is forecast by them: no verdict is read.
MESSAGE_PAIRS = 4
# Steps of each rank while nobody talks, after a launch's own steps.
APART_STEPS = 10
# Ranks that train side by side and never talk, and the options of `bench train` that a study sets.
ALONE = parallel.APART_WAY
DISTRIBUTED, PARALLEL, APART = "distributed", parallel.PARALLEL.name, parallel.APART.name
MICRO_BATCHES = parallel.MICRO_BATCHES.name
_KNOWN = frozenset(option.name for option in train.TRAIN.options)


@dataclass(frozen=True, kw_only=True, slots=True)
class StudySession:
    """One session of a study: what it measures, and the options that it is measured with.

    `values` are the probe's own, by the names of options.
    """

    probe: str
    ranks: int
    nodes: int
    ranks_per_node: int
    looks: tuple[int, ...]
    # None: as many as pairs of the last look.
    controls: int | None
    file: str
    values: Mapping[str, Value] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Return its name in progress and tables: that of its file."""
        return self.file.removesuffix(".jsonl")

    @property
    def trains(self) -> bool:
        """Return whether its launches are steps of training."""
        return self.probe == train.TRAIN.name


def sessions(plan: StudyPlan) -> tuple[StudySession, ...]:
    """Return a study's sessions in the order in which they are measured.

    By number of ranks; extras come behind the points of theirs.
    """
    last = max(point.ranks for point in plan.points)
    planned: list[tuple[int, StudySession]] = [
        (point.ranks, of_point(point, plan, is_last=point.ranks == last)) for point in plan.points
    ]
    planned += [(extra.ranks, of_extra(extra, plan)) for extra in plan.extras]
    return tuple(session for _, session in sorted(planned, key=lambda pair: pair[0]))


def of_point(point: PointPlan, plan: StudyPlan, *, is_last: bool) -> StudySession:
    """Return the session of a point."""
    values = {**_training(plan), **_batch(study_plan.by_batch(point))}
    # Copies that average gradients are what ranks do anyway, with any framework.
    if point.strategy.dp < point.ranks:
        values[PARALLEL] = point.strategy.name
    if point.strategy.pp == 1:
        values.pop(MICRO_BATCHES, None)
    if point.ranks > 1:
        values[APART] = APART_STEPS
    return StudySession(
        probe=train.TRAIN.name,
        ranks=point.ranks,
        nodes=point.nodes,
        ranks_per_node=_per_node(point.ranks, plan),
        looks=point.looks,
        controls=None if is_last else 0,
        file=point.file,
        values=values,
    )


def of_extra(extra: ExtraPlan, plan: StudyPlan) -> StudySession:
    """Return the session of a further measurement."""
    if extra.kind == "messages":
        probe, pairs = collectives.COLLECTIVES.name, MESSAGE_PAIRS
        values: dict[str, Value] = {
            collectives.OPERATIONS_OPTION.name: OPERATIONS,
            collectives.SIZES_OPTION.name: SIZES,
            QUICK.name: True,
        }
    else:
        probe, pairs = train.TRAIN.name, FEWEST
        # As each rank of the smallest data-parallel point trains.
        alike = next(point for point in plan.points if point.ranks == extra.ranks)
        values = {**_training(plan), **_batch(study_plan.by_batch(alike))}
        values[DISTRIBUTED] = ALONE
        values.pop(MICRO_BATCHES, None)
    last = max(plan.points[-1].looks)
    looks = (min(pairs, last),)
    return StudySession(
        probe=probe,
        ranks=extra.ranks,
        nodes=extra.nodes,
        ranks_per_node=_per_node(extra.ranks, plan),
        looks=looks,
        controls=0,
        file=extra.file,
        values=values,
    )


def network_words(plan: StudyPlan) -> str:
    """Return the words that name the study's network to another command of `bench`."""
    words = plan.options.get(script.SCRIPT.name)
    named = (script.SCRIPT.flag, str(words)) if words else (choices.WORKLOAD.flag, plan.workload)
    return quote(named)


def _training(plan: StudyPlan) -> dict[str, Value]:
    typed = {name: value for name, value in plan.options.items() if name in _KNOWN}
    # A script is a network of its own.
    named = {} if script.SCRIPT.name in typed else {choices.WORKLOAD.name: plan.workload}
    return {**typed, **named, choices.PRECISION.name: plan.precision}


def _batch(batch: int) -> dict[str, Value]:
    return {choices.BATCH.name: batch} if batch else {}


def _per_node(ranks: int, plan: StudyPlan) -> int:
    return min(ranks, ranks_per_node(plan))


def ranks_per_node(plan: StudyPlan) -> int:
    """Return how many ranks a full node has."""
    return int(plan.options[RANKS_PER_NODE])


RANKS_PER_NODE = "ranks_per_node"


def emulated(ranks: int, cores: int) -> str:
    """Say that ranks of a node have no core each; empty where they have."""
    if ranks <= cores:
        return ""
    return f"emulated: {ranks} ranks on {cores} cores of a node, which do not compute at once"


def numbers(planned: Sequence[StudySession]) -> tuple[int, ...]:
    """Return the numbers of ranks of sessions, each once."""
    return tuple(dict.fromkeys(session.ranks for session in planned))
