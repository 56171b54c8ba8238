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
    ranked_launch,
    ranks,
    reference_arm,
    shared_mount,
)
from dlcontainer.bench.measure.arms import Arm, Contained, Native, Workload
from dlcontainer.bench.measure.bench_image import BenchImage
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.bench.measure.declaration import SessionSettings, Sides
from dlcontainer.bench.measure.launch import Outcome, perform
from dlcontainer.bench.measure.recorder import ArmLaunch, Recorder
from dlcontainer.bench.samples import continuation, reader
from dlcontainer.bench.samples.launch_order import Group
from dlcontainer.bench.samples.records import Json, Resume, Session
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import ArmName
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.errors import BenchDataError
from dlcontainer.planning.plan import Plan

# In the session's own folder: what the ranks of a launch write.
_RANKS = "ranks"


def run(settings: SessionSettings, plan: Plan, subject: BenchImage, context: BenchContext) -> Path:
    """Measure until a declared look decides or the last one is taken; give the file of samples.

    Raises BenchDataError where a launch fails or hangs: the file then ends with the reason. What
    was started is ended, whatever ends the session.
    """
    if settings.cut is None and settings.output.exists():
        raise BenchDataError(
            "there is a file of this name",
            where=str(settings.output),
            next_step="give another name with -o, move the file away, or let a session that was "
            "interrupted go on with --resume",
        )
    _require_apart(settings, subject)
    if settings.rank_group:
        (context.work / _RANKS).mkdir(mode=0o700)
    candidate = arms.container(context, subject, settings.probe)
    # The engine's answer above is quicker than a twin is made: what can fail, fails early.
    reference, why = reference_arm.choose(settings, plan, subject, context)
    if isinstance(reference, Native):
        arms.require_same_probe(candidate, settings.probe_files, subject.recipe)
    between = None
    if settings.schedule.is_triple:
        between = arms.unpacked(context, subject)
    elif settings.schedule.arms[-1:] == ("unpacked",):
        candidate = arms.unpacked(context, subject)
    with ExitStack() as stack:
        joiner = None
        if settings.schedule.joiners:
            joiner = stack.enter_context(_joiner(candidate, context, settings))
        reference, made = stack.enter_context(reference_arm.shown(reference, settings, context))
        sides = Sides(
            reference=reference,
            between=between,
            candidate=candidate,
            joiner=joiner,
            why=why,
            made=made,
        )
        _measure(settings, subject, context, sides)
    return settings.output


def _require_apart(settings: SessionSettings, subject: BenchImage) -> None:
    """Refuse what an adopted image can't be measured with; raises BenchDataError."""
    if settings.rank_group:
        bench_image.require_trust(subject, settings.site)
    unpacked = settings.schedule.arms[:1] == ("unpacked",)
    if subject.is_adopted and settings.native is None and not unpacked:
        raise BenchDataError(
            "no native side is available for an adopted image",
            why="its recipe is unknown: there is nothing to make a native twin of",
            next_step="take --arms unpacked,container, or give one with --native FOLDER",
        )


@contextmanager
def _joiner(
    candidate: Contained, context: BenchContext, settings: SessionSettings
) -> Iterator[Contained | None]:
    if settings.rank_group and settings.rank_group.nodes > 1:
        context.execution.progress.note(
            "a shared mount is this node's alone: no joiners on several nodes"
        )
        yield None
        return
    seen = ranks.binds(context.work / _RANKS) if settings.rank_group else ()
    with ExitStack() as stack:
        try:
            instance = stack.enter_context(
                shared_mount.shared(context, candidate.image, seen, candidate.contained)
            )
        except shared_mount.CannotShareError as error:
            context.execution.progress.note(
                f"no shared mount here ({error}): each rank mounts the image"
            )
            yield None
            return
        yield Contained(
            context=context,
            image=candidate.image,
            python=candidate.python,
            mount="joiner",
            instance=instance,
        )


def _measure(
    settings: SessionSettings, subject: BenchImage, context: BenchContext, sides: Sides
) -> None:
    begin = _resumed if settings.cut else _fresh
    began = time.monotonic()
    with begin(settings, subject, context, sides) as (recorder, work):
        launch_s = settings.gap_s + (time.monotonic() - began) / len(sides.all())
        stages = _planned(settings, sides)
        for line in outlook.lines(
            settings.schedule, stages, lambda group: len(sides.launches(group)), launch_s
        ):
            context.execution.progress.note(line)
        _stages(settings, work, context, sides, recorder)


@contextmanager
def _fresh(
    settings: SessionSettings, subject: BenchImage, context: BenchContext, sides: Sides
) -> Iterator[tuple[Recorder, Workload]]:
    context.execution.progress.step("warm-up launches, one of each side")
    trial = declaration.workload(settings, subject, declaration.trial_steps(settings), context)
    thrown = [_timed(side, trial, settings, context) for side in sides.all()]
    outcomes = [launch.outcome for launch in thrown]
    fine = all(outcome.status == "ok" for outcome in outcomes)
    steps = declaration.steps_for(settings, outcomes) if fine else settings.steps
    work = declaration.workload(settings, subject, steps, context)
    session = Session(
        declared=declaration.declare(settings, subject, sides, steps),
        arms=sides.described(work, subject.image),
        machine=declaration.machine(context, subject, sides),
        started=thrown[0].started,
    )
    with Writer(settings.output, session) as writer:
        recorder = Recorder(writer=writer)
        for launch in thrown:
            recorder.thrown(launch)
        yield recorder, work


@contextmanager
def _resumed(
    settings: SessionSettings, subject: BenchImage, context: BenchContext, sides: Sides
) -> Iterator[tuple[Recorder, Workload]]:
    begun = settings.cut
    if begun is None:
        raise ValueError("no session to go on with")
    steps = begun.session.declared.steps
    declared = declaration.declare(settings, subject, sides, steps)
    continuation.check(begun, declared, declaration.machine(context, subject, sides))
    # Refused before anything is written, where the file is not the schedule's beginning.
    continuation.groups_done(
        begun, (group for stage in _planned(settings, sides) for group in stage)
    )
    aside = continuation.unfinished(begun)
    if begun.dropped:
        context.execution.progress.note(
            f"a half-written last line ({begun.dropped} bytes) is taken away"
        )
    if aside:
        context.execution.progress.note(
            "the last pair or triple is not whole: its launches stay in the file, unused"
        )
    work = declaration.workload(settings, subject, steps, context)
    with Writer(settings.output, begun.session, after=begun) as writer:
        writer.resume(Resume(started=declaration.now(), dropped_bytes=begun.dropped, aside=aside))
        recorder = Recorder(
            writer=writer,
            index=len(begun.samples),
            attested=_attested(begun),
        )
        context.execution.progress.step("warm-up launches again, one of each side")
        trial = declaration.workload(settings, subject, declaration.trial_steps(settings), context)
        for side in sides.all():
            recorder.thrown(_timed(side, trial, settings, context))
        yield recorder, work


def _attested(begun: Series) -> dict[ArmName, dict[str, Mapping[str, Json]]]:
    found: dict[ArmName, dict[str, Mapping[str, Json]]] = {}
    for stack in begun.stacks:
        found.setdefault(stack.arm, {})[stack.node] = stack.facts
    return found


def _stages(
    settings: SessionSettings,
    work: Workload,
    context: BenchContext,
    sides: Sides,
    recorder: Recorder,
) -> None:
    stages = _planned(settings, sides)
    schedule = [group for stage in stages for group in stage]
    skipped = done = continuation.groups_done(settings.cut, schedule) if settings.cut else 0
    unit = "triple" if sides.between else "pair"
    began, end = time.monotonic(), 0
    for look, stage in zip(settings.schedule.looks, stages, strict=True):
        end += len(stage)
        for group in schedule[done:end]:
            # Progress, never a value: who sees a trend could stop when it pleases.
            left = outlook.left(began, done - skipped, end - done)
            context.execution.progress.step(
                f"{unit} {done + 1} of {end} ({outlook.KINDS[group.series]}), "
                f"then the look at {look} {unit}s{left}"
            )
            for position, side in enumerate(sides.launches(group)):
                time.sleep(settings.gap_s)
                recorder.paired(group, position, _timed(side, work, settings, context))
            done += 1
        # At the last look it ends in any case: the report judges it.
        if look < settings.schedule.looks[-1] and _decides(settings, look):
            break
    recorder.writer.end(complete=True, reason=f"ended at its look at {look} {unit}s")


def _decides(settings: SessionSettings, look: int) -> bool:
    series = reader.read(settings.output)
    rules = interim.rules(series, equivalence=settings.probe.metrics[0].equivalence)
    return interim.decides(series, rules, look)


def _planned(settings: SessionSettings, sides: Sides) -> list[list[Group]]:
    return settings.schedule.stages(with_joiners=sides.joiner is not None)


def _timed(
    side: Arm, work: Workload, settings: SessionSettings, context: BenchContext
) -> ArmLaunch:
    started = declaration.now()
    outcome = _outcome(side, work, settings, context)
    return ArmLaunch(arm=side, started=started, outcome=outcome)


def _outcome(
    side: Arm, work: Workload, settings: SessionSettings, context: BenchContext
) -> Outcome:
    if settings.rank_group is None:
        return perform(side.launch(work), context.execution.runner, settings.timeout_s)
    gathering = ranks.gather(settings.rank_group, context.work / _RANKS, settings.timeout_s)
    launched = side.launch(replace(work, gathering=gathering))
    return ranked_launch.perform(launched, gathering, context.execution.runner, settings.timeout_s)
