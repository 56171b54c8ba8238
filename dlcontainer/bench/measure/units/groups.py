"""Resident groups as the unit of a session: new processes for each group, all of them recorded."""

import math
import shutil
import statistics
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.bench.analysis import calibration
from dlcontainer.bench.measure import declaration
from dlcontainer.bench.measure.arms import Arm, Workload
from dlcontainer.bench.measure.declaration import WarmupOutcome
from dlcontainer.bench.measure.launch import LaunchOutcome
from dlcontainer.bench.measure.recorder import ArmLaunch, Recorder
from dlcontainer.bench.measure.units import group as one_group
from dlcontainer.bench.measure.units.baton import GroupSeat
from dlcontainer.bench.measure.units.group import GroupMeasurement, GroupSpace, LostProcessError
from dlcontainer.bench.measure.units.unit import MeasurementTask
from dlcontainer.bench.probes.lending import BELOW
from dlcontainer.bench.samples.launch_order import Group
from dlcontainer.bench.samples.resident import balanced, order
from dlcontainer.bench.samples.resident.balanced import Round
from dlcontainer.bench.samples.resident.order import GroupOrder
from dlcontainer.bench.samples.resident.resident_records import GroupPlan, LostGroup
from dlcontainer.errors import BenchDataError

# A turn is at least as long, by the quickest step of the warm-up: the caches that the others left
# cold are filled by the step before it.
TURN_S = 0.2
_HEADROOM = 1.1
# A turn with its dropped step, by the aim; steps are longer than the quickest one.
_TURN_SHARE = 1.4
ROUNDS = balanced.ROUNDS
# Of balanced rounds each follows the making of new trainers.
RENEW_ROUNDS = 1
# Longer than any team of threads is known to spin (KMP_BLOCKTIME: 0.2 s).
_LONGEST_SPIN_S = 0.5
_LEAST_GAP_S = 0.01
_TRIAL_STEPS = 10


class CannotTakeTurnsError(Exception):
    """The processes of a side don't leave the processors to the others; the text says why."""

    def refused(self) -> BenchDataError:
        """Return the error for who asked for groups."""
        return BenchDataError(
            "processes use processor time while they wait for their turn",
            why=str(self),
            next_step="remove OMP_WAIT_POLICY=active and long spin times from the image's "
            "environment, or use --unit launches",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Groups:
    """Groups of `per_arm` resident processes of each arm, bound to `cpus`."""

    task: MeasurementTask
    per_arm: int
    cpus: tuple[int, ...]

    def warmed(self, begun: WarmupOutcome | None) -> list[ArmLaunch]:
        """Run one process of each arm together, with two turns each and a long wait between."""
        arms = (order.names(1)[0], order.names(1)[-1])
        plan = replace(
            self._plan(turn_steps=_TRIAL_STEPS, gap_s=_LONGEST_SPIN_S),
            per_arm=1,
            rounds=2,
            renew_rounds=2,
        )
        if begun and begun.groups:
            plan = replace(plan, cpus=begun.groups.cpus)
        drawn = GroupOrder(start=arms, rounds=2 * (Round(arms, arms),))
        started = declaration.now()
        try:
            measured = self._run(drawn, plan)
        except LostProcessError as lost:
            return [self._lost(lost, started)]
        return [
            ArmLaunch(arm=self._sides()[name], started=started, outcome=measured.outcomes[name])
            for name in arms
        ]

    def settled(self, thrown: Sequence[ArmLaunch]) -> WarmupOutcome:
        """Settle the steps of a turn, and the wait that no thread of any side spins through."""
        outcomes = [launch.outcome for launch in thrown]
        steps = [step for outcome in outcomes for step in outcome.steps_s]
        if not steps or any(outcome.status != "ok" for outcome in outcomes):
            plan = self._plan(turn_steps=1, gap_s=_LONGEST_SPIN_S)
            return WarmupOutcome(steps=plan.steps, groups=plan)
        # All threads' time: as long as one that spins alone, longer than each of a team.
        spun = max(outcome.values.get("idle_cpu_s", 0.0) for outcome in outcomes)
        if spun >= _LONGEST_SPIN_S:
            raise CannotTakeTurnsError(
                f"a process used {spun:.2f} s of processor time in a wait of {_LONGEST_SPIN_S} s: "
                "its threads spin, which would count as time of the other processes' steps"
            )
        plan = self._plan(
            turn_steps=math.ceil(_HEADROOM * TURN_S / min(steps)),
            gap_s=round(max(_LEAST_GAP_S, 1.5 * spun), 4),
        )
        return WarmupOutcome(steps=plan.steps, groups=plan)

    def work(self, settled: WarmupOutcome) -> Workload:
        """Return what every process runs; its pipes are named when it is started."""
        plan = settled.groups or self._plan(turn_steps=1, gap_s=_LONGEST_SPIN_S)
        seat = GroupSeat(folder=self.task.context.work / "group", name="n0", cpus=plan.cpus)
        return replace(self._work(), seat=seat)

    def sample_s(self, settled: WarmupOutcome, warmed_s: float) -> float:
        """Foresee the seconds of half a group: imports beside each other, then turns."""
        gap = settled.groups.gap_s if settled.groups else 0.0
        turns = 2 * self.per_arm * ROUNDS * (_TURN_SHARE * TURN_S + gap)
        return (warmed_s * self.per_arm + turns) / 2

    def measure(self, group: Group, settled: WarmupOutcome, recorder: Recorder) -> None:
        """Measure a group, and again where it loses a process, as often as was declared."""
        plan = settled.groups
        if plan is None:
            raise ValueError("no plan of groups")
        drawn = order.drawn(self.task.settings.schedule.seed, group, plan)
        while True:
            started = declaration.now()
            try:
                measured = self._run(drawn, plan)
            except LostProcessError as lost:
                arm = self._sides()[lost.name]
                record = LostGroup(
                    group=group.number,
                    arm=arm.name,
                    process=lost.name,
                    reason=lost.reason.splitlines()[0],
                    started=started,
                )
                recorder.lost(record, plan.lost_most, self._lost(lost, started).outcome)
                self.task.context.execution.progress.note(
                    f"group {group.number} lost process {lost.name} ({arm.name}): {record.reason}; "
                    "measuring the group again"
                )
                continue
            break
        for position, letter in enumerate(group.order):
            part = self._part(letter, measured, started, recorder)
            recorder.paired(group, position, part)

    def _part(
        self, letter: str, measured: GroupMeasurement, started: str, recorder: Recorder
    ) -> ArmLaunch:
        """Return one arm's part of a group, in place of a launch."""
        mine = {name: done for name, done in measured.outcomes.items() if name[0] == letter}
        side = self._sides()[f"{letter}0"]
        changed = [
            recorder.changed(ArmLaunch(arm=side, started=started, outcome=outcome))
            for outcome in mine.values()
        ]
        outcome = together(mine, measured.elapsed_s)
        return ArmLaunch(
            arm=side,
            started=started,
            outcome=replace(outcome, reason=next(filter(None, changed), "")),
        )

    def _run(self, drawn: GroupOrder, plan: GroupPlan) -> GroupMeasurement:
        folder = Path(tempfile.mkdtemp(prefix="group-", dir=self.task.context.work))
        (folder / BELOW).mkdir()
        room = GroupSpace(
            work=self._work(),
            runner=self.task.context.execution.runner,
            folder=folder,
            timeout_s=self.task.settings.timeout_s,
        )
        try:
            return one_group.run(self._sides(), drawn, plan, room)
        finally:
            shutil.rmtree(folder)

    def _lost(self, lost: LostProcessError, started: str) -> ArmLaunch:
        reported = lost.outcome
        outcome = LaunchOutcome(
            status="failed",
            returncode=reported.returncode if reported and reported.returncode else 1,
            elapsed_s=reported.elapsed_s if reported else 0.0,
            reason=str(lost),
            stderr=reported.stderr if reported else (),
        )
        return ArmLaunch(arm=self._sides()[lost.name], started=started, outcome=outcome)

    def _sides(self) -> Mapping[str, Arm]:
        sides = self.task.sides
        arms: dict[str, Arm] = {
            order.REFERENCE: sides.reference,
            order.CANDIDATE: sides.candidate,
        }
        return {name: arms[name[0]] for name in order.names(self.per_arm)}

    def _work(self) -> Workload:
        task = self.task
        return declaration.workload(task.settings, task.subject, 0, task.context)

    def _plan(self, *, turn_steps: int, gap_s: float) -> GroupPlan:
        return GroupPlan(
            per_arm=self.per_arm,
            rounds=ROUNDS,
            turn_steps=turn_steps,
            renew_rounds=RENEW_ROUNDS,
            gap_s=gap_s,
            cpus=self.cpus,
            lost_most=self.task.settings.schedule.lost_most,
        )


def together(outcomes: Mapping[str, LaunchOutcome], elapsed_s: float) -> LaunchOutcome:
    """Put the processes of one arm together: all their steps are one sample's."""
    first = next(iter(outcomes.values()))
    named = sorted(outcomes.items())
    residents = tuple(resident for _, outcome in named for resident in outcome.residents)
    turns = [turn for resident in residents for turn in resident.turns]
    steps = sorted(step for turn in turns for step in turn.steps_s)
    wall = sum(resident.wall_s for resident in residents)
    values = {
        "wall_s": wall,
        "cpu_s_per_step": sum(turn.cpu_s for turn in turns) / len(steps),
        "step_p50_s": _quantile(steps, 0.5),
        "step_p95_s": _quantile(steps, 0.95),
        **_means_of_kernels([outcome.values for outcome in outcomes.values()]),
    }
    counts = _largest(outcome.counts for outcome in outcomes.values())
    return replace(
        first,
        elapsed_s=elapsed_s,
        values=values,
        # Those of each process are in its own record.
        phases={},
        counts=counts,
        calibration={name: dict(outcome.calibration) for name, outcome in named},
        losses=_mean_curve([resident.losses for resident in residents]),
        steps_s=(),
        residents=residents,
    )


def _largest(counts: Iterable[Mapping[str, object]]) -> dict[str, float]:
    largest: dict[str, float] = {}
    for launch_counts in counts:
        for name, value in launch_counts.items():
            if isinstance(value, int | float):
                largest[name] = max(largest.get(name, value), value)
    return largest


def _means_of_kernels(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = [name for name in values[0] if name.startswith(calibration.PREFIX)]
    return {name: statistics.fmean(kernel_s[name] for kernel_s in values) for name in names}


def _mean_curve(curves: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(statistics.fmean(step) for step in zip(*curves, strict=False))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the nearest rank, as the probe does for a launch."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
