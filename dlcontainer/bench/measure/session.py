"""A session: two arms, launched pair by pair in an order drawn before; every value kept."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from dlcontainer.bench.analysis import interim
from dlcontainer.bench.measure import (
    arms,
    declaration,
    native_tree,
    native_twin,
    ranked_launch,
    ranks,
    shared_mount,
)
from dlcontainer.bench.measure.arms import Contained, Native, Workload
from dlcontainer.bench.measure.bench_image import Subject
from dlcontainer.bench.measure.context import Lab
from dlcontainer.bench.measure.declaration import Side, Sides, Wanted
from dlcontainer.bench.measure.launch import Outcome, perform
from dlcontainer.bench.measure.recorder import Recorder
from dlcontainer.bench.samples import continuation, launch_order, reader
from dlcontainer.bench.samples.launch_order import Counts, Group
from dlcontainer.bench.samples.records import Json, Resume, Session
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import ArmName
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.errors import BenchDataError
from dlcontainer.planning.plan import Plan, native_twin_reason

# In the session's own folder: what the ranks of a launch write.
_RANKS = "ranks"


def run(wanted: Wanted, plan: Plan, subject: Subject, lab: Lab) -> Path:
    """Measure until a declared look decides or the last one is taken; give the file of samples.

    Raises BenchDataError where a launch fails or hangs: the file then ends with the reason. What
    was started is ended, whatever ends the session.
    """
    if wanted.cut is None and wanted.output.exists():
        raise BenchDataError(
            "there is a file of this name",
            where=str(wanted.output),
            next_step="give another name with -o, move the file away, or let a session that was "
            "interrupted go on with --resume",
        )
    if wanted.team:
        (lab.work / _RANKS).mkdir(mode=0o700)
    candidate = arms.container(lab, subject, wanted.probe)
    # The engine's answer above is quicker than a twin is made: what can fail, fails early.
    reference, why = _reference(wanted, plan, subject, lab)
    if isinstance(reference, Native):
        arms.require_same_probe(candidate, wanted.probe_files, subject.recipe)
    between = None
    if len(wanted.arms) == 3:
        between = arms.unpacked(lab, subject)
    elif wanted.arms[-1:] == ("unpacked",):
        candidate = arms.unpacked(lab, subject)
    with ExitStack() as stack:
        joiner = None
        if wanted.joiners:
            joiner = stack.enter_context(_joiner(candidate, lab, wanted))
        reference, made = stack.enter_context(_shown(reference, wanted, lab))
        sides = Sides(
            reference=reference,
            between=between,
            candidate=candidate,
            joiner=joiner,
            why=why,
            made=made,
        )
        _measure(wanted, subject, lab, sides)
    return wanted.output


def _reference(wanted: Wanted, plan: Plan, subject: Subject, lab: Lab) -> tuple[Side, str]:
    """Choose the side that the container is held against, and say why it is this one."""
    if wanted.arms[:1] == ("unpacked",):
        return arms.unpacked(lab, subject), "asked for by --arms"
    probe = arms.probe_copy(wanted.probe_files, lab)
    if wanted.native is not None:
        return Native(prefix=wanted.native, probe=probe, home=lab.host.home), "given by --native"
    no_twin = native_twin_reason(plan.recipe, plan.site, lab.host)
    if no_twin and wanted.arms:
        raise BenchDataError(
            "no native side is available on this machine",
            why=f"no native twin: {no_twin}",
            next_step="give one with --native FOLDER, or take --arms unpacked,container",
        )
    if no_twin:
        lab.progress.note(f"no native twin: {no_twin}; the unpacked image stands in for it")
        return arms.unpacked(lab, subject), f"no native twin: {no_twin}"
    if plan.digest != subject.digest:
        lab.progress.note(
            "recipe, site or templates are not those that the image was built from: the stacks "
            "that both sides attest decide what can be compared"
        )
    prefix = native_twin.prepare(plan, lab)
    return Native(prefix=prefix, probe=probe, home=lab.host.home), "same recipe, same wheels"


@contextmanager
def _shown(reference: Side, wanted: Wanted, lab: Lab) -> Iterator[tuple[Side, Mapping[str, float]]]:
    """Show the native tree as it was asked for; with what that took."""
    if wanted.native_as == "tree":
        yield reference, {}
        return
    if not isinstance(reference, Native):
        raise BenchDataError(
            f"no native tree is available to show as {wanted.native_as}",
            why="the unpacked image stands for it here",
            next_step="give a native side with --native FOLDER, or leave --native-as out",
        )
    with native_tree.shown(wanted.native_as, reference.prefix, lab) as shown:
        made = {} if shown.seconds is None else {"native_ready_s": round(shown.seconds, 3)}
        yield replace(reference, prefix=shown.prefix), made


@contextmanager
def _joiner(candidate: Contained, lab: Lab, wanted: Wanted) -> Iterator[Contained | None]:
    if wanted.team and wanted.team.nodes > 1:
        lab.progress.note("a shared mount is this node's alone: no joiners on several nodes")
        yield None
        return
    seen = ranks.binds(lab.work / _RANKS) if wanted.team else ()
    with ExitStack() as stack:
        try:
            instance = stack.enter_context(shared_mount.shared(lab, candidate.image, seen))
        except shared_mount.CannotShareError as error:
            lab.progress.note(f"no shared mount here ({error}): each rank mounts the image")
            yield None
            return
        yield Contained(
            lab=lab,
            image=candidate.image,
            python=candidate.python,
            mount="joiner",
            instance=instance,
        )


def _measure(wanted: Wanted, subject: Subject, lab: Lab, sides: Sides) -> None:
    begin = _resumed if wanted.cut else _fresh
    with begin(wanted, subject, lab, sides) as (recorder, work):
        _stages(wanted, work, lab, sides, recorder)


@contextmanager
def _fresh(
    wanted: Wanted, subject: Subject, lab: Lab, sides: Sides
) -> Iterator[tuple[Recorder, Workload]]:
    lab.progress.step("warm-up launches, one of each side")
    trial = declaration.workload(wanted, subject, declaration.trial_steps(wanted))
    thrown = [(side, *_timed(side, trial, wanted, lab)) for side in sides.all()]
    outcomes = [outcome for _, _, outcome in thrown]
    fine = all(outcome.status == "ok" for outcome in outcomes)
    steps = declaration.steps_for(wanted, outcomes) if fine else wanted.steps
    work = declaration.workload(wanted, subject, steps)
    session = Session(
        declared=declaration.declare(wanted, subject, sides, steps),
        arms=sides.described(work, subject.image),
        machine=declaration.machine(lab, subject, sides),
        started=thrown[0][1],
    )
    with Writer(wanted.output, session) as writer:
        recorder = Recorder(writer=writer, timeout_s=wanted.timeout_s)
        for side, started, outcome in thrown:
            recorder.thrown(side, started, outcome)
        yield recorder, work


@contextmanager
def _resumed(
    wanted: Wanted, subject: Subject, lab: Lab, sides: Sides
) -> Iterator[tuple[Recorder, Workload]]:
    begun = wanted.cut
    if begun is None:
        raise ValueError("no session to go on with")
    steps = begun.session.declared.steps
    declared = declaration.declare(wanted, subject, sides, steps)
    continuation.check(begun, declared, declaration.machine(lab, subject, sides))
    # Refused before anything is written, where the file is not the schedule's beginning.
    continuation.groups_done(begun, (group for stage in _planned(wanted, sides) for group in stage))
    aside = continuation.unfinished(begun)
    if begun.dropped:
        lab.progress.note(f"a half-written last line ({begun.dropped} bytes) is taken away")
    if aside:
        lab.progress.note(
            "the last pair or triple is not whole: its launches stay in the file, unused"
        )
    work = declaration.workload(wanted, subject, steps)
    with Writer(wanted.output, begun.session, after=begun) as writer:
        writer.resume(Resume(started=declaration.now(), dropped_bytes=begun.dropped, aside=aside))
        recorder = Recorder(
            writer=writer,
            timeout_s=wanted.timeout_s,
            index=len(begun.samples),
            attested=_attested(begun),
        )
        lab.progress.step("warm-up launches again, one of each side")
        trial = declaration.workload(wanted, subject, declaration.trial_steps(wanted))
        for side in sides.all():
            recorder.thrown(side, *_timed(side, trial, wanted, lab))
        yield recorder, work


def _attested(begun: Series) -> dict[ArmName, dict[str, Mapping[str, Json]]]:
    found: dict[ArmName, dict[str, Mapping[str, Json]]] = {}
    for stack in begun.stacks:
        found.setdefault(stack.arm, {})[stack.node] = stack.facts
    return found


def _stages(wanted: Wanted, work: Workload, lab: Lab, sides: Sides, recorder: Recorder) -> None:
    stages = _planned(wanted, sides)
    schedule = [group for stage in stages for group in stage]
    skipped = done = continuation.groups_done(wanted.cut, schedule) if wanted.cut else 0
    unit = "triple" if sides.between else "pair"
    began, end = time.monotonic(), 0
    for look, stage in zip(wanted.looks, stages, strict=True):
        end += len(stage)
        for group in schedule[done:end]:
            # Progress, never a value: who sees a trend could stop when it pleases.
            left = _left(began, done - skipped, end - done)
            lab.progress.step(f"{unit} {done + 1} of {end}, then the look at {look} {unit}s{left}")
            for position, side in enumerate(sides.launches(group)):
                time.sleep(wanted.gap_s)
                started, outcome = _timed(side, work, wanted, lab)
                recorder.paired(group, position, side, started, outcome)
            done += 1
        # At the last look it ends in any case: the report judges it.
        if look < wanted.looks[-1] and _decides(wanted, look):
            break
    recorder.writer.end(complete=True, reason=f"ended at its look at {look} {unit}s")


def _decides(wanted: Wanted, look: int) -> bool:
    series = reader.read(wanted.output)
    rules = interim.rules(series, equivalence=wanted.probe.metrics[0].equivalence)
    return interim.decides(series, rules, look)


def _planned(wanted: Wanted, sides: Sides) -> list[list[Group]]:
    counts = Counts(
        joiners=wanted.joiners if sides.joiner else 0,
        controls=wanted.controls,
        candidate_controls=wanted.candidate_controls,
        triples=sides.between is not None,
    )
    return launch_order.plan_stages(looks=wanted.looks, counts=counts, seed=wanted.seed)


def _left(began: float, measured: int, remaining: int) -> str:
    if not measured:
        return ""
    return f", about {(time.monotonic() - began) / measured * remaining:.0f} s until it"


def _timed(side: Side, work: Workload, wanted: Wanted, lab: Lab) -> tuple[str, Outcome]:
    started = declaration.now()
    if wanted.team is None:
        return started, perform(side.launch(work), lab.runner, wanted.timeout_s)
    gathering = ranks.gather(wanted.team, lab.work / _RANKS, wanted.timeout_s)
    launched = side.launch(replace(work, gathering=gathering))
    return started, ranked_launch.perform(launched, gathering, lab.runner, wanted.timeout_s)
