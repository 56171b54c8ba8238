"""Traces for forecasts, written by hand: what two ranks sent, and what of it was exposed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from dlcontainer.bench.trace import trace_records
from dlcontainer.bench.trace.trace_records import (
    CollectiveRow,
    JobTrace,
    MissingRank,
    RankRow,
    SideName,
    SideTrace,
    SlowestStep,
    TraceOverhead,
)

STEPS = 10
MB = 1_000_000
CHEAP = TraceOverhead(ratio=1.01, low=1.0, high=1.02, steps=9)
DEAR = TraceOverhead(ratio=1.2, low=1.1, high=1.3, steps=9)
# Calls of all steps; seconds are none's business here.
REDUCED: Mapping[tuple[str, int | None], int] = {("all_reduce", 20 * MB): 4 * STEPS}
SCATTERED: Mapping[tuple[str, int | None], int] = {
    ("_reduce_scatter_base", 10 * MB): 5 * STEPS,
    ("_allgather_base", 5 * MB): 10 * STEPS,
    ("all_reduce", 4): STEPS,
}


def side(
    name: SideName = "container",
    sent: Mapping[tuple[str, int | None], int] = REDUCED,
    ranks: int = 2,
    exposed: float = 0.2,
    waiting: float = 0.0,
    image_sha256: str | None = None,
) -> SideTrace:
    """Give a side: a step of a rank computes for 0.9 s, and sends for 0.4 s, exposed in part."""
    rows = [
        CollectiveRow(
            kind=kind, bytes=size, calls=calls, in_flight_s=1, hidden_s=0.5, exposed_s=0.5,
            waiting_s=0,
        )
        for (kind, size), calls in sent.items()
    ]  # fmt: skip
    return SideTrace(
        side=name,
        image_sha256=image_sha256,
        ended="ended",
        overhead=CHEAP,
        steps=STEPS,
        ranks=tuple(_rank(number, ranks, exposed, waiting) for number in range(ranks)),
        missing=(),
        collectives=tuple(rows),
        clocks=(),
        slowest=SlowestStep(step=7, seconds=1.1, path=(), bars={}),
    )


def _rank(number: int, ranks: int, exposed: float, waiting: float) -> RankRow:
    step = 0.9 + exposed + waiting
    return RankRow(
        rank=number, node="n1", total_s=step * STEPS, computing_s=0.9 * STEPS,
        waiting_for={(number + 1) % ranks: waiting * STEPS} if waiting else {},
        exposed_s=exposed * STEPS, other_s=0, hidden_s=(0.4 - exposed) * STEPS, spans=1,
        collectives=1,
    )  # fmt: skip


def killed(traced: SideTrace) -> SideTrace:
    """Give a side whose last rank left nothing."""
    *kept, last = traced.ranks
    missing = MissingRank(rank=last.rank, why="killed")
    return replace(traced, ranks=tuple(kept), missing=(missing,))


def write(folder: Path, *sides: SideTrace, site: str = "local", name: str = "trace.json") -> Path:
    """Write a trace, by this name."""
    trace = JobTrace(
        created="2026-11-27T20:00:00Z", dlcontainer="0.14.0", site=site, image="p.sif",
        command=("python", "train.py"), sides=tuple(sides or [side()]),
    )  # fmt: skip
    (folder / name).write_text(json.dumps({"schema": trace_records.SCHEMA, **asdict(trace)}))
    return folder / name


def kinds(rows: Sequence[str]) -> Mapping[tuple[str, int | None], int]:
    """Give a message of each kind a step, 1 MB each."""
    return {(kind, MB): STEPS for kind in rows}
