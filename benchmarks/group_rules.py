"""What one look at a few groups decides within 5 %: by the rule of groups, and by that of launches.

Until procedure 2 groups were corrected for their neighbours' correlation as launches are. Sessions
are those of `verdict_table.py`, through the same procedure.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: its statistics.py is not Python's.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from benchmarks import resident_sessions
from benchmarks.sampling import describe, machine_facts
from benchmarks.simulation import Design, share, simulate
from benchmarks.worlds import World

DIFFERENT = ("SLOWER", "FASTER")
LOOKS = (8, 12)
SCATTERS = (0.015, 0.02, 0.03)
_QUIET = World(drift=0.0, ar=0.0, outliers=0.0, second=0.0)
PLANTED: dict[str, World] = {
    "nothing": _QUIET,
    # Drift, neighbours alike, outliers.
    "what both sides share": World(),
    "arms' own AR(1) 0.3": replace(_QUIET, own_ar=0.3),
    "arms' own AR(1) 0.6": replace(_QUIET, own_ar=0.6),
}
HEAD = (
    "| groups | sd | planted | truth 1: SLOWER or FASTER, before | now "
    "| at the margin: EQUIVALENT, before | now | truth 1: EQUIVALENT, before | now |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """Sessions of so many groups on one machine, under both rules."""

    look: int
    sd: float
    planted: str

    def line(self, sessions: int, seed: int) -> str:
        """Simulate the sessions and return their row."""
        shares = [
            self._share(words, truth, sessions, seed)
            for words, truth in ((DIFFERENT, 1.0), (("EQUIVALENT",), 1.05), (("EQUIVALENT",), 1.0))
        ]
        texts = [
            f"{self.look}",
            f"{100 * self.sd:g} %",
            self.planted,
            *(t for s in shares for t in s),
        ]
        return f"| {' | '.join(texts)} |"

    def _share(self, words: tuple[str, ...], truth: float, sessions: int, seed: int) -> list[str]:
        world = replace(PLANTED[self.planted], sd=self.sd, truth=truth)
        now = Design(looks=(self.look,), controls=0, margin=0.05, rule="groups")
        found = []
        for design in (replace(now, rule="launches"), now):
            # The same sessions under both rules.
            ended = simulate(world, design, sessions, seed, resident_sessions.draw)
            rate, low, high = (100 * value for value in share(ended, words))
            found.append(f"{rate:.1f} [{low:.1f}, {high:.1f}]")
        return found


def cells() -> Iterator[Cell]:
    """Yield every cell."""
    for look in LOOKS:
        for sd in SCATTERS:
            for planted in PLANTED:
                yield Cell(look=look, sd=sd, planted=planted)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=2000, metavar="N", help="sessions a cell (2000)")
    parser.add_argument("--seed", type=int, default=1, metavar="K")
    wanted = parser.parse_args()
    print(HEAD)
    for number, cell in enumerate(cells()):
        print(cell.line(wanted.n, wanted.seed + number), flush=True)
    print(f"\n{describe(machine_facts())} at the end; {wanted.n:,} sessions a cell.")


if __name__ == "__main__":
    main()
