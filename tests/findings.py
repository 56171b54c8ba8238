"""Made-up findings, as `lab count -o`, `lab storm -o` and the storm's benchmark write them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from dlcontainer.lab.filesystem import count_file
from dlcontainer.lab.filesystem.count_file import CountingRun, FileSystemCounts, ImportNode
from dlcontainer.lab.slowfs.counters import METADATA
from dlcontainer.lab.storm import prediction_file
from dlcontainer.lab.storm.alternatives import (
    StagingCost,
    StormCase,
    Way,
    rows,
)
from dlcontainer.lab.storm.loads import LoadMeasurement
from dlcontainer.lab.storm.parameters import Fact
from dlcontainer.lab.storm.prediction_file import Storm
from dlcontainer.lab.storm.repeats import MeasuringNode
from dlcontainer.lab.storm.storm_model import ImportLoad, ServerModel, StormJob

LOADS: dict[Way, ImportLoad] = {
    "tree": ImportLoad(
        shared_operations=3000, own_operations=1200, read_waits=300, mb=120, cpu_s=1.5
    ),
    "image per node": ImportLoad(
        shared_operations=7, own_operations=0, read_waits=200, mb=70, cpu_s=1.5, start_s=0.2
    ),
    "staged": ImportLoad(
        shared_operations=0, own_operations=0, read_waits=0, mb=0, cpu_s=1.5, start_s=0.2
    ),
}


def prediction(*, assumed: bool = False, launches: int | None = 2) -> Storm:
    system = ServerModel(latency_s=0.0005, rate=20_000, read_s=0.001)
    case = StormCase(loads=LOADS, staging=StagingCost(mb=330, network_mb_s=1000), system=system)
    job = StormJob(nodes=128, ranks=8, cores=64)
    measured = LoadMeasurement(
        loads=LOADS,
        image_mb=330.0,
        profile="lustre",
        subject="torch | <b>",
        node=MeasuringNode(cores=64, load_1min=71.2),
        timings={},
    )
    fact = Fact(key="latency_ms", value=0.5, source="probed <here>", assumed=assumed)
    written = prediction_file.of(case, job, rows(case, job), measured, (fact,))
    return replace(written, launches_until_staging_pays=launches)


def storm(*, assumed: bool = False, launches: int | None = 2) -> dict[str, object]:
    """The file, as `lab storm -o` writes it."""
    written = prediction(assumed=assumed, launches=launches)
    return {"schema": prediction_file.SCHEMA, **asdict(written)}


def trial(factor: float = 1.04) -> dict[str, object]:
    predicted = {f"{nodes} nodes": 1.7 * nodes for nodes in (1, 2, 4, 8)}
    settled = {"overhead": {"operation_s": 0.0004}, "predicted": predicted}
    frozen = hashlib.sha256(json.dumps(settled, sort_keys=True).encode()).hexdigest()
    points = [
        {"name": name, "predicted": s, "measured": [factor * s, 1.01 * factor * s, 0.99 * s]}
        for name, s in predicted.items()
    ]
    return {
        "schema": "dlcontainer/benchmark-storm/1", "frozen": frozen, **settled,
        "points": points, "machine": {"cores": 2},
    }  # fmt: skip


def counting(
    operations: Mapping[str, int] | None = None, *, pyc: int = 690, so: int = 27
) -> CountingRun:
    found = dict(operations or {"stat": 4562, "open": 900, "failed_open": 559, "read": 700})
    one = FileSystemCounts(operations=found, bytes=9, unique_files=717, pyc=pyc, so=so)
    imports = (
        ImportNode(name="torch", depth=0, self_us=100_000, total_us=900_000),
        ImportNode(name="torch._C", depth=1, self_us=300_000, total_us=300_000),
        ImportNode(name="numpy<b>", depth=1, self_us=100_000, total_us=500_000),
        ImportNode(name="numpy.core", depth=2, self_us=400_000, total_us=400_000),
        ImportNode(name="site", depth=0, self_us=100_000, total_us=100_000),
    )
    return CountingRun(
        command=("python", "-c", "import torch"), tool="strace", sees="calls", ranks=1,
        per_rank=(one,), per_node=one, slowest_s=3.0, setting={}, imports=imports,
    )  # fmt: skip


def count(
    operations: Mapping[str, int] | None = None, *, pyc: int = 690, so: int = 27
) -> dict[str, object]:
    """The file, as `lab count -o` writes it."""
    return {"schema": count_file.SCHEMA, **asdict(counting(operations, pyc=pyc, so=so))}


def of_slowfs() -> dict[str, object]:
    found: dict[str, int] = {**dict.fromkeys(METADATA, 5), "read": 1190}
    return {**count(found), "tool": "slowfs", "per_rank": [], "imports": []}


def write(path: Path, body: Mapping[str, object]) -> Path:
    path.write_text(json.dumps(body, indent=1))
    return path


def all_of(folder: Path) -> list[Path]:
    bodies = {"storm": storm(), "trial": trial(), "count": count(), "slowfs": of_slowfs()}
    return [write(folder / f"{name}.json", body) for name, body in bodies.items()]
