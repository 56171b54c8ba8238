"""Two nodes from one: a one-constant step model, held against CSC's public tables.

    .venv/bin/python benchmarks/node_to_nodes.py results.md

`results.md` is that of github.com/mvsjober/ml-benchmarks (no licence: nothing of it is here). A set
is a benchmark, framework, cluster and date with figures for one GPU, a full node and two; what is
forecast is the efficiency of two nodes, from the other two figures. The form and all facts below
were frozen in a commit before a row of two nodes was read.

The form: with one GPU's samples a second a rank's work is known, with a node's the step; the step's
remainder, less what the step model sends inside a node, is the rest (input, start-up, stragglers).
Two nodes keep the rest and pay the step model's communication between nodes in place of that.
Image sets keep the local batch (weak); the language model keeps the global one: its script divides
64 accumulated micro-batches of 2 by the number of GPUs, and gradients go after the last of them.
The constant is the share of all links' peak that collectives reach: fitted on the other sets of the
kind (the set itself left out), or on the other clusters' alone, by the mean absolute error.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: `statistics.py` of it would stand for Python's own.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from statistics import fmean

from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.study.forecast import step_model
from dlcontainer.bench.study.forecast.step_terms import (
    Machine,
    RankLink,
    StrategyChoice,
    TrainedNetwork,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """A cluster's GPU nodes: devices, and bytes a second in one direction."""

    devices: int
    in_node: float
    between_nodes: float


# LUMI: 8 GCDs a node, single Infinity Fabric links of 100 GB/s in both directions together, four
# Slingshot endpoints of 25 + 25 GB/s (github.com/Lumi-supercomputer/lumi-userguide,
# docs/hardware/lumig.md and network.md). Puhti: 4 V100 with NVLink, 200 Gbps of dual-rail HDR100;
# Mahti: 4 A100, one 200 Gbps HDR link (github.com/CSCfi/csc-user-guide, docs/computing/
# systems-puhti.md and systems-mahti.md). NVLink: 25 GB/s a link; two links between two of 4 V100,
# four between two of four A100 (assumed from 6 and 12 links a GPU among three peers).
CLUSTERS = {
    "lumi": Cluster(devices=8, in_node=50e9, between_nodes=100e9),
    "puhti": Cluster(devices=4, in_node=50e9, between_nodes=25e9),
    "mahti": Cluster(devices=4, in_node=100e9, between_nodes=25e9),
}
# Seconds of a message: assumed, and without weight at these sizes.
IN_NODE_LATENCY_S, BETWEEN_LATENCY_S = 5e-6, 10e-6
# ResNet-50: 25,557,032 parameters in fp32; a local batch of 32 (the scripts' default).
IMAGES = 32
IMAGE_GRADIENT_BYTES = 4 * 25_557_032
# gpt-neo-125M by its configuration (12 layers of 768, vocabulary 50,257, 2,048 positions):
# 125,198,592 parameters; under --fp16 the weights and their gradients stay in fp32.
LANGUAGE_GRADIENT_BYTES = 4 * 125_198_592
MICRO_BATCH, ACCUMULATED = 2, 64
SHARES = tuple(share / 100 for share in range(1, 101))
LANGUAGE, IMAGE = "language model", "image"


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSet:
    """One set of a table: samples a second of one GPU, a node and two nodes."""

    name: str
    kind: str
    cluster: str
    one: float
    node: float
    nodes: float

    @property
    def devices(self) -> int:
        """Return how many GPUs a node has."""
        return CLUSTERS[self.cluster].devices

    @property
    def in_a_node(self) -> float:
        """Return the efficiency of a full node: the baseline's forecast of two."""
        return self.node / (self.devices * self.one)

    @property
    def in_two(self) -> float:
        """Return the efficiency of two nodes."""
        return self.nodes / (2 * self.devices * self.one)


def sets(text: str) -> list[TableSet]:
    """Read the sets that have all three figures; a later row of the same set and GPUs counts."""
    rates: dict[tuple[str, str, str, str], dict[int, float]] = defaultdict(dict)
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 6 or not cells[3].isdigit():
            continue
        try:
            rate = float(cells[5])
        except ValueError:
            continue
        rates[(cells[0], cells[1], cells[2], cells[4])][int(cells[3])] = rate
    return list(_whole(rates))


def _whole(rates: Mapping[tuple[str, str, str, str], Mapping[int, float]]) -> Iterator[TableSet]:
    for key, by_devices in rates.items():
        benchmark, framework, cluster, date = key
        if cluster not in CLUSTERS:
            continue
        devices = CLUSTERS[cluster].devices
        if {1, devices, 2 * devices} <= by_devices.keys():
            yield TableSet(
                name=f"{benchmark}; {framework}; {cluster}; {date}",
                kind=LANGUAGE if benchmark.startswith("run_clm") else IMAGE,
                cluster=cluster,
                one=by_devices[1],
                node=by_devices[devices],
                nodes=by_devices[2 * devices],
            )


def forecast(table_set: TableSet, share: float) -> float:
    """Return the efficiency of two nodes, from those of one GPU and of a node."""
    devices = table_set.devices
    work, batch = _work_s(table_set, devices)
    step = batch / table_set.node
    rest = max(0.0, step - work - _communication_s(table_set, devices, share))
    work, batch = _work_s(table_set, 2 * devices)
    both = work + rest + _communication_s(table_set, 2 * devices, share)
    return batch / both / (2 * devices * table_set.one)


def _work_s(table_set: TableSet, ranks: int) -> tuple[float, int]:
    """Return a rank's seconds of compute in a step, and the samples of all ranks in it."""
    batch = IMAGES * ranks if table_set.kind == IMAGE else MICRO_BATCH * ACCUMULATED
    return batch / ranks / table_set.one, batch


def _communication_s(table_set: TableSet, ranks: int, share: float) -> float:
    """Return the step model's exposed communication of a step."""
    cluster = CLUSTERS[table_set.cluster]
    is_image = table_set.kind == IMAGE
    machine = Machine(
        flops_per_s=table_set.one,
        ranks_per_node=cluster.devices,
        in_node=RankLink(
            latency_s=IN_NODE_LATENCY_S, second_per_byte=1 / (share * cluster.in_node)
        ),
        between_nodes=RankLink(
            latency_s=BETWEEN_LATENCY_S, second_per_byte=1 / (share * cluster.between_nodes)
        ),
        algorithm="ring or tree",
    )
    # One operation a sample: a rank's operations a second are its samples a second.
    network = TrainedNetwork(
        flops=1.0, gradient_bytes=IMAGE_GRADIENT_BYTES if is_image else LANGUAGE_GRADIENT_BYTES
    )
    batch = IMAGES * ranks if is_image else MICRO_BATCH * ACCUMULATED
    choice = StrategyChoice(
        strategy=ParallelStrategy(dp=ranks),
        global_batch=batch,
        micro_batches=1 if is_image else max(1, ACCUMULATED // ranks),
    )
    return step_model.step(network, machine, choice).exposed_communication_s


def fitted(others: Sequence[TableSet]) -> float:
    """Return the share with the least mean absolute error; of equal ones the largest."""
    return min(reversed(SHARES), key=lambda share: _error(others, share))


def _error(others: Sequence[TableSet], share: float) -> float:
    return fmean(abs(forecast(other, share) - other.in_two) for other in others)


def report(all_sets: Sequence[TableSet], kind: str) -> Iterator[str]:
    """Say a kind's errors in points: of the baseline, and with the constant fitted in both ways."""
    mine = [each for each in all_sets if each.kind == kind]
    yield f"{kind}: {len(mine)} sets"
    if len(mine) < 2:
        return
    yield _line("as in the node", [each.in_a_node - each.in_two for each in mine])
    left_out = {each.name: fitted([other for other in mine if other is not each]) for each in mine}
    yield _line(
        "step model, the set left out",
        [forecast(each, left_out[each.name]) - each.in_two for each in mine],
        left_out.values(),
    )
    by_cluster = {
        cluster: fitted(others)
        for cluster in {each.cluster for each in mine}
        if (others := [each for each in mine if each.cluster != cluster])
    }
    if not by_cluster:
        return
    yield _line(
        "step model, the cluster left out",
        [
            forecast(each, by_cluster[each.cluster]) - each.in_two
            for each in mine
            if each.cluster in by_cluster
        ],
        by_cluster.values(),
    )


def _line(name: str, errors: Sequence[float], shares: object = ()) -> str:
    fits = sorted(set(shares)) if shares else []  # type: ignore[call-overload]
    constant = f"; the constant {fits[0]:.2f} to {fits[-1]:.2f}" if fits else ""
    return (
        f"  {name}: mean {100 * fmean(map(abs, errors)):.1f}, worst "
        f"{100 * max(map(abs, errors)):.1f}, bias {100 * fmean(errors):+.1f} points{constant}"
    )


def main() -> None:
    """Read the tables and print the errors of both forecasts."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("results", type=Path, help="the tables, results.md")
    options = parser.parse_args()
    all_sets = sets(options.results.read_text(encoding="utf-8"))
    for kind in (IMAGE, LANGUAGE):
        print("\n".join(report(all_sets, kind)))


if __name__ == "__main__":
    main()
