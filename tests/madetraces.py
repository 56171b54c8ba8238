"""Traces as the processes of a job leave them, made by hand: what happened in them is known."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dlcontainer.bench.trace.process_trace import AFTER, BEFORE, SUFFIX, TRACED

BASE_NS = 1_700_000_000_000_000_000
MS = 1_000_000
# The steps of each block, and how long they are.
STEPS, STEP_MS = 6, 100.0
FLOATS = 1000


@dataclass(frozen=True, kw_only=True)
class MadeRank:
    """A rank: spans in ms since its first traced step, as (name, begin, end[, thread])."""

    spans: Sequence[tuple[Any, ...]] = ()
    ahead_ms: float = 0.0
    boot: str = "one"
    groups: int | None = 1
    end: str | None = "complete"
    operations: bool = True
    lengths_ms: Mapping[int, Sequence[float]] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    kernels: Sequence[str] = ()


def leave(folder: Path, ranks: Sequence[MadeRank | None]) -> Path:
    """Leave what the ranks of a job would; None leaves nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, rank in enumerate(ranks):
        if rank is not None:
            _leave(folder, number, rank, len(ranks))
    return folder


def _leave(folder: Path, number: int, rank: MadeRank, ranks: int) -> None:
    name = f"rank-{number:05d}-n{number}-{number + 1}-7"
    head = {
        "schema": "dlcontainer/trace-process/1",
        "node": f"node of {rank.boot}",
        "boot": rank.boot,
        "pid": number + 1,
        "rank": number,
        "ranks": ranks,
        "torch": "2.13.0",
        "operations": rank.operations,
    }
    lines: list[dict[str, Any]] = [head]
    at_ms, step = rank.ahead_ms - STEPS * STEP_MS, 1
    for block in (BEFORE, TRACED, AFTER):
        for length in rank.lengths_ms.get(block, [STEP_MS] * STEPS):
            at_ms += length
            at = BASE_NS / 1e9 + at_ms / 1e3
            lines.append({"step": step, "block": block, "at": at, "s": length / 1e3})
            step += 1
        if block == TRACED:
            file = f"{name}.kineto.json"
            write_kineto(folder / file, rank)
            lines.append({"file": file, "kind": "kineto", "block": block, "write_s": 0.5})
    if rank.end is not None:
        lines.append({"end": rank.end})
    (folder / f"{name}{SUFFIX}").write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_kineto(path: Path, rank: MadeRank) -> None:
    """Write a rank's Kineto file."""
    head: dict[str, Any] = {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS}
    if rank.groups is not None:
        head["distributedInfo"] = {"pg_count": rank.groups}
    events = [{"ph": "M", "name": "process_name", "ts": 0.0, "pid": 1, "tid": 0, "args": {}}]
    text = json.dumps(head, indent=1)[:-2] + ',\n "traceEvents": [\n'
    events += [_span(rank, *span) for span in rank.spans]
    text += ",\n".join(json.dumps(event, indent=1) for event in events)
    path.write_text(f'{text}\n],\n "traceName": "made"\n}}\n')


def _span(rank: MadeRank, name: str, begin: float, end: float, thread: int = 1) -> dict[str, Any]:
    communicates = name.startswith("gloo:")
    sizes = {"Input type": ["float"], "Input Dims": [[FLOATS]]}
    return {
        "ph": "X",
        "cat": "kernel"
        if name in rank.kernels
        else "user_annotation"
        if communicates
        else "cpu_op",
        "name": name,
        "pid": 1,
        "tid": 99 if communicates and thread == 1 else thread,
        "ts": round(1000 * (begin + rank.ahead_ms), 3),
        "dur": round(1000 * (end - begin), 3),
        "args": {**sizes, **rank.arguments} if communicates else {},
    }
