"""A session: two arms, launched pair by pair in an order drawn before; every value kept."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlcontainer.bench import arms, mount, order, results, twin
from dlcontainer.bench.arms import Contained, Native, Workload
from dlcontainer.bench.declare import Sides, Wanted, declare, machine, steps_for, workload
from dlcontainer.bench.lab import Lab
from dlcontainer.bench.launch import Outcome, perform
from dlcontainer.bench.order import Pair
from dlcontainer.bench.records import Role, Sample, Session, Stack
from dlcontainer.bench.results import Writer
from dlcontainer.bench.subject import Subject
from dlcontainer.errors import BenchDataError
from dlcontainer.plan import Plan

# What must not change from launch to launch of one arm.
_CONSTANT = ("python", "framework", "numpy", "blas", "threads", "isa_dispatch", "affinity")

_Arm = Native | Contained


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
    reference, why = _reference(wanted, plan, subject, lab)
    with ExitStack() as stack:
        joiner = None
        if wanted.joiners:
            joiner = stack.enter_context(_joiner(candidate, lab))
        sides = Sides(reference=reference, candidate=candidate, joiner=joiner, why=why)
        _measure(wanted, subject, lab, sides)
    return wanted.output


def _reference(
    wanted: Wanted, plan: Plan, subject: Subject, lab: Lab
) -> tuple[Native | Contained, str]:
    """Choose the side that the container is held against, and say why it is this one."""
    probe = _probe_copy(wanted.probe_files, lab)
    if wanted.native is not None:
        return Native(prefix=wanted.native, probe=probe, home=lab.host.home), "given by --native"
    if wanted.no_twin:
        lab.progress.note(f"no native twin: {wanted.no_twin}; the unpacked image stands for it")
        return arms.unpacked(lab, subject), f"no native twin: {wanted.no_twin}"
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
    trial = workload(wanted, wanted.steps or wanted.trial_steps)
    thrown = [(arm, *_timed(arm, trial, wanted, lab)) for arm in sides.all()]
    failed = any(outcome.status != "ok" for _, _, outcome in thrown)
    steps = 0 if failed else steps_for(wanted, [outcome for _, _, outcome in thrown])
    session = Session(
        declared=declare(wanted, subject, sides, steps),
        arms=sides.described(workload(wanted, steps)),
        machine=machine(lab, subject, sides),
        started=_now(),
    )
    with Writer(wanted.output, session) as writer:
        record = Recorder(writer=writer, wanted=wanted)
        for arm, started, outcome in thrown:
            record.thrown(arm, started, outcome)
        _pairs(wanted, workload(wanted, steps), lab, sides, record)
        writer.end(complete=True)


def _pairs(
    wanted: Wanted, work: Workload, lab: Lab, sides: Sides, record: "Recorder"
) -> None:
    joiners = wanted.joiners if sides.joiner else 0
    pairs = order.plan_pairs(
        pairs=wanted.pairs, joiners=joiners, controls=wanted.controls, seed=wanted.seed
    )
    began = time.monotonic()
    for done, pair in enumerate(pairs):
        # Progress, never a value: who could see a trend could stop when it pleases.
        left = f", about {(time.monotonic() - began) / done * (len(pairs) - done):.0f} s left"
        lab.progress.step(f"pair {done + 1} of {len(pairs)}{left if done else ''}") if done else None
        for position, (arm, plays) in enumerate(sides.launches(pair)):
            time.sleep(wanted.gap_s)
            started, outcome = _timed(arm, work, wanted, lab)
            record.paired(pair, position, (arm, plays), started, outcome)


def _timed(arm: _Arm, work: Workload, wanted: Wanted, lab: Lab) -> tuple[str, Outcome]:
    started = _now()
    return started, perform(arm.launch(work), lab.runner, wanted.timeout_s)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@dataclass(slots=True)
class Recorder:
    """Writes launches as they come, and stops the session at the first that went wrong."""
