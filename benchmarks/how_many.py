"""Is "use n" right: simulated scaling studies of known efficiency, and what is said of them.

1,000 studies of each shape of the loss and each scatter of launches, seeded. Of each study:
whether the true largest number of ranks at the goal lies in the interval, and how many doublings
wide that is. Launches scatter by a log-normal law; "spikes" are launches of 1.3 times the time,
one in twenty, that no law of the interval knows.
"""

import argparse
import json
import math
import os
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
others = [path for path in sys.path if Path(path or ".").resolve() != HERE]
sys.path[:] = [str(HERE.parent), *others]

from dlcontainer.bench.study.advice import how_many
from dlcontainer.bench.study.advice.how_many import PointSteps

GOAL = 0.85
RANKS = (1, 2, 4, 8, 16, 32, 64)
# Launches of each point, as `bench scaling` has them: eight, all looks at the last one; and few.
USUAL, FEW = (8, 8, 8, 8, 8, 8, 32), (4,) * 7


def _steps(ranks: int, at: int, there: float, beyond: float) -> float:
    """Return an efficiency that is high below a number of ranks, low beyond it."""
    if ranks == 1:
        return 1.0
    return 0.97 if ranks < at else there if ranks == at else beyond


SHAPES: Mapping[str, Callable[[int], float]] = {
    "bend at 8": lambda n: 1 / (1 + 0.06 * (1 - 1 / n) + 0.012 * math.log2(n) ** 2),
    "slow fall": lambda n: 1 / (1 + 0.035 * math.log2(n)),
    "wall at 16": lambda n: 0.97 if n <= 16 and n > 1 else (1.0 if n == 1 else 0.6),
    "flat at the goal": lambda n: 1.0 if n == 1 else GOAL + (1e-9 if n <= 8 else -1e-9),
    "on the goal, then a wall": lambda n: _steps(n, 8, GOAL + 1e-9, 0.6),
    "under the goal, then a wall": lambda n: _steps(n, 16, GOAL - 1e-9, 0.6),
    "never below": lambda n: 1 - 0.01 * math.log2(n),
}
SPIKE, SPIKE_SHARE = 1.3, 0.05


@dataclass(frozen=True, kw_only=True)
class SimulatedRow:
    """One shape and scatter: shares of studies, and doublings of ranks."""

    shape: str
    sd: float
    launches: str
    spikes: bool
    truth: int
    holds_truth: float
    exact: float
    doublings: float


def truth(efficiency: Callable[[int], float]) -> int:
    """Return the largest number of ranks at the goal."""
    return max(ranks for ranks in RANKS if efficiency(ranks) >= GOAL)


def study(
    efficiency: Callable[[int], float],
    sd: float,
    counts: tuple[int, ...],
    seed: int,
    *,
    spikes: bool,
) -> how_many.RanksAdvice:
    """Simulate one study of weak scaling and return the advice."""
    draw = random.Random(seed)

    def launch(ranks: int) -> float:
        slow = SPIKE if spikes and draw.random() < SPIKE_SHARE else 1.0
        return slow * math.exp(draw.gauss(0, sd)) / efficiency(ranks)

    points = [
        PointSteps(ranks=ranks, samples=32, step_s=[launch(ranks) for _ in range(count)])
        for ranks, count in zip(RANKS, counts, strict=True)
    ]
    return how_many.advise(how_many.measured(points[0], points[1:]), GOAL)


def row(
    shape: str, sd: float, counts: tuple[int, ...], studies: int, *, spikes: bool = False
) -> SimulatedRow:
    """Simulate so many studies of one kind."""
    right = truth(SHAPES[shape])
    told = [study(SHAPES[shape], sd, counts, seed, spikes=spikes) for seed in range(studies)]
    held = sum((advice.surely or 0) <= right <= (advice.at_most or 0) for advice in told)
    exact = sum(advice.surely == right == advice.at_most for advice in told)
    return SimulatedRow(
        shape=shape, sd=sd, launches="-".join(map(str, counts)), spikes=spikes, truth=right,
        holds_truth=held / studies, exact=exact / studies,
        doublings=sum(advice.steps_apart for advice in told) / studies,
    )  # fmt: skip


def main() -> None:
    """Print the table, or all of it as JSON."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("-n", type=int, default=1000, help="studies of each kind")
    reader.add_argument("--json", action="store_true")
    words = reader.parse_args()
    kinds = [
        *((shape, sd, USUAL, False) for sd in (0.015, 0.03, 0.05) for shape in SHAPES),
        *((shape, 0.015, FEW, False) for shape in SHAPES),
        *((shape, 0.015, USUAL, True) for shape in SHAPES),
    ]
    rows = [row(shape, sd, counts, words.n, spikes=spikes) for shape, sd, counts, spikes in kinds]
    if words.json:
        print(json.dumps([asdict(one) for one in rows], indent=1))
        return
    print(f"{words.n} studies a row, goal {GOAL}, load {os.getloadavg()[0]:.1f}")
    print("| shape | sd | launches | true n | holds it | told exactly | mean doublings |")
    print("|---|---|---|---|---|---|---|")
    for one in rows:
        spikes = ", spikes" if one.spikes else ""
        print(
            f"| {one.shape} | {one.sd:.1%}{spikes} | {one.launches} | {one.truth} | "
            f"{one.holds_truth:.1%} | {one.exact:.1%} | {one.doublings:.2f} |"
        )


if __name__ == "__main__":
    main()
