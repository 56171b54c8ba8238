"""Synthetic sessions of `bench kernels`: rows at planted rates, and what each side attests."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlcontainer.bench.probes import kernel_shapes
from dlcontainer.bench.probes.kernels import fact
from dlcontainer.bench.samples.records import AttestedStack, Json, Sample
from dlcontainer.bench.samples.rows import agreement
from dlcontainer.bench.samples.rows.row_records import RowPlan, SampleRow
from dlcontainer.bench.samples.traits import ROWS_METRIC
from dlcontainer.bench.samples.writer import Writer
from tests import benchseries, rowseries

GIGAFLOPS, GIGABYTES = 50.0, 10.0


def _row(kernel: str, precision: str, shape: str, layer: str = "x") -> Mapping[str, str | int]:
    return {
        "kernel": kernel,
        "precision": precision,
        "layer": layer,
        "shape": shape,
        "threads": 2,
    }


CONV = "g1mb1ic64ih28oc64oh28kh3sh1dh0ph1"
PLAN = RowPlan(
    rows=(
        _row("gemm", "fp32", "m512n512k512"),
        _row("gemm", "fp32", "m1024n1024k1024"),
        _row("gemm", "int8", "m512n512k512"),
        _row("conv_forward", "fp32", CONV, "ResNet-50 conv3_x"),
        _row("conv_data", "bf16", CONV),
        _row("reduction", "fp32", "m512n768"),
        _row("copy", "fp32", "n33554432"),
        _row("triad", "fp32", "n33554432"),
    ),
    rounds=3,
)


@dataclass(frozen=True, kw_only=True)
class Plant:
    """What to plant: the container's ratio, another library on its side, the rows."""

    ratio: float = 1.0
    other: Mapping[str, str] = field(default_factory=dict)
    left_out: str = ""
    plan: RowPlan = PLAN
    probe: str = "kernels"


def truth(row: Mapping[str, str | int]) -> float:
    """Give a row's native time: that of its operations or of its bytes, whichever is longer."""
    operations = (kernel_shapes.operations(row) or 0) / GIGAFLOPS / 1e9
    time = max(operations, (kernel_shapes.least_bytes(row) or 0) / GIGABYTES / 1e9, 1e-6)
    if "library" not in row:
        return time
    # Twice the threads take half the time; oneDNN is quicker by a quarter.
    return time / int(row["threads"]) * (1.25 if row["library"] == "without oneDNN" else 1.0)


def write(path: Path, plant: Plant) -> Path:
    """Write a session of eight pairs."""
    base = rowseries.session(rowseries.Plant())
    declared = replace(
        base.declared,
        probe=plant.probe,
        rows=plant.plan,
        workload={"kernels": "gemm", "left_out": plant.left_out},
    )
    said: dict[str, Json] = {fact(r): f"oneDNN {r.get('kernel')}" for r in plant.plan.rows}
    native: dict[str, Json] = {"kernel_libraries": said}
    inside: dict[str, Json] = {"kernel_libraries": {**said, **plant.other}}
    with Writer(path, replace(base, declared=declared)) as out:
        out.stack(AttestedStack(arm="native", facts={**benchseries.FACTS, **native}))
        out.stack(AttestedStack(arm="container", facts={**benchseries.INSIDE, **inside}))
        for sample in rowseries.draw(rowseries.Plant()):
            out.sample(_changed(sample, plant))
        out.end(complete=True)
    return path


def _changed(sample: Sample, plant: Plant) -> Sample:
    factor = plant.ratio if sample.arm == "container" else 1.0
    rows = tuple(
        SampleRow(
            parameters=row,
            n=30,
            best=0.9 * factor * truth(row),
            median=factor * truth(row),
            cpu_s=1.0,
            steal_s=0.0,
            checked=1,
        )
        for row in plant.plan.rows
    )
    # Long enough for its rows, and over before the next one starts.
    values = {**sample.values, ROWS_METRIC: agreement.mean(rows), "elapsed_s": 28.0}
    return replace(sample, rows=rows, values=values, wall_s=20.0 + sample.wall_s)
