"""Launches become lines of the session's file; one failure too many ends the session."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from dlcontainer.bench.measure.arms import Arm
from dlcontainer.bench.measure.launch import LaunchOutcome
from dlcontainer.bench.samples.launch_order import Group
from dlcontainer.bench.samples.records import AttestedStack, Json, Sample
from dlcontainer.bench.samples.resident.resident_records import LostGroup
from dlcontainer.bench.samples.vocabulary import ArmName
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.errors import BenchDataError

# What must be the same in every launch of a side: else the side was another one for a while.
_CONSTANT = (
    *("affinity", "allocator", "binding", "blas", "byte_code_percent", "cgroup", "clocks"),
    *("collector", "devices", "driver", "environment", "framework", "gpus", "hooks"),
    *("isa_dispatch", "kernel_memory", "library_builds", "limits", "no_new_privs", "numa"),
    *("numpy", "numpy_blas", "options", "personality", "pth_files", "python", "scheduling"),
    *("seccomp", "speculation_indirect_branch", "speculation_store_bypass", "start_files"),
    *("switches", "sys_path", "thp_enabled", "threads", "traced"),
)


# Facts by node; a single process has none.
Nodes = Mapping[str, Mapping[str, Json]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmLaunch:
    """A launch that has ended: of which arm, since when, with which outcome."""

    arm: Arm
    started: str
    outcome: LaunchOutcome


@dataclass(slots=True)
class Recorder:
    """Writes each launch as it comes."""

    writer: Writer
    index: int = 0
    # What each arm attested before an interruption: it must be the same arm that goes on.
    attested: Mapping[ArmName, Nodes] = field(default_factory=dict)
    stacks: dict[tuple[ArmName, str], Nodes] = field(default_factory=dict)
    # Groups, pairs and triples that were discarded, those before an interruption too.
    losses: int = 0

    def thrown(self, launch: ArmLaunch) -> None:
        """Write a warm-up launch, and once for each arm and node what it is made of."""
        side, outcome, changed = launch.arm, launch.outcome, ""
        if side.name in self.attested and side.mount != "joiner":
            self.stacks[(side.name, side.mount)] = self.attested[side.name]
            changed = self.changed(launch)
        elif outcome.stack and side.mount != "joiner":
            # The workload is attested too: both sides must have run the same.
            work: dict[str, Json] = {"workload": dict(outcome.workload)}
            for node, facts in _nodes(outcome).items():
                self.writer.stack(AttestedStack(arm=side.name, facts={**facts, **work}, node=node))
        self.stacks[(side.name, side.mount)] = _nodes(outcome)
        self._write(_sample(self.index, launch, changed), launch)

    def paired(self, group: Group, position: int, launch: ArmLaunch) -> None:
        """Write one launch of a pair or a triple."""
        sample = _sample(self.index, launch, self.changed(launch))
        self._write(_placed(sample, group, position), launch)

    def kept(self, group: Group, position: int, launch: ArmLaunch) -> bool:
        """Write one launch; tell whether its pair or triple goes on, or is to be measured again.

        A launch that failed is replaced, as often as was declared. One that attests another side
        than before is not: what is measured changed.
        """
        most = self.writer.session.declared.most_lost
        if launch.outcome.status == "ok" or not most:
            self.paired(group, position, launch)
            return True
        sample = _placed(_sample(self.index, launch, ""), group, position)
        self.writer.sample(sample)
        self.index += 1
        lost = LostGroup(
            group=group.number,
            arm=sample.arm,
            process=group.series,
            reason=(sample.error or launch.outcome.status).splitlines()[0],
            started=launch.started,
            launches=tuple(range(sample.index - position, self.index)),
        )
        self.lost(lost, most, launch.outcome)
        return False

    def lost(self, lost: LostGroup, most: int, outcome: LaunchOutcome) -> None:
        """Write that a group was discarded; ends the session where it was one too many."""
        self.writer.lost(lost)
        self.losses += 1
        if self.losses > most:
            what, unit = f"group {lost.group}: process {lost.process}", "groups"
            if lost.launches:
                what, unit = f"launch {lost.launches[-1]}", "launches"
            reason = (
                f"{lost.arm}, {what}: {lost.reason}; more {unit} were lost than the {most} that "
                "were declared"
            )
            self._stop(reason, outcome)

    def changed(self, launch: ArmLaunch) -> str:
        """Return how a side differs from what it attested first; empty where it does not."""
        side, outcome = launch.arm, launch.outcome
        before = self.stacks.get((side.name, side.mount), {})
        if outcome.status != "ok":
            return ""
        now = _nodes(outcome)
        if before.keys() != now.keys():
            return f"ran on other nodes: {', '.join(now)}; before on {', '.join(before)}"
        names = [
            name
            for name in _CONSTANT
            if any(facts.get(name) != before[node].get(name) for node, facts in now.items())
        ]
        if names:
            return f"changed within the session: {', '.join(names)}"
        # What a process attests is how it ended; a probe that can notes how it began too.
        within = {name for facts in now.values() for name in _names(facts.get("changed_within"))}
        return f"changed within the launch: {', '.join(sorted(within))}" if within else ""

    def _write(self, sample: Sample, launch: ArmLaunch) -> None:
        outcome = launch.outcome
        self.writer.sample(sample)
        self.index += 1
        if sample.error is None:
            return
        self._stop(f"{sample.arm}, launch {sample.index}: {sample.error.splitlines()[0]}", outcome)

    def _stop(self, reason: str, outcome: LaunchOutcome) -> None:
        self.writer.end(complete=False, reason=reason)
        last = "".join(f"\n    {line}" for line in outcome.stderr)
        raise BenchDataError(
            f"the session stopped: {reason}",
            where=str(self.writer.path),
            why=f"last output:{last}" if last else None,
            next_step=(
                "give launches more time with --timeout"
                if outcome.status == "timeout"
                else "fix the cause and measure again"
            )
            + "; the file keeps all samples up to this launch",
        )


def _names(facts: Json) -> list[str]:
    return list(facts) if isinstance(facts, dict) else []


def _nodes(outcome: LaunchOutcome) -> Nodes:
    return outcome.nodes or {"": outcome.stack}


def _sample(index: int, launch: ArmLaunch, changed: str) -> Sample:
    side, outcome = launch.arm, launch.outcome
    wall = outcome.values.get("wall_s", outcome.elapsed_s)
    values: dict[str, Json] = {k: v for k, v in outcome.values.items() if k != "wall_s"}
    values["elapsed_s"] = outcome.elapsed_s
    if outcome.counts:
        values["counts"] = dict(outcome.counts)
    if outcome.calibration:
        values["calibration"] = dict(outcome.calibration)
    if outcome.losses:
        values["loss"] = list(outcome.losses)
    if outcome.steps_s:
        values["steps_s"] = list(outcome.steps_s)
    if outcome.stderr and outcome.status != "ok":
        values["stderr"] = list(outcome.stderr)
    return Sample(
        index=index,
        role="warmup",
        arm=side.name,
        started=launch.started,
        returncode=outcome.returncode,
        wall_s=wall,
        phases=outcome.phases,
        values=values,
        mount=side.mount,
        ranks=outcome.ranks,
        residents=outcome.residents,
        rows=outcome.rows,
        error=outcome.reason or changed or None,
    )


def _placed(sample: Sample, group: Group, position: int) -> Sample:
    where = cast("Literal[0, 1, 2]", position)
    return replace(
        sample,
        role=group.series,
        pair=group.number,
        position=where,
        order=group.order,
    )
