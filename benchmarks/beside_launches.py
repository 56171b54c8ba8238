#!/usr/bin/env python3
"""Resident groups against pinned fresh launches: which of the two decides sooner?

Both arms are one image, so the truth is 1. A round is two sessions that are measured at once, unit
by unit: a group, a pair of launches, a group, a pair … so that both see the same hour. The launches
are bound to the core that the groups have; that is in their declaration, and each attests it.

Printed for each: the scatter of one unit (sd of the log-ratio), its seconds, how many units decide
a margin with a power of 0.9 where nothing differs by more than 0.5 %, and what that takes.

    python benchmarks/beside_launches.py --image IMAGE --site local --out FOLDER [--rounds N]
    python benchmarks/beside_launches.py --out FOLDER --report
"""

import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: its statistics.py is not Python's.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from statistics import fmean

from benchmarks import one_image, session_rows
from benchmarks.one_image import TRAIN, File, Place, Ready
from benchmarks.session_rows import Row, pooled
from dlcontainer.bench.measure import session
from dlcontainer.bench.measure.declaration import WarmupOutcome
from dlcontainer.bench.measure.recorder import Recorder
from dlcontainer.bench.measure.units import availability, cpuset
from dlcontainer.bench.measure.units.launches import LaunchUnit
from dlcontainer.bench.measure.units.unit import MeasurementTask, MeasurementUnit
from dlcontainer.bench.probes.probe import Probe
from dlcontainer.bench.samples import continuation
from dlcontainer.bench.samples.launch_order import Group
from dlcontainer.bench.stats import power
from dlcontainer.cli.bench.session_options import SessionOptions

RESULTS = "rounds.jsonl"
UNITS = ("groups", "launches")
COUNT, STEPS = 8, 60
MARGINS = (0.05, 0.02)
ALPHA = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Course:
    """A session that is measured unit by unit; `left` are those that are still to come."""

    unit: MeasurementUnit
    settled: WarmupOutcome
    recorder: Recorder
    left: deque[Group]
    cpus: tuple[int, ...]

    def step(self) -> None:
        """Measure the next unit, and end the session with the last."""
        if not self.left:
            return
        with bound_to(self.cpus):
            self.unit.measure(self.left.popleft(), self.settled, self.recorder)
        if not self.left:
            self.recorder.writer.end(complete=True, reason=f"ended at its look at {COUNT}")


def main() -> None:
    """Measure the rounds that are missing, and print both units' figures."""
    parser = one_image.parser("Resident groups against pinned launches.")
    parser.add_argument("--steps", type=int, default=STEPS, help="of a launch")
    parser.add_argument("--rounds", type=int, default=1)
    wanted = parser.parse_args()
    place = one_image.placed(parser, wanted)
    for number in range(0 if wanted.report else wanted.rounds):
        one_round(place, number, wanted.steps)
    report(write(place.folder))


def one_round(place: Place, number: int, steps: int) -> None:
    """Measure both sessions of a round at once, or go on with them."""
    cpus = cpuset.choose(place.threads)
    if cpus is None:
        raise SystemExit(f"no NUMA node has {place.threads} cores")
    with ExitStack() as stack:
        courses = []
        for unit in UNITS:
            file = one_image.file_of(place.folder, f"{unit}-{number:02d}")
            if file is not None:
                probe, options = asked(place, unit, file, steps, cpus, number)
                ready = stack.enter_context(one_image.ready(options, probe=probe))
                pinned = cpus if unit == "launches" else ()
                courses.append(stack.enter_context(course(ready, unit, pinned)))
        while any(one.left for one in courses):
            for one in courses:
                one.step()
            print(f"round {number}: load {os.getloadavg()[0]:.1f}", flush=True)


def asked(
    place: Place, unit: str, file: File, steps: int, cpus: tuple[int, ...], number: int
) -> tuple[Probe, SessionOptions]:
    """Return the probe and the options of one session of a round."""
    # The smaller margin: what is printed does not depend on it.
    options = place.options(seed=7000 + number, margin=MARGINS[-1], file=file, unit=unit)
    options = replace(options, looks=str(COUNT))
    if unit == "groups":
        return TRAIN, options
    declared = TRAIN.declared
    probe = replace(TRAIN, declared=lambda cell: {**declared(cell), "cpus": list(cpus)})
    values = {**options.values, "steps": steps}
    return probe, replace(options, controls="0", values=values)


@contextmanager
def course(ready: Ready, unit: str, cpus: tuple[int, ...]) -> Iterator[Course]:
    """Warm a session up and open its file."""
    task = MeasurementTask(
        settings=ready.settings, subject=ready.image, context=ready.context, sides=ready.sides
    )
    chosen: MeasurementUnit = LaunchUnit(task=task)
    if unit == "groups":
        grouped = session.in_groups(task, availability.choose(task.settings, task.sides))
        task, chosen = grouped.task, grouped
    cut = task.settings.cut
    (stage,) = session._planned(task)
    with ExitStack() as stack:
        with bound_to(cpus):
            begun = (session._resumed if cut else session._fresh)(task, chosen)
            recorder, settled = stack.enter_context(begun)
        left = deque(stage[continuation.groups_done(cut, stage) if cut else 0 :])
        yield Course(unit=chosen, settled=settled, recorder=recorder, left=left, cpus=cpus)


@contextmanager
def bound_to(cpus: tuple[int, ...]) -> Iterator[None]:
    """Bind what is started meanwhile to processors; to all without any."""
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus or everywhere)
    try:
        yield
    finally:
        os.sched_setaffinity(0, everywhere)


def write(folder: Path) -> list[Row]:
    """Write one file with a line for each session of the folder, and return its lines."""
    known = {row.file: row for row in session_rows.read(folder / RESULTS)}
    for path in sorted(folder.glob("*-[0-9][0-9]*.jsonl")):
        row = session_rows.of(path)
        known |= {row.file: row} if row else {}
    session_rows.write(folder / RESULTS, known.values())
    return list(known.values())


def report(rows: Sequence[Row]) -> None:
    """Print both units' scatter, and what a verdict takes with each."""
    for unit in UNITS:
        mine = [row for row in rows if row.file.startswith(unit) and row.complete and row.n]
        if not mine:
            print(f"{unit}: none is complete")
            continue
        sd, seconds = pooled([row.sd for row in mine]), fmean(row.unit_s for row in mine)
        ratio = exp(fmean(log(row.ratio) for row in mine))
        loads = [row.load_1min for row in mine]
        print(
            f"{unit}: {len(mine)} sessions of {COUNT}, sd of one {sd:.2%}, {seconds:.1f} s each, "
            f"mean ratio {ratio:.4f}, words {[row.word for row in mine]}, load at the start "
            f"{min(loads):.1f} to {max(loads):.1f}"
        )
        for margin in MARGINS:
            needed = power.pairs_needed(sd, margin, ALPHA, equivalence=True)
            took = f"{needed} of them, {needed * seconds / 60:.1f} minutes" if needed else "no end"
            print(f"    within {margin:.0%}: {took}")


if __name__ == "__main__":
    main()
