"""Calls of MPI as a process leaves them, made by hand: what happened in them is known."""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.bench.trace.mpi_calls.call_file import SUFFIX, Content
from tests.madetraces import BASE_NS, MS

KINDS = (
    "MPI_Init", "MPI_Finalize", "MPI_Allreduce", "MPI_Bcast", "MPI_Reduce", "MPI_Send", "MPI_Recv",
    "MPI_Isend", "MPI_Irecv", "MPI_Wait", "MPI_Iallreduce", "MPI_Test", "MPI_Sendrecv",
    "MPI_Allreduce_c",
)  # fmt: skip
_BOOTED_NS = 7_000_000_000
WORLD_HASH = 11


@dataclass(frozen=True, kw_only=True)
class MadeCall:
    """A call, ms since the job's begin; `comm` 0 is the world, 1 one more of all ranks."""

    kind: str
    begin: float
    end: float
    sent: int = 0
    got: int = 0
    peer: int = -1
    tag: int = 0
    comm: int = 0
    turn: int = 0
    what: Content = Content.CALL
    post: int = 0
    polls: int = 0
    thread: int = 1


@dataclass(frozen=True, kw_only=True)
class MadeProcess:
    """A process: its calls behind MPI_Init, which ends at 0 ms, and how it ends."""

    rank: int
    calls: Sequence[MadeCall] = ()
    ranks: int = 2
    begin: float = -1.0
    launch: str = "SLURM=1.0"
    program: str = "sim"
    place: str = ""
    boot: str = "one"
    ahead_ms: float = 0.0
    end: int | None = 0
    sums: Sequence[tuple[str, int, float]] = ()
    left_out: int = 0
    reason: str = ""


def call(kind: str, begin: float, end: float, **more: int) -> MadeCall:
    """Return a call of the world."""
    return MadeCall(kind=f"MPI_{kind}", begin=begin, end=end, **more)  # type: ignore[arg-type]


def leave(folder: Path, *processes: MadeProcess) -> Path:
    """Leave the files of processes."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, process in enumerate(processes):
        (folder / f"n-{number}{SUFFIX}").write_bytes(content(process))
    return folder


def content(process: MadeProcess) -> bytes:
    """Return a process's file."""
    head = {
        "schema": "dlcontainer/mpi-calls/1", "rank": process.rank, "ranks": process.ranks,
        "pid": process.rank + 1, "at_ns": BASE_NS + _ns(process.begin + process.ahead_ms),
        "mono_ns": _BOOTED_NS + _ns(process.begin), "node": f"node of {process.boot}",
        "boot": process.boot, "program": process.program, "library": "Open MPI v5.0.11, made",
        "built": "Open MPI", "launch": process.launch, "place": process.place,
        "reason": process.reason, "kinds": KINDS,
    }  # fmt: skip
    init = MadeCall(kind="MPI_Init", begin=process.begin, end=0.0)
    records = [
        record(
            Content.COMM, sent=WORLD_HASH, got=turn, peer=process.rank, tag=process.ranks, comm=turn
        )
        for turn in range(2)
    ]
    records += [_call(of) for of in (init, *process.calls)]
    records += [
        record(Content.SUM, kind=KINDS.index(kind), begin=calls, end=_ns(length))
        for kind, calls, length in process.sums
    ]
    if process.end is not None:
        last = max([0.0, *(of.end for of in process.calls)])
        end = _BOOTED_NS + _ns(last)
        records.append(record(Content.END, kind=process.end, begin=end, sent=process.left_out))
    return json.dumps(head).encode() + b"\n" + b"".join(records)


def _call(of: MadeCall) -> bytes:
    return record(
        of.what, kind=KINDS.index(of.kind), begin=_BOOTED_NS + _ns(of.begin),
        end=_BOOTED_NS + _ns(of.end), sent=of.sent, got=of.got, peer=of.peer, tag=of.tag,
        comm=of.comm, turn=of.turn, post=of.post, polls=of.polls, thread=of.thread,
    )  # fmt: skip


def _ns(ms: float) -> int:
    return round(ms * MS)


def record(what: Content, **of: int) -> bytes:
    """Return a record; what is not said is 0."""
    names = ("begin", "end", "sent", "got", "peer", "tag", "comm", "turn")
    rest = (of.get("kind", 0), of.get("thread", 1), of.get("post", 0), of.get("polls", 0))
    return struct.pack("<QQQQiiIIHHIII", *(of.get(name, 0) for name in names), what, *rest)
