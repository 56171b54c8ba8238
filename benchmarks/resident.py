#!/usr/bin/env python3
"""Resident groups where the truth is known, beside pinned fresh launches of the same hour.

Both arms are one image, under the two labels: nothing differs, or the candidate's training steps
are longer by a known share of their own processor time (byte code of torch.optim.sgd with a burning
loop, one file bound over the image's). Each session is a file of its own in the folder; a run that
was interrupted goes on with it, and a complete file is never measured again. After each session of
groups come a few pairs of fresh launches, bound to the same cores.

Counts are printed with their Clopper-Pearson bounds: they count sessions on this machine. How often
the procedure errs is for the simulation to say (benchmarks/statistics.py).

    python benchmarks/resident.py --image IMAGE --site local --out FOLDER [--minutes M] [--report]
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: its statistics.py is not Python's.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from benchmarks.bounds import clopper_pearson
from benchmarks.slower_steps import planted
from dlcontainer.bench.analysis import resident_groups
from dlcontainer.bench.analysis.session_analysis import Analysis, analyse
from dlcontainer.bench.measure import arms, session
from dlcontainer.bench.measure.declaration import Sides
from dlcontainer.bench.measure.units import cpuset
from dlcontainer.bench.probes import PROBES
from dlcontainer.bench.probes.base import Probe, Value
from dlcontainer.bench.samples import continuation, reader
from dlcontainer.cli.bench import bench_context, sessions
from dlcontainer.cli.bench.session_options import SessionOptions
from dlcontainer.cli.context import here
from dlcontainer.cli.output import Console
from dlcontainer.errors import BenchDataError

FRESH_PAIRS, FRESH_STEPS = 8, 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """Sessions of one kind: the margin, the share that the candidate is slower by, how many."""

    name: str
    margin: float
    slower: float
    count: int

    @property
    def wrong(self) -> frozenset[str]:
        """The words that would be wrong."""
        right = {"SLOWER", "INCONCLUSIVE"} if self.slower > self.margin else {"INCONCLUSIVE"}
        if not self.slower:
            right = {"EQUIVALENT", "INCONCLUSIVE"}
        return frozenset({"EQUIVALENT", "SLOWER", "FASTER", "NOT COMPARABLE"}) - right


CELLS = (
    Cell(name="nothing-5", margin=0.05, slower=0.0, count=40),
    Cell(name="nothing-2", margin=0.02, slower=0.0, count=10),
    Cell(name="slower-3", margin=0.02, slower=0.03, count=10),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """With what all sessions are measured."""

    image: Path
    site: str
    recipe: str | None
    folder: Path
    threads: int
    group: int


def main() -> None:
    """Measure what is missing, and print the counts."""
    parser = argparse.ArgumentParser(description="Resident groups where the truth is known.")
    parser.add_argument("--image", type=Path, required=True)
    parser.add_argument("--site", default="local")
    parser.add_argument("--recipe")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the sessions")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--group", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no session after them")
    parser.add_argument("--cells", default=",".join(cell.name for cell in CELLS))
    parser.add_argument("--report", action="store_true", help="measure nothing")
    wanted = parser.parse_args()
    wanted.out.mkdir(parents=True, exist_ok=True)
    place = Place(
        image=wanted.image.absolute(),
        site=wanted.site,
        recipe=wanted.recipe,
        folder=wanted.out.absolute(),
        threads=wanted.threads,
        group=wanted.group,
    )
    cells = [cell for cell in CELLS if cell.name in wanted.cells.split(",")]
    end = time.monotonic() + 60 * wanted.minutes if wanted.minutes else float("inf")
    if not wanted.report:
        for cell, number in interleaved(cells):
            if time.monotonic() > end:
                break
            for unit in ("groups", "launches"):
                one_session(place, cell, number, unit)
    for cell in cells:
        print_cell(place.folder, cell)


def interleaved(cells: Sequence[Cell]) -> Iterator[tuple[Cell, int]]:
    """Spread the sessions of each kind evenly over the whole run."""
    order = sorted(
        ((number + 0.5) / cell.count, index, number)
        for index, cell in enumerate(cells)
        for number in range(cell.count)
    )
    return ((cells[index], number) for _, index, number in order)


def paths_of(folder: Path, cell: Cell, number: int, unit: str) -> Iterator[Path]:
    """Name a session's file, and those that take its place where it can't go on."""
    stem = f"{cell.name}-{number:02d}-{unit}"
    yield folder / f"{stem}.jsonl"
    yield from (folder / f"{stem}-again{attempt}.jsonl" for attempt in range(1, 10))


def can_go_on(path: Path) -> bool:
    """Tell whether a session that was cut can go on; says why not."""
    try:
        continuation.read(path)
    except BenchDataError as error:
        print(f"{path.name}: {error}", flush=True)
        return False
    return True


def one_session(place: Place, cell: Cell, number: int, unit: str) -> None:
    """Measure a session, go on with one that was cut, or leave a complete one alone."""
    for path in paths_of(place.folder, cell, number, unit):
        if not path.exists():
            cut = None
            break
        if reader.read(path).complete:
            return
        if can_go_on(path):
            cut = path
            break
    else:
        return
    load = os.getloadavg()[0]
    begin = time.monotonic()
    probe = with_margin(PROBES["train"], cell.margin)
    values: dict[str, Value] = {"device": "cpu", "unit": unit, "group": place.group}
    fresh = unit == "launches"
    options = SessionOptions(
        site=place.site,
        image=place.image,
        recipe=place.recipe,
        threads=place.threads,
        seed=1000 * (CELLS.index(cell) + 1) + number,
        values=values | ({"steps": FRESH_STEPS} if fresh else {}),
        controls="0" if fresh else None,
        looks=str(FRESH_PAIRS) if fresh else None,
        target=None if cut else path,
        resume=cut,
    )
    everywhere = os.sched_getaffinity(0)
    if fresh:
        # Fresh launches get the cores that groups have.
        os.sched_setaffinity(0, cpuset.choose(place.threads) or everywhere)
    try:
        run(probe, options, cell.slower)
    except BenchDataError as error:
        print(f"{path.name}: {error}", flush=True)
    finally:
        os.sched_setaffinity(0, everywhere)
    took = time.monotonic() - begin
    print(f"{path.name}: {took:.0f} s, load at its start {load:.2f}", flush=True)


def with_margin(probe: Probe, margin: float) -> Probe:
    """Give a probe whose judged figure has another margin."""
    judged, *others = probe.metrics
    return replace(probe, metrics=(replace(judged, margin=margin), *others))


def run(probe: Probe, options: SessionOptions, slower: float) -> None:
    """Measure one image against itself, its steps longer by a share on the one side."""
    world, console = here(), Console(verbose=False, quiet=True)
    ready = sessions._settled(probe, options, world, console)
    with bench_context.opened(world, console, ready.plan, None, ready.image) as context:
        candidate = arms.container(context, ready.image, probe)
        reference = replace(candidate, name="native", mount="none")
        if slower:
            candidate = replace(candidate, context=planted(context, ready.image, slower))
        sides = Sides(reference=reference, candidate=candidate, joiner=None, why="the same image")
        session.measure(ready.settings, ready.image, context, sides)


def print_cell(folder: Path, cell: Cell) -> None:
    """Print what came out of the sessions of one kind."""
    print(f"\n{cell.name}: margin {cell.margin:.0%}, planted {cell.slower:.0%}")
    for unit in ("groups", "launches"):
        names = (paths_of(folder, cell, number, unit) for number in range(cell.count))
        found = [judged(path) for paths in names for path in paths if path.exists()]
        whole = [one for one in found if one.series.complete]
        if not whole:
            print(f"  {unit}: none is complete")
            continue
        words = Counter(one.verdict.word for one in whole)
        cut = len(found) - len(whole)
        print(f"  {unit}: {len(whole)} complete of {cell.count}, {cut} cut: {dict(words)}")
        for label, hits in (
            ("wrong", sum(one.verdict.word in cell.wrong for one in whole)),
            ("decided", sum(one.verdict.word in {"EQUIVALENT", "SLOWER"} for one in whole)),
        ):
            low, high = clopper_pearson(hits, len(whole))
            bounds = f"at least {low:.1%}, at most {high:.1%} (each 95 %)"
            print(f"    {label}: {hits} of {len(whole)}, {bounds}")
        fits = [one.main.fitted for one in whole if one.main and one.main.fitted.df > 0]
        if fits:
            sd = (sum(fit.sd**2 for fit in fits) / len(fits)) ** 0.5
            mean = exp(sum(fit.mean for fit in fits) / len(fits))
            counts = sorted(fit.n for fit in fits)
            print(f"    sd of one {sd:.2%}, mean ratio {mean:.4f}, numbers {counts}")
        print_components(whole)


def print_components(whole: Sequence[Analysis]) -> None:
    """Print the scatter between processes, and between turns."""
    described = [resident_groups.of(one.series) for one in whole]
    parts = [part for one in described if one for part in (one.reference, one.candidate)]
    if parts:
        between = (sum(part.between**2 for part in parts) / len(parts)) ** 0.5
        turns = (sum(part.turns**2 for part in parts) / len(parts)) ** 0.5
        lost = Counter({part.arm: 0 for part in parts})
        for part in parts:
            lost[part.arm] += part.lost
        print(f"    between processes {between:.2%}, between turns {turns:.2%}, lost {dict(lost)}")


def judged(path: Path) -> Analysis:
    """Judge a session by its file."""
    series = reader.read(path)
    return analyse(series, PROBES[series.session.declared.probe].traits(series))


if __name__ == "__main__":
    main()
