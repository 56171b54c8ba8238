"""A session: two arms, launched pair by pair in an order drawn before; every value kept."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dlcontainer.bench import arms, declare, mount, order, twin
from dlcontainer.bench.arms import Contained, Native, Workload
from dlcontainer.bench.declare import Side, Sides, Wanted
from dlcontainer.bench.lab import Lab
from dlcontainer.bench.launch import Outcome, perform
from dlcontainer.bench.recorder import Recorder
from dlcontainer.bench.records import Session
from dlcontainer.bench.results import Writer
from dlcontainer.bench.subject import Subject
from dlcontainer.errors import BenchDataError
from dlcontainer.plan import Plan, native_twin_reason


def run(wanted: Wanted, plan: Plan, subject: Subject, lab: Lab) -> Path:
    """Measure, and give the file that holds every sample.

    Raises BenchDataError where a launch fails or hangs: the file then ends with the reason. What
    was started is ended, whatever ends the session.
    """
    if wanted.output.exists():
        raise BenchDataError(
            "there is a file of this name",
            where=str(wanted.output),
            next_step="give another name with -o, or move the file away",
        )
    candidate = arms.container(lab, subject)
    # The engine's answer above is quicker than a twin is made: what can fail, fails early.
    reference, why = _reference(wanted, plan, subject, lab)
    with ExitStack() as stack:
        joiner = None
        if wanted.joiners:
            joiner = stack.enter_context(_joiner(candidate, lab))
        sides = Sides(reference=reference, candidate=candidate, joiner=joiner, why=why)
        _measure(wanted, subject, lab, sides)
    return wanted.output


def _reference(wanted: Wanted, plan: Plan, subject: Subject, lab: Lab) -> tuple[Side, str]:
    """Choose the side that the container is held against, and say why it is this one."""
    probe = _probe_copy(wanted.probe_files, lab)
    if wanted.native is not None:
        return Native(prefix=wanted.native, probe=probe, home=lab.host.home), "given by --native"
    no_twin = native_twin_reason(plan.recipe, plan.site, lab.host)
    if no_twin:
        lab.progress.note(f"no native twin: {no_twin}; the unpacked image stands for it")
        return arms.unpacked(lab, subject), f"no native twin: {no_twin}"
    if plan.digest != subject.digest:
        lab.progress.note(
            "recipe, site or templates are not those that the image was built from: the stacks "
            "that both sides attest decide what can be compared"
        )
    prefix = twin.prepare(plan, lab)
    return Native(prefix=prefix, probe=probe, home=lab.host.home), "same recipe, same wheels"


def _probe_copy(files: tuple[Path, ...], lab: Lab) -> Path:
    # A folder without byte code, as in the image.
    folder = lab.work / "probe"
    folder.mkdir()
    for file in files:
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


@contextmanager
def _joiner(candidate: Contained, lab: Lab) -> Iterator[Contained | None]:
    with ExitStack() as stack:
        try:
            instance = stack.enter_context(mount.shared(lab, candidate.image))
        except mount.CannotShareError as error:
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
    lab.progress.step("throw-away launches, one of each side")
    trial = declare.workload(wanted, subject, declare.trial_steps(wanted))
    thrown = [(side, *_timed(side, trial, wanted, lab)) for side in sides.all()]
    outcomes = [outcome for _, _, outcome in thrown]
    fine = all(outcome.status == "ok" for outcome in outcomes)
    steps = declare.steps_for(wanted, outcomes) if fine else wanted.steps
    work = declare.workload(wanted, subject, steps)
    session = Session(
        declared=declare.declare(wanted, subject, sides, steps),
        arms=sides.described(work, subject.image),
        machine=declare.machine(lab, subject, sides),
        started=thrown[0][1],
    )
    with Writer(wanted.output, session) as writer:
        recorder = Recorder(writer=writer, timeout_s=wanted.timeout_s)
        for side, started, outcome in thrown:
            recorder.thrown(side, started, outcome)
        _pairs(wanted, work, lab, sides, recorder)
        writer.end(complete=True)


def _pairs(wanted: Wanted, work: Workload, lab: Lab, sides: Sides, recorder: Recorder) -> None:
    pairs = order.plan_pairs(
        pairs=wanted.pairs,
        joiners=wanted.joiners if sides.joiner else 0,
        controls=wanted.controls,
        seed=wanted.seed,
    )
    began = time.monotonic()
    for done, pair in enumerate(pairs):
        # Progress, never a value: who sees a trend could stop when it pleases.
        left = (time.monotonic() - began) / done * (len(pairs) - done) if done else 0.0
        when = f", about {left:.0f} s left" if done else ""
        lab.progress.step(f"pair {done + 1} of {len(pairs)}{when}")
        for position, side in enumerate(sides.launches(pair)):
            time.sleep(wanted.gap_s)
            started, outcome = _timed(side, work, wanted, lab)
            recorder.paired(pair, position, side, started, outcome)


def _timed(side: Side, work: Workload, wanted: Wanted, lab: Lab) -> tuple[str, Outcome]:
    started = declare.now()
    return started, perform(side.launch(work), lab.runner, wanted.timeout_s)
