"""How often a verdict is right, as two tables: pairs, groups, and three sessions of each.

Each row is a machine on which something is planted; each cell is so many simulated sessions that go
through the whole procedure (orders, regression, ranks, gates, looks). See `simulation.py` and
`resident_sessions.py`.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: its statistics.py is not Python's.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from benchmarks import resident_sessions
from benchmarks.resident_sessions import across
from benchmarks.sampling import describe, machine_facts
from benchmarks.simulation import Design, Ended, share, simulate
from benchmarks.triples import Arms
from benchmarks.triples import seen as seen_of_three
from benchmarks.triples import simulate as simulate_three
from benchmarks.worlds import World
from dlcontainer.system import atomic_files

BEGIN, END = "<!-- table: verdict -->", "<!-- end of table -->"
LIMIT = 0.05
DIFFERENT = ("SLOWER", "FASTER")
PAIRS, GROUPS = Design(), Design(controls=0, rule="groups")
TRIPLES = Design(looks=(12, 18, 36), controls=36)
MARGIN = PAIRS.margin
_QUIET = World(drift=0.0, ar=0.0, outliers=0.0, second=0.0)
# What belongs to one arm, and what no session can see: there promises break first.
PLANTED: dict[str, World] = {
    "nothing": _QUIET,
    "arms' own AR(1) 0.5": replace(_QUIET, own_ar=0.5),
    "arms' own AR(1) 0.9": replace(_QUIET, own_ar=0.9),
    "an arm's own drift, sd 2 %": replace(_QUIET, own_drift=0.02),
    "carry-over 1 %": replace(_QUIET, carry=0.01),
    "carry-over 2 %": replace(_QUIET, carry=0.02),
    "carry-over 4 %": replace(_QUIET, carry=0.04),
    "5 % of container launches 1.5x": replace(_QUIET, slow=0.05, slower=1.5),
    "2 % of container launches 3x": replace(_QUIET, slow=0.02, slower=3.0),
    "10 % of container launches 1.2x": replace(_QUIET, slow=0.10, slower=1.2),
    "placement of a session, sd 0.5 %": replace(_QUIET, placement=0.005),
    "placement of a session, sd 1 %": replace(_QUIET, placement=0.01),
}

Ending = Callable[[World, Design, int, int], Ended]


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """What a session repeats, the sd of one, and how sessions of it are simulated."""

    name: str
    design: Design
    sd: float
    ended: Ending
    imports: bool = True
    # Each statement takes so many sessions.
    of: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A unit on a machine; `sessions` are those of each cell."""

    unit: Unit
    planted: str
    world: World
    sessions: int

    def cells(self, seed: int) -> Iterator[str]:
        """Simulate this row's cells."""
        unit, world = self.unit, self.world
        importing = replace(unit.design, equivalence=False)

        def ended(truth: float, design: Design) -> Ended:
            return unit.ended(replace(world, truth=truth), design, self.sessions, seed)

        same = ended(1.0, unit.design)
        yield _share(same, DIFFERENT, limit=LIMIT)
        # An import is never measured in groups.
        yield _share(ended(1.0, importing), DIFFERENT, limit=LIMIT) if unit.imports else "-"
        yield _share(ended(1 + MARGIN, unit.design), ("EQUIVALENT",), limit=LIMIT)
        yield _share(same, ("EQUIVALENT",))
        yield _share(ended(1.03, unit.design), ("SLOWER",))
        yield _share(same, ("NOT COMPARABLE",))
        yield f"{same.pairs.mean():.1f}"


def _pairs(world: World, design: Design, sessions: int, seed: int) -> Ended:
    return simulate(world, design, sessions, seed)


def _groups(world: World, design: Design, sessions: int, seed: int) -> Ended:
    return simulate(world, design, sessions, seed, resident_sessions.draw)


def _three_groups(world: World, design: Design, sessions: int, seed: int) -> Ended:
    return across(world, design, sessions, seed, resident_sessions.draw)


def _triples(world: World, design: Design, sessions: int, seed: int) -> Ended:
    arms = Arms(design=design, own_controls=design.controls // 3)
    return seen_of_three(simulate_three(world, arms, sessions, seed), ("n", "c"))


UNITS = (
    Unit(name="pairs", design=PAIRS, sd=0.01, ended=_pairs),
    Unit(name="groups", design=GROUPS, sd=0.015, ended=_groups, imports=False),
    Unit(name="three sessions of pairs", design=PAIRS, sd=0.01, ended=across, of=3),
    Unit(
        name="three sessions of groups",
        design=GROUPS,
        sd=0.015,
        ended=_three_groups,
        imports=False,
        of=3,
    ),
)
OF_THREE = Unit(name="triples", design=TRIPLES, sd=0.01, ended=_triples)
# Noise that both arms share, by the scatter of a unit.
SCATTERS: tuple[tuple[Unit, tuple[float, ...]], ...] = (
    (UNITS[0], (0.005, 0.01, 0.014, 0.02, 0.03)),
    (UNITS[1], (0.01, 0.015, 0.02, 0.03)),
    (OF_THREE, (0.005, 0.014, 0.03)),
)


def rows(sessions: int, untouched: int) -> Iterator[Row]:
    """Yield every row; `untouched` are the sessions of those in which nothing is planted."""
    for unit in UNITS:
        for planted, world in PLANTED.items():
            count = untouched // unit.of if world == _QUIET else sessions
            yield Row(unit=unit, planted=planted, world=replace(world, sd=unit.sd), sessions=count)
    for unit, scatters in SCATTERS:
        for sd in scatters:
            yield Row(
                unit=unit,
                planted="drift, neighbours alike, 3 % of launches 5 % slower",
                world=World(sd=sd),
                sessions=sessions,
            )


# Of the page's two tables: unit, sd and plant stand in both, errors come first.
NAMED, ERRORS = 3, 3
HEADS = tuple(
    f"| unit | sd | planted | {shares} |\n|---|---|---|{'---|' * (shares.count('|') + 1)}"
    for shares in (
        "truth 1: SLOWER or FASTER | the same, import's rules | at the margin: EQUIVALENT",
        "truth 1: EQUIVALENT | truth 1.03: SLOWER | NOT COMPARABLE | units",
    )
)


def line(row: Row, cells: Sequence[str]) -> str:
    """Return a row of the table."""
    return f"| {' | '.join([row.unit.name, f'{100 * row.world.sd:g} %', row.planted, *cells])} |"


def _share(ended: Ended, words: tuple[str, ...], limit: float | None = None) -> str:
    rate, low, high = (100 * value for value in share(ended, words))
    text = f"{rate:.1f} [{low:.1f}, {high:.1f}]"
    return f"**{text}**" if limit is not None and low > 100 * limit else text


def tables(lines: Sequence[str]) -> str:
    """Return the rows as two tables, errors and decisions: in one they are too wide to read."""
    split = [one.strip("| ").split(" | ") for one in lines]
    errors = [row[: NAMED + ERRORS] for row in split]
    decisions = [[*row[:NAMED], *row[NAMED + ERRORS :]] for row in split]
    texts = [
        "\n".join([head, *(f"| {' | '.join(row)} |" for row in part)])
        for head, part in zip(HEADS, (errors, decisions), strict=True)
    ]
    return "\n\n".join(texts)


def replaced(text: str, table: str) -> str:
    """Return a page with this table in place of the one between the marks."""
    before, mark, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise SystemExit(f"the page has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> None:
    """Simulate every row and print it; write the table into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=2000, metavar="N", help="sessions a cell (2000)")
    parser.add_argument(
        "--untouched", type=int, default=20_000, metavar="N", help="where nothing is planted"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="rows that begin so")
    parser.add_argument("--seed", type=int, default=1, metavar="K")
    parser.add_argument(
        "--rows",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="what runs with --only said",
    )
    parser.add_argument("--docs", type=Path, metavar="PAGE", help="write it into this page")
    wanted = parser.parse_args()
    lines = []
    for path in wanted.rows:
        lines += path.read_text().splitlines()
    if not wanted.rows:
        for number, row in enumerate(rows(wanted.n, wanted.untouched)):
            if f"{row.unit.name}, {row.planted}".startswith(wanted.only):
                lines.append(line(row, list(row.cells(wanted.seed + number))))
                print(lines[-1], flush=True)
    facts = (
        f"{describe(machine_facts())} at the end; {wanted.n:,} sessions (or statements of three) "
        f"a cell, {wanted.untouched:,} sessions where nothing is planted; seed {wanted.seed}."
    )
    if wanted.docs is not None:
        table = "\n".join([facts, "", tables(lines)])
        atomic_files.write(wanted.docs, replaced(wanted.docs.read_text(), table))


if __name__ == "__main__":
    main()
