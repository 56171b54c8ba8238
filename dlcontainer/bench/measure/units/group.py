"""One group: processes of both arms, alive at once, that have their turns one after the other."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlcontainer.bench.measure import launch
from dlcontainer.bench.measure.arms import Arm, Workload
from dlcontainer.bench.measure.launch import LaunchOutcome
from dlcontainer.bench.measure.units.baton import GroupSeat, Pipes, SilentError
from dlcontainer.bench.samples.resident.balanced import Round
from dlcontainer.bench.samples.resident.order import GroupOrder
from dlcontainer.bench.samples.resident.resident_records import GroupPlan, ResidentProcess, Turn
from dlcontainer.system.background import BackgroundTask, BackgroundWork, beside
from dlcontainer.system.process import Runner

_DIGITS = 9
# Beside what its threads may spin in the gap: reading an order, the interpreter's own.
_IDLE_SLACK_S = 0.02


class LostProcessError(Exception):
    """A process of a group ended, hung, answered nonsense, or spun while others had their turn."""

    def __init__(self, name: str, reason: str, outcome: LaunchOutcome | None) -> None:
        super().__init__(f"process {name}: {reason}")
        self.name, self.reason, self.outcome = name, reason, outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupSpace:
    """With what a group is measured: the work of all processes, a folder for their pipes."""

    work: Workload
    runner: Runner
    folder: Path
    timeout_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupMeasurement:
    """A group that is whole: what each process reported, with its turns."""

    outcomes: Mapping[str, LaunchOutcome]
    elapsed_s: float


@dataclass(slots=True)
class _Member:
    name: str
    pipes: Pipes
    task: BackgroundTask[LaunchOutcome]
    timeout_s: float
    started_s: float
    ready_s: float = 0.0
    trainers: int = 0
    turns: list[Turn] = field(default_factory=list)

    def ask(self, order: str) -> dict[str, float | list[float]]:
        self.pipes.order(order)
        return self.heard()

    def heard(self) -> dict[str, float | list[float]]:
        try:
            return self.pipes.answer(lambda: self.task.runs, self.timeout_s)
        except SilentError as error:
            raise self.lost(str(error)) from None

    def lost(self, reason: str) -> LostProcessError:
        """Return the error: with what the process said last, where it has ended."""
        if self.task.runs and reason == "it ended":
            self.task.join()  # its pipe is closed: it is about to be gone
        outcome = None if self.task.runs else self.task.result()
        reason_text = outcome.reason if outcome and outcome.reason else reason
        return LostProcessError(self.name, reason_text, outcome)

    def resident(self, outcome: LaunchOutcome) -> ResidentProcess:
        """Return what is kept of it."""
        return ResidentProcess(
            name=self.name,
            started_s=round(self.started_s, _DIGITS),
            ready_s=round(self.ready_s - self.started_s, _DIGITS),
            turns=tuple(self.turns),
            phases=outcome.phases,
            values={**outcome.values, "counts": dict(outcome.counts)},
            losses=outcome.losses,
        )


def run(
    sides: Mapping[str, Arm], order: GroupOrder, plan: GroupPlan, room: GroupSpace
) -> GroupMeasurement:
    """Measure one group, its processes by their names; none of them is left when this returns.

    Raises LostProcessError.
    """
    began = time.monotonic()
    with ExitStack() as stack:
        work = stack.enter_context(beside(room.runner))
        members: dict[str, _Member] = {}
        # All start at once, in the order that was drawn, and import beside each other.
        for name in order.start:
            members[name] = _started(name, sides[name], plan, room, work)
            stack.callback(members[name].pipes.close)
        for member in members.values():
            member.heard()  # it runs
            member.heard()  # it has imported
            member.ready_s = time.monotonic()
        for number, names in enumerate(order.rounds):
            _round(members, number, names, plan)
        # The kernels need the processors for themselves; reports, and the ends, don't.
        for member in members.values():
            member.ask("stop")
        for member in members.values():
            member.pipes.order("end")
        outcomes = {name: _ended(member) for name, member in members.items()}
    return GroupMeasurement(outcomes=outcomes, elapsed_s=time.monotonic() - began)


def _round(members: Mapping[str, _Member], number: int, names: Round, plan: GroupPlan) -> None:
    if number % plan.renew_rounds == 0:
        for name in names.makes:
            members[name].ask("make")
            members[name].trainers += 1
    for place, name in enumerate(names.turns):
        # Until the threads of the one before have stopped to spin.
        time.sleep(plan.gap_s)
        _turn(members[name], number, place, plan)


def _started(
    name: str, side: Arm, plan: GroupPlan, room: GroupSpace, work: BackgroundWork
) -> _Member:
    seat = GroupSeat(folder=room.folder, name=name, cpus=plan.cpus)
    pipes = Pipes(seat)
    launched = side.launch(replace(room.work, seat=seat))
    # An order that takes longer is noticed at once; this is for who ignores the end.
    longest = room.timeout_s * (plan.rounds + 2)
    started = time.monotonic()
    task = work.start(lambda runner: launch.perform(launched, runner, longest))
    return _Member(name=name, pipes=pipes, task=task, timeout_s=room.timeout_s, started_s=started)


def _turn(member: _Member, number: int, place: int, plan: GroupPlan) -> None:
    asked_at = time.monotonic()
    answer = member.ask(f"turn {plan.turn_steps}")
    waited_s = time.monotonic() - asked_at
    try:
        steps = answer["steps_s"]
        turn = Turn(
            round=number,
            place=place,
            trainer=member.trainers,
            steps_s=tuple(float(step) for step in steps) if isinstance(steps, list) else (),
            seen_s=round(waited_s, _DIGITS),
            voluntary=_whole(answer["voluntary"]),
            involuntary=_whole(answer["involuntary"]),
            faults=_whole(answer["faults"]),
            **{name: _seconds(answer[name]) for name in _TIMES},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise member.lost(f"its answer is not whole: {error!r}") from None
    if len(turn.steps_s) != plan.turn_steps or not all(step > 0 for step in turn.steps_s):
        raise member.lost(f"{len(turn.steps_s)} times of steps, and {plan.turn_steps} were asked")
    if turn.idle_cpu_s > plan.gap_s * len(plan.cpus) + _IDLE_SLACK_S:
        raise member.lost(
            f"it used {turn.idle_cpu_s:.3f} s of processor time while others had their turn"
        )
    member.turns.append(turn)


_TIMES = ("start_s", "first_s", "wall_s", "cpu_s", "idle_cpu_s")


def _seconds(value: float | list[float]) -> float:
    if isinstance(value, list) or not value >= 0:
        raise ValueError(f"no time: {value}")
    return float(value)


def _whole(value: float | list[float]) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"no count: {value}")
    return value


def _ended(member: _Member) -> LaunchOutcome:
    outcome = member.task.result()
    if outcome.status != "ok":
        raise LostProcessError(member.name, outcome.reason, outcome)
    return replace(outcome, residents=(member.resident(outcome),))
