"""A session: two arms, launched pair by pair in an order drawn before; every value kept."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from dlcontainer.bench.analysis import interim
from dlcontainer.bench.measure import (
    arms,
    bench_image,
    declaration,
    outlook,
    ranks,
    reference_arm,
    shared_mount,
)
from dlcontainer.bench.measure.arms import BareArm, ContainerArm, Native, OfImage
from dlcontainer.bench.measure.bare import arm as bare_arm
from dlcontainer.bench.measure.bench_image import BenchImage
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.bench.measure.declaration import SessionSettings, SessionSides, WarmupOutcome
from dlcontainer.bench.measure.recorder import Recorder
from dlcontainer.bench.measure.units import availability
from dlcontainer.bench.measure.units.availability import GroupLayout
from dlcontainer.bench.measure.units.groups import CannotTakeTurnsError, Groups
from dlcontainer.bench.measure.units.launches import RANKS, LaunchUnit
from dlcontainer.bench.measure.units.unit import MeasurementTask, MeasurementUnit
from dlcontainer.bench.probes.lending import BELOW, SharedStorage
from dlcontainer.bench.probes.probe import UNIT
from dlcontainer.bench.samples import continuation, reader
from dlcontainer.bench.samples.launch_order import Group
from dlcontainer.bench.samples.records import Json, Resume, SessionHeader
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import ArmName, counted
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.errors import BenchDataError
from dlcontainer.planning.plan import Plan


def run(settings: SessionSettings, plan: Plan, subject: BenchImage, context: BenchContext) -> Path:
    """Measure until a declared look decides or the last one is taken; return the file of samples.

    Raises BenchDataError where a launch fails or hangs: the file then ends with the reason. What
    was started is ended, whatever ends the session.
    """
    if settings.cut is None and settings.output.exists():
        raise BenchDataError(
            "this file already exists",
            where=str(settings.output),
            next_step="choose another name with -o, move the file away, or resume an interrupted "
            "session with --resume",
        )
    _require_apart(settings, subject)
    bare_arm.require(settings, subject, plan)
    execution = context.execution
    lending = SharedStorage(
        work=context.work, runner=execution.runner, note=execution.progress.note
    )
    with settings.probe.lends(settings.values, lending) as lent:
        _run(replace(settings, lent=tuple(lent)), plan, subject, context)
    return settings.output


def _run(settings: SessionSettings, plan: Plan, subject: BenchImage, context: BenchContext) -> None:
    # Before a twin is made or an image unpacked: that load is our own.
    load_note = settings.too_busy or outlook.load().said(context.execution.host.cores)
    context.execution.progress.note(load_note)
    if settings.rank_group:
        crowd = outlook.crowd(settings.rank_group.per_node, context.execution.host.cores)
        if crowd:
            context.execution.progress.note(crowd)
        (context.work / RANKS).mkdir(mode=0o700)
        (context.work / RANKS / BELOW).mkdir()
    else:
        outlook.require_cpus(context.execution.host.environ)
    container = arms.container(context, subject, settings.probe)
    candidate: OfImage = container
    # The engine's answer above is quicker than a twin is made: what can fail, fails early.
    reference, why = reference_arm.choose(settings, plan, subject, context)
    if isinstance(reference, Native):
        arms.require_same_probe(container, settings.probe_files, subject.recipe)
    between = None
    if settings.schedule.is_triple:
        between = _other(settings.schedule.arms[1], container, context, subject)
    elif settings.schedule.arms:
        candidate = _other(settings.schedule.arms[-1], container, context, subject)
    with ExitStack() as stack:
        joiner = None
        if settings.schedule.joiners:
            joiner = stack.enter_context(_joiner(container, context, settings))
        reference, times = stack.enter_context(reference_arm.shown(reference, settings, context))
        sides = SessionSides(
            reference=reference,
            between=between,
            candidate=candidate,
            joiner=joiner,
            why=why,
            setup_seconds=times,
        )
        measure(settings, subject, context, sides)


def _other(
    name: ArmName, container: ContainerArm, context: BenchContext, subject: BenchImage
) -> OfImage:
    """Return the arm of the image that was named, beside the first one."""
    if name == "bare":
        return bare_arm.bare(context, subject)
    return container if name == "container" else arms.unpacked(context, subject)


def _require_apart(settings: SessionSettings, subject: BenchImage) -> None:
    """Refuse what an adopted image can't be measured with; raises BenchDataError."""
    if settings.rank_group:
        bench_image.require_trust(subject, settings.site)
    unpacked = settings.schedule.arms[:1] == ("unpacked",)
    if subject.is_adopted and settings.native is None and not unpacked:
        raise BenchDataError(
            "no native side is available for an adopted image",
            why="its recipe is unknown, so a native twin cannot be made",
            next_step="use --arms unpacked,container, or give a native installation with "
            "--native FOLDER",
        )


@contextmanager
def _joiner(
    candidate: ContainerArm, context: BenchContext, settings: SessionSettings
) -> Iterator[ContainerArm | None]:
    if settings.rank_group and settings.rank_group.nodes > 1:
        context.execution.progress.note(
            "launches that join a mount are measured on one node only: a mount serves one node"
        )
        yield None
        return
    binds = ranks.binds(context.work / RANKS) if settings.rank_group else ()
    with ExitStack() as stack:
        try:
            instance = stack.enter_context(
                shared_mount.shared(context, candidate.image, binds, candidate.contained)
            )
        except shared_mount.CannotShareError as error:
            context.execution.progress.note(
                f"no shared mount here ({error}): each rank mounts the image"
            )
            yield None
            return
        yield ContainerArm(
            context=context,
            image=candidate.image,
            python=candidate.python,
            mount="joiner",
            instance=instance,
        )


def measure(
    settings: SessionSettings, subject: BenchImage, context: BenchContext, sides: SessionSides
) -> None:
    """Measure sides that are ready, until a declared look decides or the last one is taken."""
    choice = availability.choose(settings, sides)
    task = MeasurementTask(settings=settings, subject=subject, context=context, sides=sides)
    why = choice.why
    if choice.per_arm:
        grouped = in_groups(task, choice)
        listed = ", ".join(map(str, choice.cpus))
        context.execution.progress.note(
            f"groups of {choice.per_arm} + {choice.per_arm} processes, each with "
            f"{counted(choice.threads, 'thread')} on {counted(len(choice.cpus), 'core')} of one "
            f"NUMA node (processors: {listed})"
        )
        try:
            _measured(grouped.task, grouped)
        except CannotTakeTurnsError as error:
            # The warm-up found it: nothing is written yet.
            if settings.cut or settings.values.get(UNIT.name):
                raise error.refused() from None
            why = str(error)
        else:
            return
    if why:
        context.execution.progress.note(f"measuring in launches, not in groups: {why}")
    _measured(task, LaunchUnit(task=task))


def in_groups(task: MeasurementTask, choice: GroupLayout) -> Groups:
    """Return the same session in groups: the processes of one arm are each other's controls."""
    settings = task.settings
    alone = replace(settings.schedule, controls=0, candidate_controls=0, joiners=0, grouped=True)
    alone_settings = replace(settings, schedule=alone, threads=choice.threads)
    return Groups(
        task=replace(task, settings=alone_settings), per_arm=choice.per_arm, cpus=choice.cpus
    )


def _measured(task: MeasurementTask, unit: MeasurementUnit) -> None:
    settings, context, sides = task.settings, task.context, task.sides
    began = time.monotonic()
    with (_resumed if settings.cut else _fresh)(task, unit) as (recorder, settled):
        sample_s = unit.sample_s(settled, time.monotonic() - began)
        for line in outlook.lines(
            settings.schedule,
            _planned(task),
            lambda group: len(sides.launches(group)),
            sample_s,
        ):
            context.execution.progress.note(line)
        _stages(task, unit, settled, recorder)


@contextmanager
def _fresh(
    task: MeasurementTask, unit: MeasurementUnit
) -> Iterator[tuple[Recorder, WarmupOutcome]]:
    settings, sides = task.settings, task.sides
    task.context.execution.progress.step("warm-up launches, one of each side")
    thrown = unit.warmed(None)
    settled = unit.settled(thrown)
    session = SessionHeader(
        declared=declaration.declare(settings, task.subject, sides, settled),
        arms=sides.described(unit.work(settled), task.subject.image),
        machine=declaration.machine(task.context, task.subject, sides, task.load),
        started=thrown[0].started,
    )
    with Writer(settings.output, session) as writer:
        recorder = Recorder(writer=writer)
        for launch in thrown:
            recorder.thrown(launch)
        yield recorder, settled


@contextmanager
def _resumed(
    task: MeasurementTask, unit: MeasurementUnit
) -> Iterator[tuple[Recorder, WarmupOutcome]]:
    settings, context, sides = task.settings, task.context, task.sides
    begun = settings.cut
    if begun is None:
        raise ValueError("no session to go on with")
    before = begun.session.declared
    settled = WarmupOutcome(steps=before.steps, groups=before.groups)
    declared = declaration.declare(settings, task.subject, sides, settled)
    continuation.check(
        begun, declared, declaration.machine(context, task.subject, sides, task.load)
    )
    # Refused before anything is written, where the file is not the schedule's beginning.
    continuation.groups_done(begun, (group for stage in _planned(task) for group in stage))
    aside = continuation.unfinished(begun)
    if begun.dropped:
        context.execution.progress.note(f"removing an incomplete last line ({begun.dropped} bytes)")
    if aside:
        context.execution.progress.note(
            f"the last {settings.schedule.unit[:-1]} is incomplete: its launches stay in the file "
            "but do not count"
        )
    with Writer(settings.output, begun.session, after=begun) as writer:
        writer.resume(Resume(started=declaration.now(), dropped_bytes=begun.dropped, aside=aside))
        recorder = Recorder(
            writer=writer,
            index=len(begun.samples),
            attested=_attested(begun, task),
            losses=len(begun.lost),
        )
        context.execution.progress.step("warm-up launches again, one of each side")
        for launch in unit.warmed(settled):
            recorder.thrown(launch)
        yield recorder, settled


def _attested(begun: Series, task: MeasurementTask) -> dict[ArmName, dict[str, Mapping[str, Json]]]:
    stacks: dict[ArmName, dict[str, Mapping[str, Json]]] = {}
    reference, sides = task.sides.reference, {side.name: side for side in task.sides.arms()}
    for stack in begun.stacks:
        facts, side = stack.facts, sides.get(stack.arm)
        is_made = task.settings.native_as != "tree" and stack.arm == reference.name
        if is_made and isinstance(reference, Native):
            # The session itself makes this tree, in a folder that is new each time.
            facts = continuation.moved(facts, str(reference.prefix))
        if isinstance(side, BareArm):
            facts = continuation.moved(facts, str(side.here), inside=side.tree.prefix)
        stacks.setdefault(stack.arm, {})[stack.node] = facts
    return stacks


def _stages(
    task: MeasurementTask, unit: MeasurementUnit, settled: WarmupOutcome, recorder: Recorder
) -> None:
    settings, context = task.settings, task.context
    stages = _planned(task)
    schedule = [group for stage in stages for group in stage]
    skipped = done = continuation.groups_done(settings.cut, schedule) if settings.cut else 0
    word = settings.schedule.unit.removesuffix("s")
    began, end = time.monotonic(), 0
    for look, stage in zip(settings.schedule.looks, stages, strict=True):
        end += len(stage)
        for group in schedule[done:end]:
            # Progress, never a value: who sees a trend could stop when it pleases.
            time_left = outlook.left(began, done - skipped, end - done)
            which = "first" if look == settings.schedule.looks[0] else "next"
            then = f"{which} result {time_left}" if time_left else f"then the {which} result"
            kind = outlook.KINDS[group.series]
            context.execution.progress.step(f"{word} {done + 1} of {end} ({kind}); {then}")
            unit.measure(group, settled, recorder)
            done += 1
        # At the last look it ends in any case: the report judges it.
        if look < settings.schedule.looks[-1] and _decides(settings, look):
            break
    recorder.writer.end(complete=True, reason=f"ended at its look at {look} {word}s")


def _decides(settings: SessionSettings, look: int) -> bool:
    series = reader.read(settings.output)
    rules = interim.rules(series, equivalence=settings.probe.metrics[0].equivalence)
    return interim.decides(series, rules, look)


def _planned(task: MeasurementTask) -> list[list[Group]]:
    return task.settings.schedule.stages(with_joiners=task.sides.joiner is not None)
