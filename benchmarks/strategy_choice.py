#!/usr/bin/env python3
"""How good the step model's pick of a parallel strategy is, on public measurements of vTrain.

Takes `data/ground_truth_multi.csv` of github.com/VIA-Research/vTrain (steps of four language models
on 64 to 512 A100, MIT-style licence; Bang et al., MICRO 2024, arXiv 2312.12391). One model is left
out each time: four constants come from the other three, and the model picks the strategy with the
least forecast step among those measured. Regret: how much slower the pick is than the best one
measured. A benchmark, not a test.

The form was frozen in a commit before any row was read. Inputs that are not fitted:
- 312e12 FLOP/s of bfloat16 or half precision, 2.039e12 byte/s of memory: NVIDIA's data sheet of
  the A100 80 GB.
- In a node: vTrain's own table of all-reduces (trace/a100/AR_GPU8_1M_1024M_LUT): 93 us for 1 to
  4 MB of 8 GPUs are 14 messages, 229 GB/s of bus bandwidth at 1 GB.
- Between nodes: 800 Gbit/s a node (config/validation/multi/*.json, inter_node_bandwidth; its four
  HDR ports), 8 GPUs a node; 5 us a message, assumed.
- No gradient buckets, activation checkpointing, 1F1B (the same files).
- Elementwise work: bytes of activations of a layer, s b h (10 + 24/t + 5 a s / (h t)), of which no
  tensor parallelism divides the first part (Korthikanti et al., 2022, section 4).
- Logits: a layer more on the last stage, 51,200 words.
Fitted: the share of the peak that matrix products reach, how often a layer's activations go through
memory, seconds of a layer beside both (starts of kernels), the share of the port's rate.
"""

import argparse
import csv
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Beside this stands a statistics.py: Python's own is meant.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from statistics import mean, median

from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.study.forecast import step_model
from dlcontainer.bench.study.forecast.step_terms import (
    Machine,
    RankLink,
    StrategyChoice,
    TrainedNetwork,
)

PEAK, MEMORY = 312e12, 2.039e12
IN_NODE = RankLink(latency_s=93e-6 / 14, second_per_byte=1 / 229e9)
PORT = 800e9 / 8
PORT_LATENCY = 5e-6
GPUS_A_NODE, WORDS = 8, 51_200
# Half precision: what is sent of an activation or a gradient.
BYTES = 2
# Rounds of the search over the constants; each halves its steps.
ROUNDS = 7


@dataclass(frozen=True, kw_only=True, slots=True)
class Constants:
    """What is fitted, on other models' rows."""

    efficiency: float = 0.5
    passes: float = 6.0
    layer_s: float = 2e-4
    port_share: float = 0.8


# A constant stays within these.
BOUNDS: Mapping[str, tuple[float, float]] = {
    "efficiency": (0.2, 1.0),
    "passes": (1.0, 24.0),
    "layer_s": (1e-5, 5e-3),
    "port_share": (0.1, 1.0),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredStrategy:
    """A row: a model, a strategy with its micro-batch, and the step's seconds."""

    model: str
    ranks: int
    batch: int
    micro_batch: int
    hidden: int
    heads: int
    layers: int
    length: int
    strategy: ParallelStrategy
    step_s: float

    @property
    def name(self) -> str:
        """Return the strategy with its micro-batch."""
        return f"{self.strategy.name} micro-batch {self.micro_batch}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pick:
    """A model left out: what was picked, and how far it and other strategies are from the best."""

    model: str
    ranks: int
    strategies: int
    pick: str
    best: str
    regret: float
    median_regret: float
    worst_regret: float
    mean_error: float
    worst_error: float
    constants: Constants

    @property
    def good(self) -> bool:
        """Whether the regret is at most half of the median strategy's."""
        return self.regret <= self.median_regret / 2


def read(path: Path) -> list[MeasuredStrategy]:
    """Read the rows; the columns are P, N, B, b, h, a, l, s, t, d, p, T in milliseconds."""
    rows = []
    with path.open(newline="") as file:
        for row in list(csv.reader(file))[1:]:
            ranks, batch, micro, hidden, heads, layers, length, tp, dp, pp = (
                round(float(cell)) for cell in row[1:11]
            )
            rows.append(
                MeasuredStrategy(
                    model=f"{float(row[0]):g}", ranks=ranks, batch=batch, micro_batch=micro,
                    hidden=hidden, heads=heads, layers=layers, length=length,
                    strategy=ParallelStrategy(dp=dp, tp=tp, pp=pp), step_s=float(row[11]) / 1e3,
                )
            )  # fmt: skip
    return rows


def forecast_s(row: MeasuredStrategy, constants: Constants) -> float:
    """Return the step's seconds by the step model."""
    tp, pp = row.strategy.tp, row.strategy.pp
    wide, long = row.hidden, row.length
    # Of one sample and layer, four passes: forward, again forward, backward twice as long.
    products = 4 * 24 * long * wide**2 * (1 + long / (6 * wide))
    elementwise = long * wide * (10 + 24 / tp + 5 * row.heads * long / (wide * tp))
    layer_s = products / (tp * constants.efficiency * PEAK)
    layer_s += elementwise * constants.passes / MEMORY
    logits_s = 3 * 2 * long * wide * WORDS / (tp * constants.efficiency * PEAK)
    # All stages as slow as the last one, which has the logits besides.
    stage_s = layer_s * row.layers / pp + logits_s
    parameters = 12 * row.layers * wide**2 + WORDS * wide
    network = TrainedNetwork(
        flops=stage_s * tp * pp,
        gradient_bytes=parameters * BYTES,
        layers=row.layers,
        activation_bytes=long * wide * BYTES,
        recomputed=True,
    )
    port = RankLink(latency_s=PORT_LATENCY, second_per_byte=1 / (PORT * constants.port_share))
    machine = Machine(
        flops_per_s=1.0,
        ranks_per_node=GPUS_A_NODE,
        in_node=IN_NODE,
        between_nodes=port,
        # Megatron sends a part of an activation from each tensor-parallel rank.
        stage_in_node=replace(IN_NODE, second_per_byte=IN_NODE.second_per_byte / tp),
        stage_between_nodes=replace(port, second_per_byte=port.second_per_byte / tp),
        overlap=0.0,
        rendezvous=True,
        algorithm="ring or tree",
        bucket_bytes=math.inf,
        pass_s=constants.layer_s * row.layers,
    )
    choice = StrategyChoice(
        strategy=row.strategy,
        global_batch=row.batch,
        micro_batches=max(1, row.batch // (row.strategy.dp * row.micro_batch)),
    )
    return step_model.step(network, machine, choice).step_s


def fitted(rows: Sequence[MeasuredStrategy]) -> Constants:
    """Fit the constants: the least mean of models' mean absolute errors of the logarithm."""
    best, steps = Constants(), dict.fromkeys(BOUNDS, 2.0)
    least = error(rows, best)
    for _ in range(ROUNDS):
        for name, factor in steps.items():
            for change in (factor, 1 / factor):
                while True:
                    low, high = BOUNDS[name]
                    moved = min(max(getattr(best, name) * change, low), high)
                    other = replace(best, **{name: moved})
                    tried = error(rows, other)
                    if tried >= least - 1e-9:
                        break
                    best, least = other, tried
        steps = {name: math.sqrt(factor) for name, factor in steps.items()}
    return best


def error(rows: Sequence[MeasuredStrategy], constants: Constants) -> float:
    """Return the mean over models of the mean absolute error of the logarithm."""
    return mean(
        mean(
            abs(math.log(forecast_s(row, constants) / row.step_s))
            for row in rows
            if row.model == model
        )
        for model in {row.model for row in rows}
    )


def picked(rows: Sequence[MeasuredStrategy], model: str) -> Pick:
    """Pick a strategy for a model by constants of the others, and score the pick."""
    constants = fitted([row for row in rows if row.model != model])
    tried = [row for row in rows if row.model == model]
    best = min(tried, key=lambda row: row.step_s)
    pick = min(tried, key=lambda row: forecast_s(row, constants))
    errors = [abs(forecast_s(row, constants) / row.step_s - 1) for row in tried]
    return Pick(
        model=model, ranks=tried[0].ranks, strategies=len(tried), pick=pick.name, best=best.name,
        regret=pick.step_s / best.step_s - 1,
        median_regret=median(row.step_s for row in tried) / best.step_s - 1,
        worst_regret=max(row.step_s for row in tried) / best.step_s - 1,
        mean_error=mean(errors), worst_error=max(errors), constants=constants,
    )  # fmt: skip


def main() -> None:
    """Pick for each model, print the table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("rows", type=Path, help="vTrain's data/ground_truth_multi.csv")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = read(options.rows)
    picks = [picked(rows, model) for model in sorted({row.model for row in rows}, key=float)]
    if options.json:
        body = [{**asdict(pick), "good": pick.good} for pick in picks]
        print(json.dumps({"schema": "dlcontainer/benchmark-strategy-choice/1", "picks": body}))
        return
    print("| model | GPUs | strategies | pick | regret | median | worst | mean error |")
    print("|---|---|---|---|---|---|---|---|")
    for pick in picks:
        print(
            f"| {pick.model} B | {pick.ranks} | {pick.strategies} | {pick.pick} (best: {pick.best})"
            f" | {pick.regret:.1%} | {pick.median_regret:.1%} | {pick.worst_regret:.1%}"
            f" | {pick.mean_error:.1%} |"
        )
    for pick in picks:
        word = "at most half" if pick.good else "MORE than half"
        print(f"{pick.model} B: {word} of the median strategy's regret; {pick.constants}")


if __name__ == "__main__":
    main()
