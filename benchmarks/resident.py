#!/usr/bin/env python3
"""Resident groups where the truth is known: how often the verdict is right, and how soon.

Both arms are one image, under the two labels: nothing differs, or the candidate's training steps
are longer by a known share of their own processor time (byte code of torch.optim.sgd with a burning
loop, one file bound over the image's). Every seventh session has two copies of the image under the
labels, in turns: what differs then is the bias of all of this, and no gate sees it.

Each session is a file of its own in the folder; a run that was interrupted goes on with it, and a
complete file is never measured again. FOLDER/sessions.jsonl has a line for each: what was judged,
its figures, seconds, load and the file's checksum. A complete session's line is enough: with that
file another machine goes on where one ended. Counts are printed from it, with their Clopper-Pearson
bounds: they count sessions on these machines. How often the procedure errs is for the simulation to
say (benchmarks/statistics.py). Fresh launches in the same hour: beside_launches.py.

    python benchmarks/resident.py --image IMAGE --site local --out FOLDER [--minutes M]
    python benchmarks/resident.py --out FOLDER --report [--markdown]

benchmarks/recorded/resident has the lines of the sessions that docs/measurements/verdict.md counts:
a copy of that folder goes on with them.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: its statistics.py is not Python's.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from statistics import fmean

from benchmarks import one_image, session_rows
from benchmarks.bounds import clopper_pearson, half_of_mean
from benchmarks.one_image import Place
from benchmarks.session_rows import Row, pooled
from dlcontainer.bench.measure import session
from dlcontainer.errors import BenchDataError
from dlcontainer.system import digests

RESULTS = "sessions.jsonl"
DECIDED = frozenset({"EQUIVALENT", "SLOWER", "FASTER"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """Sessions of one kind: the margin, the share that the candidate is slower by, how many.

    `copies`: each arm has a copy of the image of its own.
    """

    name: str
    margin: float
    slower: float
    count: int
    copies: bool = False

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
    Cell(name="copies-5", margin=0.05, slower=0.0, count=10, copies=True),
)


def main() -> None:
    """Measure what is missing, and print the counts."""
    parser = one_image.parser("Resident groups where the truth is known.")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no session after them")
    parser.add_argument("--sessions", type=int, default=0, help="measure no more than so many")
    parser.add_argument("--markdown", action="store_true", help="with --report: one table")
    parser.add_argument("--cells", default=",".join(cell.name for cell in CELLS))
    wanted = parser.parse_args()
    place = one_image.placed(parser, wanted)
    cells = [cell for cell in CELLS if cell.name in wanted.cells.split(",")]
    end = time.monotonic() + 60 * wanted.minutes if wanted.minutes else float("inf")
    left = 0 if wanted.report else wanted.sessions or sum(cell.count for cell in cells)
    done = {row.file for row in session_rows.read(place.folder / RESULTS) if row.complete}
    for cell, number in interleaved(cells):
        if left <= 0 or time.monotonic() > end:
            break
        if done.intersection(names_of(place, cell, number)):
            continue
        if one_session(place, cell, number):
            left -= 1
            write(place.folder)
    found = list(by_cell(write(place.folder)))
    if wanted.markdown:
        print("\n".join((*HEAD, *(line(cell, rows) for cell, rows in found))))
        return
    for cell, rows in found:
        print_cell(cell, rows)


def interleaved(cells: Sequence[Cell]) -> Iterator[tuple[Cell, int]]:
    """Spread the sessions of each kind evenly over the whole run."""
    order = sorted(
        ((number + 0.5) / cell.count, index, number)
        for index, cell in enumerate(cells)
        for number in range(cell.count)
    )
    return ((cells[index], number) for _, index, number in order)


def stem(cell: Cell, number: int) -> str:
    """Name a session."""
    return f"{cell.name}-{number:02d}"


def names_of(place: Place, cell: Cell, number: int) -> set[str]:
    """Name the files that a session may have."""
    return {path.name for path in one_image.paths_of(place.folder, stem(cell, number))}


def one_session(place: Place, cell: Cell, number: int) -> bool:
    """Measure a session, or go on with one that was cut; tell whether there was anything to do."""
    file = one_image.file_of(place.folder, stem(cell, number))
    if file is None:
        return False
    seed = 1000 * (CELLS.index(cell) + 1) + number
    options = place.options(seed=seed, margin=cell.margin, file=file)
    load, begin = os.getloadavg()[0], time.monotonic()
    copies = one_image.copies_of(place.image, place.folder) if cell.copies else None
    if copies and number % 2:
        copies = copies[::-1]
    try:
        with one_image.ready(options, slower=cell.slower, copies=copies) as it:
            session.measure(it.settings, it.image, it.context, it.sides)
    except BenchDataError as error:
        print(f"{file.path.name}: {error}", flush=True)
    took = time.monotonic() - begin
    print(f"{file.path.name}: {took:.0f} s, load at its start {load:.2f}", flush=True)
    return True


def write(folder: Path) -> list[Row]:
    """Bring the one file of all sessions up to date, and return its lines.

    A line whose session isn't there any more stays: the file alone is enough for the counts.
    """
    target = folder / RESULTS
    known = {row.file: row for row in session_rows.read(target)}
    for cell, number in interleaved(CELLS):
        for path in filter(Path.exists, one_image.paths_of(folder, stem(cell, number))):
            before = known.get(path.name)
            if before is None or before.sha256 != digests.of_file(path):
                known |= {path.name: row} if (row := session_rows.of(path)) else {}
    session_rows.write(target, known.values())
    return list(known.values())


def by_cell(rows: Sequence[Row]) -> Iterator[tuple[Cell, list[Row]]]:
    """Yield each kind with its sessions."""
    for cell in CELLS:
        yield cell, [row for row in rows if row.file.startswith(f"{cell.name}-")]


def print_cell(cell: Cell, rows: Sequence[Row]) -> None:
    """Print what came out of the sessions of one kind."""
    what = "two copies of an image" if cell.copies else f"planted {cell.slower:.0%}"
    print(f"\n{cell.name}: margin {cell.margin:.0%}, {what}")
    whole = [row for row in rows if row.complete]
    if not whole:
        print("  none is complete")
        return
    words = Counter(row.word for row in whole)
    print(f"  {len(whole)} complete of {cell.count}, {len(rows) - len(whole)} cut: {dict(words)}")
    print(f"  of processor time: {dict(Counter(row.cpu_word for row in whole))}")
    for label, hits in (
        ("wrong", sum(row.word in cell.wrong for row in whole)),
        ("decided", sum(row.word in DECIDED for row in whole)),
    ):
        low, high = clopper_pearson(hits, len(whole))
        bounds = f"at least {low:.1%}, at most {high:.1%} (each 95 %)"
        print(f"    {label}: {hits} of {len(whole)}, {bounds}")
    logs = [log(row.ratio) for row in whole if row.ratio > 0]
    print(f"    mean ratio {exp(fmean(logs)):.4f}{_over_sessions(logs)}")
    took = sorted(row.seconds + row.warmup_s for row in whole)
    print(f"    seconds {[round(each) for each in took]}, groups {sorted(row.n for row in whole)}")
    print(
        f"    images {len({row.image_sha256 for row in whole})}, "
        f"processors {dict(Counter(f'{row.cores} cores of {row.cpu_model}' for row in whole))}"
    )
    print(
        f"    load at the start {min(row.load_1min for row in whole):.1f} to "
        f"{max(row.load_1min for row in whole):.1f}"
    )
    print(
        f"    sd of a group {pooled([row.sd for row in whole]):.2%}, between processes "
        f"{pooled([row.between for row in whole]):.2%}, between turns "
        f"{pooled([row.turns for row in whole]):.2%}, lost {sum(row.lost for row in whole)}"
    )


HEAD = (
    "| sessions | complete | wrong | decided | mean ratio | groups | minutes of one | sd, group |",
    "|---|---|---|---|---|---|---|---|",
)


def line(cell: Cell, rows: Sequence[Row]) -> str:
    """Return a line of a table: counts with their bounds (one-sided, 95 %), figures of sessions."""
    what = "two copies of an image" if cell.copies else f"planted {cell.slower:.0%}"
    whole = [row for row in rows if row.complete]
    first = f"| {what}, margin {cell.margin:.0%} | {len(whole)} of {cell.count}"
    if not whole:
        return f"{first} | - | - | - | - | - | - |"
    wrong, decided = (sum(row.word in words for row in whole) for words in (cell.wrong, DECIDED))
    logs = [log(row.ratio) for row in whole]
    groups = Counter(row.n for row in whole)
    took = sorted((row.seconds + row.warmup_s) / 60 for row in whole)
    return (
        f"{first} | {wrong}, at most {clopper_pearson(wrong, len(whole))[1]:.0%} "
        f"| {decided}, at least {clopper_pearson(decided, len(whole))[0]:.0%} "
        f"| {exp(fmean(logs)):.4f}{_interval(logs)} "
        f"| {', '.join(f'{n} in {count}' for n, count in sorted(groups.items()))} "
        f"| {took[0]:.1f} to {took[-1]:.1f} | {pooled([row.sd for row in whole]):.1%} |"
    )


def _interval(logs: Sequence[float]) -> str:
    bounds = _of_mean(logs)
    return f" [{bounds[0]:.4f}, {bounds[1]:.4f}]" if bounds else ""


def _over_sessions(logs: Sequence[float]) -> str:
    bounds = _of_mean(logs)
    if bounds is None:
        return ""
    return f", 95 % interval over {len(logs)} sessions {bounds[0]:.4f} to {bounds[1]:.4f}"


def _of_mean(logs: Sequence[float]) -> tuple[float, float] | None:
    """Return the interval of the sessions' mean: sessions are what it counts."""
    half = half_of_mean(logs)
    if half is None:
        return None
    return exp(fmean(logs) - half), exp(fmean(logs) + half)


if __name__ == "__main__":
    main()
