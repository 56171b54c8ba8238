"""The unit of most sessions: fresh launches, two or three back to back."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlcontainer.bench.measure import declaration, ranked_launch, ranks
from dlcontainer.bench.measure.arms import Arm, Workload
from dlcontainer.bench.measure.declaration import WarmupOutcome
from dlcontainer.bench.measure.launch import LaunchOutcome, perform
from dlcontainer.bench.measure.recorder import ArmLaunch, Recorder
from dlcontainer.bench.measure.units.unit import MeasurementTask
from dlcontainer.bench.samples.launch_order import Group
from dlcontainer.bench.samples.rows import agreement
from dlcontainer.bench.samples.rows.row_records import RowPlan
from dlcontainer.bench.samples.traits import ROWS_METRIC

# In the session's own folder: what the ranks of a launch write.
RANKS = "ranks"


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchUnit:
    """Fresh launches of single processes, or of ranks together."""

    task: MeasurementTask

    def warmed(self, _begun: WarmupOutcome | None) -> list[ArmLaunch]:
        """Launch each side once."""
        trial = self._work(declaration.trial_steps(self.task.settings))
        trial = replace(trial, cell=replace(trial.cell, is_warmup=True))
        return [self._timed(side, trial) for side in self.task.sides.all()]

    def settled(self, thrown: Sequence[ArmLaunch]) -> WarmupOutcome:
        """Settle the steps of a launch."""
        settings, outcomes = self.task.settings, [launch.outcome for launch in thrown]
        fine = all(outcome.status == "ok" for outcome in outcomes)
        steps = declaration.steps_for(settings, outcomes) if fine else settings.steps
        return WarmupOutcome(steps=steps)

    def work(self, settled: WarmupOutcome) -> Workload:
        """Return what every launch runs."""
        return self._work(settled.steps)

    def sample_s(self, _settled: WarmupOutcome, warmed_s: float) -> float:
        """Foresee the seconds of a launch, the gap before it in them."""
        return self.task.settings.gap_s + warmed_s / len(self.task.sides.all())

    def measure(self, group: Group, settled: WarmupOutcome, recorder: Recorder) -> None:
        """Launch the sides of a pair or triple, in its order; all again where it loses one."""
        while not self._is_whole(group, settled, recorder):
            self.task.context.execution.progress.note(
                f"{group.series} {group.number} lost a launch; measuring the {group.series} again"
            )

    def _is_whole(self, group: Group, settled: WarmupOutcome, recorder: Recorder) -> bool:
        work = self.work(settled)
        for position, side in enumerate(self.task.sides.launches(group)):
            time.sleep(self.task.settings.gap_s)
            if not recorder.kept(group, position, self._timed(side, work)):
                return False
        return True

    def _work(self, steps: int) -> Workload:
        task = self.task
        return declaration.workload(task.settings, task.subject, steps, task.context)

    def _timed(self, side: Arm, work: Workload) -> ArmLaunch:
        started = declaration.now()
        outcome = held(self._outcome(side, work), work.probe.rows(work.cell))
        return ArmLaunch(arm=side, started=started, outcome=outcome)

    def _outcome(self, side: Arm, work: Workload) -> LaunchOutcome:
        settings, context = self.task.settings, self.task.context
        runner, timeout = context.execution.runner, settings.timeout_s
        if settings.rank_group is None:
            return perform(side.launch(work), runner, timeout)
        gathering = ranks.gather(settings.rank_group, context.work / RANKS, timeout)
        launched = side.launch(replace(work, gathering=gathering))
        return ranked_launch.perform(launched, gathering, runner, timeout)


def held(outcome: LaunchOutcome, plan: RowPlan | None) -> LaunchOutcome:
    """Return the judged figure to a launch that has all rows of its plan; else it counts as
    lost.
    """
    if outcome.status != "ok" or (plan is None and not outcome.rows):
        return outcome
    problem = "the probe reports rows, and none are declared"
    if plan is not None:
        problem = agreement.problem(plan, outcome.rows)
    if plan is None or problem:
        return replace(outcome, status="failed", reason=problem, rows=())
    values = {**outcome.values, ROWS_METRIC: agreement.mean(outcome.rows)}
    return replace(outcome, values=values)
