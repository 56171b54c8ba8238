"""A group as its file has it: does it contradict itself, or the declaration? Pure.

The chain of hashes does not stop a writer who recomputes all of it. Values that can't have been
measured so are found here.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from dlcontainer.bench.samples.launch_order import ScheduledPair
from dlcontainer.bench.samples.records import Sample, SessionDeclaration
from dlcontainer.bench.samples.resident import order
from dlcontainer.bench.samples.resident.order import GroupOrder
from dlcontainer.bench.samples.resident.resident_records import GroupPlan, ResidentProcess, Turn
from dlcontainer.bench.samples.schedule import Schedule

# Times are written with nine digits: a sum of a few thousand differs by less.
_ROUNDING_S = 1e-5
# A mean of them does not.
_MEAN_ROUNDING_S = 1e-8


def schedule(declared: SessionDeclaration) -> list[list[ScheduledPair]]:
    """Draw the groups that a declaration holds, one list for what comes before each look."""
    looks = declared.looks or (declared.pairs,)
    stages = Schedule(looks=looks, seed=declared.seed).stages(with_joiners=False)
    return [[group for group in stage if isinstance(group, ScheduledPair)] for stage in stages]


class Agreement:
    """Looks at the lines of a session of groups as they come."""

    def __init__(self, declared: SessionDeclaration, plan: GroupPlan) -> None:
        self._declared, self._plan = declared, plan
        stages = schedule(declared)
        self._groups = {group.number: group for stage in stages for group in stage}
        self._last: Sample | None = None

    def problem(self, sample: Sample) -> str | None:
        """Return what is wrong with a line; of a group's second one, with the whole group."""
        if sample.role == "warmup" or not sample.ok:
            return None
        group = self._groups.get(sample.pair)
        if sample.role != "pair" or group is None:
            return f"{sample.role} {sample.pair} is not in the declared schedule"
        if sample.order != group.order:
            return f"group {sample.pair} has the order {sample.order}, the seed draws {group.order}"
        drawn = self._order(group)
        problem = next(self._of_arm(sample, drawn), None)
        before, self._last = self._last, sample
        if problem or sample.position == 0 or before is None or before.pair != sample.pair:
            return problem
        return next(_of_both((*before.residents, *sample.residents), drawn), None)

    def _order(self, group: ScheduledPair) -> GroupOrder:
        declared = self._declared
        return order.drawn(declared.seed, group, self._plan)

    def _of_arm(self, sample: Sample, drawn: GroupOrder) -> Iterator[str]:
        reference = sample.arm == self._declared.sides.reference
        letter = order.REFERENCE if reference else order.CANDIDATE
        expected = [name for name in order.names(self._plan.per_arm) if name[0] == letter]
        names = [resident.name for resident in sample.residents]
        if names != expected:
            yield f"the processes of {sample.arm} are {names}, not {expected}"
            return
        for resident in sample.residents:
            yield from self._of_process(resident, drawn)
        total = sum(resident.wall_s for resident in sample.residents)
        if abs(total - sample.wall_s) > _ROUNDING_S:
            yield f"wall_s is {sample.wall_s}, and the turns sum up to {total:.9f}"
        if sample.wall_s > _elapsed(sample):
            yield f"wall_s is {sample.wall_s}, longer than the whole group took"
        yield from _of_cpu(sample)

    def _of_process(self, resident: ResidentProcess, drawn: GroupOrder) -> Iterator[str]:
        if [turn.round for turn in resident.turns] != list(range(self._plan.rounds)):
            yield f"{resident.name} has not one turn in each of {self._plan.rounds} rounds"
            return
        for turn in resident.turns:
            where = f"{resident.name}, round {turn.round}"
            if drawn.rounds[turn.round].turns[turn.place : turn.place + 1] != (resident.name,):
                yield f"{where}: at place {turn.place}, where the seed draws another"
            if len(turn.steps_s) != self._plan.turn_steps:
                yield f"{where}: {len(turn.steps_s)} steps, and {self._plan.turn_steps} declared"
            if abs(sum(turn.steps_s) - turn.wall_s) > _ROUNDING_S:
                yield f"{where}: wall_s is {turn.wall_s}, not the sum of its steps"
            if turn.first_s + turn.wall_s > turn.seen_s:
                yield f"{where}: its steps took longer than the session waited for them"


def _of_cpu(sample: Sample) -> Iterator[str]:
    """Yield where processor time, an endpoint of its own, is not that of the turns."""
    cpu_s = sample.figure("cpu_s_per_step")
    turns = [turn for resident in sample.residents for turn in resident.turns]
    mean = sum(turn.cpu_s for turn in turns) / sum(len(turn.steps_s) for turn in turns)
    if cpu_s is not None and abs(cpu_s - mean) > _MEAN_ROUNDING_S:
        yield f"cpu_s_per_step is {cpu_s}, and the turns' is {mean:.9f}"


def _elapsed(sample: Sample) -> float:
    return sample.figure("elapsed_s") or 0.0


def _of_both(members: Sequence[ResidentProcess], drawn: GroupOrder) -> Iterator[str]:
    """Yield what is wrong between the processes of both arms."""
    starts = {resident.name: resident.started_s for resident in members}
    if not _grow(starts[name] for name in drawn.start):
        yield "its processes did not start one after the other, in the order that the seed draws"
    turns = sorted(
        (turn for resident in members for turn in resident.turns),
        key=lambda turn: (turn.round, turn.place),
    )
    for before, after in pairwise(turns):
        if after.start_s < _end(before):
            yield f"round {after.round}, place {after.place}: begun before the turn before it ended"


def _grow(values: Iterable[float]) -> bool:
    return all(earlier < later for earlier, later in pairwise(values))


def _end(turn: Turn) -> float:
    return turn.start_s + turn.first_s + turn.wall_s - _ROUNDING_S
