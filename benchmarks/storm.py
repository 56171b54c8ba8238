#!/usr/bin/env python3
"""Is the storm's prediction right? Frozen on calibration points, then held against others.

On our own stand-in: that proves the arithmetic, the counts and the queue, not that a file system
is like that. `storm_sshfs.py` does the same on one that is not ours. A benchmark, not a test.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Beside this stands a statistics.py: Python's own is meant.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from statistics import fmean, median

from benchmarks.sampling import describe, machine_facts
from benchmarks.stormpoints import (
    CORES,
    Outcome,
    as_json,
    folders,
    frozen,
    last_rank,
    make_prefix,
    table,
)
from dlcontainer.lab.filesystem import microbenchmark
from dlcontainer.lab.slowfs.cache_profiles import PROFILES
from dlcontainer.lab.slowfs.passthrough import Delay
from dlcontainer.lab.slowfs.server import StandIn
from dlcontainer.lab.slowfs.server_queue import ServerRates, Service
from dlcontainer.lab.storm.alternatives import Way
from dlcontainer.lab.storm.loads import LoadMeasurement
from dlcontainer.lab.storm.measure import (
    Bench,
    Runnable,
    measure,
    of_prefix,
    packed,
)
from dlcontainer.lab.storm.storm_model import ImportLoad, ServerModel, StormJob, predict
from dlcontainer.system.process import ProcessRunner


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A stand-in's speed, and who asks it: latency in ms, rate in operations/s."""

    nodes: int
    ranks: int
    latency_ms: float
    rate: float
    service: Service = "exponential"
    way: Way = "tree"

    @property
    def name(self) -> str:
        """Return what it is, in words."""
        image = "" if self.way == "tree" else "image, "
        return (
            f"{image}{self.nodes} nodes x {self.ranks} ranks, {self.latency_ms:g} ms, "
            f"{self.rate:g}/s {self.service}"
        )


# Calibration: one client, two latencies, no queue to speak of.
CALIBRATION = (
    Point(nodes=1, ranks=1, latency_ms=3.0, rate=2000),
    Point(nodes=1, ranks=1, latency_ms=9.0, rate=2000),
)
HELD_OUT = (
    Point(nodes=1, ranks=1, latency_ms=6.0, rate=500),
    Point(nodes=1, ranks=4, latency_ms=6.0, rate=500),
    Point(nodes=2, ranks=2, latency_ms=6.0, rate=500),
    Point(nodes=4, ranks=1, latency_ms=6.0, rate=500),
    Point(nodes=4, ranks=1, latency_ms=12.0, rate=200),
    Point(nodes=4, ranks=2, latency_ms=12.0, rate=200),
    Point(nodes=6, ranks=1, latency_ms=20.0, rate=200),
    Point(nodes=6, ranks=1, latency_ms=20.0, rate=100),
    Point(nodes=8, ranks=1, latency_ms=20.0, rate=100),
    Point(nodes=6, ranks=1, latency_ms=20.0, rate=200, service="constant"),
    Point(nodes=8, ranks=1, latency_ms=20.0, rate=100, service="constant"),
    # Of an image three things are asked, of a server so slow that few nodes fill it: below the
    # knee, near it, and above.
    Point(nodes=4, ranks=1, latency_ms=20.0, rate=8, way="image per node"),
    Point(nodes=8, ranks=1, latency_ms=20.0, rate=8, way="image per node"),
    Point(nodes=8, ranks=1, latency_ms=20.0, rate=4, way="image per node"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Overhead:
    """What this machine adds to each operation and each read of the stand-in, s."""

    operation_s: float
    read_s: float


def main() -> None:
    """Calibrate, freeze, predict, measure, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=3, help="launches of a point (default 3)")
    parser.add_argument("--module", default="numpy", help="what ranks import (default numpy)")
    parser.add_argument(
        "--points", type=int, default=len(HELD_OUT), help="only so many of the points (default all)"
    )
    parser.add_argument(
        "--way", choices=("all", "tree", "image per node"), default="all", help="only these points"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the order (default 1)")
    parser.add_argument("--json", action="store_true", help="print JSON with the raw samples")
    options = parser.parse_args()
    runner = ProcessRunner(environ=dict(os.environ))
    with tempfile.TemporaryDirectory(prefix="dlcontainer-storm-") as name:
        work = Path(name)
        prefix = make_prefix(work, runner, options.module)
        tree = of_prefix(prefix, options.module, runner.environ)
        image = packed(tree, work, runner)
        if image is None:
            raise SystemExit("install squashfs-tools and squashfuse")
        bench = Bench(work=work, runner=runner, profile=PROFILES["lustre"], say=_say)
        measured = measure(bench, tree, image, options.module)
        overhead = _calibrate(tree, measured.loads["tree"], runner)
        points = [point for point in HELD_OUT if options.way in ("all", point.way)]
        points = points[: options.points]
        predicted = {
            point: predict(measured.loads[point.way], _system(point, overhead), _job(point)).seconds
            for point in points
        }
        settled = _settled(measured, overhead, predicted)
        _say(f"frozen: {frozen(settled)}")
        subjects = {"tree": tree, "image per node": image.run}
        outcomes = _measure_all(subjects, predicted, runner, (options.n, options.seed))
    facts = machine_facts()
    if options.json:
        body = {"schema": "dlcontainer/benchmark-storm/1", "frozen": frozen(settled), **settled}
        print(json.dumps({**body, "points": as_json(outcomes), "machine": facts}, indent=1))
        return
    print(f"{describe(facts)}; parameters {frozen(settled)[:16]}, overhead {overhead}")
    print(table(outcomes))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _settled(
    measured: LoadMeasurement, overhead: Overhead, predicted: dict[Point, float]
) -> dict[str, object]:
    return {
        "measured": asdict(measured),
        "overhead": asdict(overhead),
        "predicted": {point.name: seconds for point, seconds in predicted.items()},
    }


def _job(point: Point) -> StormJob:
    # All nodes of a point are this machine: its cores are shared by all ranks.
    cores = max(1, CORES // point.nodes)
    return StormJob(nodes=point.nodes, ranks=point.ranks, cores=cores)


def _system(point: Point, overhead: Overhead) -> ServerModel:
    return ServerModel(
        latency_s=point.latency_ms / 1000 + overhead.operation_s,
        rate=point.rate,
        read_s=point.latency_ms / 1000 + overhead.read_s,
        variation=1.0 if point.service == "exponential" else 0.0,
    )


def _stand_in(source: Path, point: Point, server: Path) -> StandIn:
    late = point.latency_ms / 1000
    return StandIn(
        source=source,
        delay=Delay(operation_s=late, read_s=late),
        speed=ServerRates(rate=point.rate, service=point.service),
        server=server,
    )


def _launch(what: Runnable, point: Point, runner: ProcessRunner) -> float:
    """Mount afresh for each node, which makes its client cold, and import."""
    with folders(point.nodes + 1) as places, ExitStack() as stack:
        server = places[-1] / "server"
        for place in places[:-1]:
            stand_in = _stand_in(what.under, point, server)
            stack.enter_context(stand_in.mounted(place, runner))
        return last_rank(what, places[:-1], point.ranks, runner)


def _calibrate(tree: Runnable, load: ImportLoad, runner: ProcessRunner) -> Overhead:
    """Find what an operation takes beside its nominal time: by micro-probe, then by import."""
    beside = []
    for point in CALIBRATION:
        with folders(2) as (place, other):
            stand_in = _stand_in(tree.under, point, other / "server")
            with stand_in.mounted(place, runner):
                probed = microbenchmark.probe(place)
        nominal = point.latency_ms + 1000 / point.rate
        operation = (fmean(probed.samples_ms) - nominal) / 1000
        took = median(_launch(tree, point, runner) for _ in range(3))
        none = predict(
            load, _system(point, Overhead(operation_s=operation, read_s=0.0)), _job(point)
        )
        beside.append((operation, (took - none.seconds) / load.read_waits))
        _say(f"calibration, {point.name}: {took:.2f} s, {operation * 1000:.2f} ms beside")
    return Overhead(
        operation_s=median(one for one, _ in beside), read_s=median(two for _, two in beside)
    )


def _measure_all(
    subjects: Mapping[str, Runnable],
    predicted: dict[Point, float],
    runner: ProcessRunner,
    how: tuple[int, int],
) -> list[Outcome]:
    launches, seed = how
    order = [point for point in predicted for _ in range(launches)]
    random.Random(seed).shuffle(order)
    taken: dict[Point, list[float]] = {point: [] for point in predicted}
    for number, point in enumerate(order, 1):
        taken[point].append(_launch(subjects[point.way], point, runner))
        _say(f"{number} of {len(order)}: {point.name}: {taken[point][-1]:.2f} s")
    return [
        Outcome(name=point.name, predicted=predicted[point], measured=tuple(taken[point]))
        for point in predicted
    ]


if __name__ == "__main__":
    main()
