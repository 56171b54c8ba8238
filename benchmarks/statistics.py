"""How often the benchmark's verdict is right: whole sessions simulated, with what disturbs them.

Each cell is a machine and a truth; its sessions have their launches drawn at random (drift,
correlated noise, outliers, an effect of running second) and go through the whole procedure, looks
included; of two arms, then of three. A claim is a bound on the share of a verdict, held against
Agresti and Coull's 95 % interval. See `simulation.py` and `triples.py`.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: this file would stand for Python's own `statistics`.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from benchmarks import triples
from benchmarks.simulation import Design, Ended, share, simulate
from benchmarks.triples import CONTRASTS, Arms
from benchmarks.worlds import World

LOOKS = Design()
QUICK = Design(looks=(8,), controls=8)
MARGIN = LOOKS.margin
LOOKS_OF_THREE = Design(looks=(12, 18, 36), controls=36)
QUICK_OF_THREE = Design(looks=(12,), controls=12)
DIFFERENT = ("SLOWER", "FASTER")
SDS = (0.005, 0.01, 0.014, 0.02, 0.03)


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A share of verdicts that must be at most, or at least, a limit."""

    name: str
    world: World
    design: Design
    words: tuple[str, ...]
    limit: float
    is_upper: bool
    arms: Arms | None = None
    contrast: tuple[str, str] | None = CONTRASTS[0]

    def ended(self, sessions: int, seed: int) -> Ended:
        """Simulate so many sessions of this cell."""
        if self.arms is None:
            return simulate(self.world, self.design, sessions, seed)
        return triples.seen(triples.simulate(self.world, self.arms, sessions, seed), self.contrast)

    def judged(self, ended: Ended) -> tuple[tuple[float, float, float], str]:
        """Return the share with its interval, and whether the whole interval keeps to the limit."""
        found, low, high = share(ended, self.words)
        if self.is_upper:
            word = "yes" if high <= self.limit else "NO" if low > self.limit else "within noise"
        else:
            word = "yes" if low >= self.limit else "NO" if high < self.limit else "within noise"
        return (found, low, high), word


def claims() -> Iterator[Claim]:
    """Yield every claim that the protocol makes of the procedure with two arms."""
    for design, name in ((LOOKS, "8,16,32"), (QUICK, "8")):
        importing = Design(looks=design.looks, controls=design.controls, equivalence=False)
        for outliers in (0.03, 0.0):
            for sd in SDS:
                for truth in (1 + MARGIN, 1 / (1 + MARGIN)):
                    yield Claim(
                        name=f"at the margin ({truth:.4f}), looks {name}: EQUIVALENT",
                        world=World(truth=truth, sd=sd, outliers=outliers),
                        design=design, words=("EQUIVALENT",), limit=0.05, is_upper=True,
                    )  # fmt: skip
                equal = World(sd=sd, outliers=outliers)
                yield Claim(
                    name=f"truth 1, looks {name}: SLOWER or FASTER",
                    world=equal, design=design, words=DIFFERENT, limit=0.05, is_upper=True,
                )  # fmt: skip
                yield Claim(
                    name=f"truth 1, import, looks {name}: SLOWER or FASTER",
                    world=equal, design=importing, words=DIFFERENT, limit=0.05, is_upper=True,
                )  # fmt: skip
                if sd <= 0.014:
                    yield Claim(
                        name=f"truth 1, looks {name}: EQUIVALENT",
                        world=equal, design=design, words=("EQUIVALENT",), limit=0.9,
                        is_upper=False,
                    )  # fmt: skip
                yield Claim(
                    name=f"truth 1.03, looks {name}: SLOWER",
                    world=World(truth=1.03, sd=sd, outliers=outliers),
                    design=design, words=("SLOWER",), limit=0.9, is_upper=False,
                )  # fmt: skip


def claims_of_three() -> Iterator[Claim]:
    """Yield every claim of the procedure with three arms; `sd` is that of two neighbours' d."""
    for design, name in ((LOOKS_OF_THREE, "12,18,36"), (QUICK_OF_THREE, "12")):
        for outliers in (0.03, 0.0):
            for sd in SDS:
                yield from _of_three(design, f"three arms, looks {name}: ", sd, outliers)


def _of_three(design: Design, name: str, sd: float, outliers: float) -> Iterator[Claim]:
    importing = replace(design, equivalence=False)
    edge = 1 + MARGIN

    def claim(
        what: str,
        truths: tuple[float, float],
        words: tuple[str, ...],
        contrast: tuple[str, str] | None = CONTRASTS[0],
        declared: Design = design,
        limit: float = 0.05,
    ) -> Claim:
        return Claim(
            name=name + what,
            world=World(truth=truths[0], sd=sd, outliers=outliers),
            design=declared, words=words, limit=limit, is_upper=limit < 0.5,
            arms=Arms(design=declared, built=truths[1], own_controls=design.controls // 3),
            contrast=contrast,
        )  # fmt: skip

    for truth in (edge, 1 / edge):
        yield claim(f"at the margin ({truth:.4f}): EQUIVALENT", (truth, 1.0), ("EQUIVALENT",))
    yield claim("truth 1: SLOWER or FASTER", (1.0, 1.0), DIFFERENT)
    yield claim("truth 1, import: SLOWER or FASTER", (1.0, 1.0), DIFFERENT, declared=importing)
    if sd <= 0.014:
        yield claim("truth 1: EQUIVALENT", (1.0, 1.0), ("EQUIVALENT",), limit=0.9)
    yield claim("truth 1.03: SLOWER", (1.03, 1.0), ("SLOWER",), limit=0.9)
    # The session ends by the whole; what is said of the build must hold all the same.
    build = CONTRASTS[1]
    yield claim("whole 1.03, build at the margin: EQUIVALENT", (1.03, edge), ("EQUIVALENT",), build)
    yield claim("whole 1.03, build 1, import: different", (1.03, 1.0), DIFFERENT, build, importing)
    yield claim("all 1, import: different on some", (1.0, 1.0), DIFFERENT, None, importing)


def row(claim: Claim, ended: Ended) -> dict[str, object]:
    """Return one line of the result."""
    (found, low, high), met = claim.judged(ended)
    return {
        "claim": claim.name,
        "sd": claim.world.sd,
        "outliers": claim.world.outliers,
        "limit": claim.limit,
        "is_upper": claim.is_upper,
        "share": round(found, 4),
        "interval": [round(low, 4), round(high, 4)],
        "met": met,
        "tails": round(float(ended.tails.mean()), 4),
        "not_comparable": round(share(ended, ("NOT COMPARABLE",))[0], 4),
        "mean_pairs": round(float(ended.pairs.mean()), 1),
    }


def main() -> None:
    """Simulate every claim's cell and print a table, or JSON."""
    parser = argparse.ArgumentParser(description="Simulate the benchmark's own procedure.")
    parser.add_argument("-n", type=int, default=20_000, metavar="N", help="sessions a cell")
    parser.add_argument("--only", default="", metavar="TEXT", help="cells whose claim has this")
    parser.add_argument("--seed", type=int, default=1, metavar="K")
    parser.add_argument("--json", action="store_true", help="print JSON")
    wanted = parser.parse_args()
    began = time.monotonic()
    rows = []
    every = [*claims(), *claims_of_three()]
    for number, claim in enumerate(every):
        if wanted.only not in claim.name:
            continue
        ended = claim.ended(wanted.n, wanted.seed + number)
        rows.append(row(claim, ended))
        if not wanted.json:
            print(line(rows[-1]), flush=True)
    seconds = time.monotonic() - began
    if wanted.json:
        print(
            json.dumps(
                {"sessions": wanted.n, "seed": wanted.seed, "seconds": seconds, "cells": rows}
            )
        )
    else:
        print(f"\n{len(rows)} cells of {wanted.n} sessions, seed {wanted.seed}, {seconds:.0f} s")


def line(found: dict[str, object]) -> str:
    """Return one line of the table."""
    sign = "<=" if found["is_upper"] else ">="
    return (
        f"{found['claim']!s:66} sd {found['sd']!s:5} outliers {found['outliers']!s:4} "
        f"{found['share']:.4f} {found['interval']} {sign} {found['limit']}: {found['met']!s:12} "
        f"tails {found['tails']} refused {found['not_comparable']} pairs {found['mean_pairs']}"
    )


if __name__ == "__main__":
    main()
