"""The file of calls that a process of MPI leaves; the writer's rules stand in `job/mpi_calls.c`."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dlcontainer.errors import BenchDataError
from dlcontainer.system import foreign_files

SUFFIX = ".mpi"
_RECORD = struct.Struct("<QQQQiiIIHHIII")
_MOST_BYTES = 160 * 2**20
_MOST_NS = 2**62
_Text = Annotated[str, Field(max_length=400)]


class Content(IntEnum):
    """What a record holds."""

    CALL = 0
    COMM = 1
    RECEIVED = 2
    SENT = 3
    COLLECTED = 4
    SUM = 5
    END = 6
    POSTED = 7


class CallsHead(BaseModel):
    """The first line: which process this is, and its clocks; `reason`: why it has no calls."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    form: Literal["dlcontainer/mpi-calls/1"] = Field(alias="schema")
    rank: Annotated[int, Field(ge=-1, lt=2**31)]
    ranks: Annotated[int, Field(ge=0, lt=2**31)]
    pid: int
    at_ns: Annotated[int, Field(ge=0, lt=_MOST_NS)]
    mono_ns: Annotated[int, Field(ge=0, lt=_MOST_NS)]
    node: _Text
    boot: _Text
    program: _Text
    library: _Text
    built: _Text
    launch: _Text
    place: _Text
    reason: _Text
    kinds: Annotated[tuple[_Text, ...], Field(min_length=1, max_length=500)]


class CallRecord(NamedTuple):
    """A call, or what one completed: ns since the epoch by the node's clock; bytes out and in.

    `peer` is a rank of the world, or the root; `post` numbers sends and receives as they were
    posted, `turn` the collectives of a communicator.
    """

    begin: int
    end: int
    sent: int
    got: int
    peer: int
    tag: int
    comm: int
    turn: int
    what: int
    kind: int
    thread: int
    post: int
    polls: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CallGroup:
    """A communicator: its members' hash and which of such groups; this process's rank in it."""

    members: int
    ordinal: int
    rank: int
    size: int
    is_inter: bool

    @property
    def key(self) -> tuple[int, int]:
        """What is equal at all members."""
        return self.members, self.ordinal


@dataclass(frozen=True, kw_only=True, slots=True)
class CallSum:
    """All calls of a kind, also of those without a record."""

    calls: int = 0
    ns: int = 0
    sent: int = 0
    got: int = 0


@dataclass(kw_only=True, slots=True)
class MpiProcess:
    """One process of MPI; `end` is None where it was killed, or its disk was full."""

    path: Path
    head: CallsHead
    records: list[CallRecord] = field(default_factory=list)
    groups: dict[int, CallGroup] = field(default_factory=dict)
    sums: dict[str, CallSum] = field(default_factory=dict)
    end: Literal["finalize", "exit", "abort"] | None = None
    ended_ns: int | None = None
    left_out: int = 0
    # By how much its clock was moved, and within what it is right; None: not known.
    moved_ns: int = 0
    bound_ns: int | None = 0

    def calls(self) -> Iterator[CallRecord]:
        """Yield the calls themselves, without what they completed."""
        return (record for record in self.records if record.what == Content.CALL)

    def kind(self, record: CallRecord) -> str:
        """Return the name of a record's call, of its sister with wider counts the same."""
        return self.head.kinds[record.kind].removesuffix("_c")

    def group(self, record: CallRecord) -> CallGroup | None:
        """Return a record's communicator."""
        return self.groups.get(record.comm)


_ENDS: Sequence[Literal["finalize", "exit", "abort"]] = ("finalize", "exit", "abort")


def read(folder: Path) -> tuple[list[MpiProcess], int]:
    """Read what a job's processes left, and count those whose first line did not fit on a disk.

    Raises BenchDataError for a file that is damaged.
    """
    processes = [_read(path) for path in sorted(folder.glob(f"*{SUFFIX}"))]
    whole = [process for process in processes if process is not None]
    return whole, len(processes) - len(whole)


def _read(path: Path) -> MpiProcess | None:
    try:
        line, end, body = foreign_files.read(path, _MOST_BYTES).partition(b"\n")
        if not end:
            return None
        process = MpiProcess(path=path, head=CallsHead.model_validate(foreign_files.loads(line)))
        # Behind the last record stands nothing, or one that was cut.
        for fields in _RECORD.iter_unpack(body[: len(body) // _RECORD.size * _RECORD.size]):
            _take(process, CallRecord(*fields))
    except (OSError, ValueError, ValidationError) as error:
        raise BenchDataError(
            "the calls of a process of MPI can't be read", where=str(path), why=str(error)[:300]
        ) from None
    process.records.sort(key=lambda record: record.begin)
    return process


def _take(process: MpiProcess, record: CallRecord) -> None:
    """Put a record where it belongs; raises ValueError for one that can't be."""
    epoch = process.head.at_ns - process.head.mono_ns
    match Content(record.what):
        case Content.COMM:
            process.groups[record.comm] = CallGroup(
                members=record.sent,
                ordinal=record.got,
                rank=record.peer,
                size=record.tag,
                is_inter=bool(record.post),
            )
        case Content.SUM:
            _of(record.kind, process.head.kinds)
            before = process.sums.get(process.kind(record), CallSum())
            process.sums[process.kind(record)] = CallSum(
                calls=before.calls + record.begin,
                ns=before.ns + record.end,
                sent=before.sent + record.sent,
                got=before.got + record.got,
            )
        case Content.END:
            process.end = _ENDS[_of(record.kind, _ENDS)]
            process.ended_ns, process.left_out = record.begin + epoch, record.sent
        case _:
            _of(record.kind, process.head.kinds)
            if not record.begin <= record.end < _MOST_NS:
                raise ValueError("a call ends before it begins")
            process.records.append(
                record._replace(begin=record.begin + epoch, end=record.end + epoch)
            )


def _of(number: int, names: Sequence[str]) -> int:
    if number >= len(names):
        raise ValueError(f"there is no kind {number}")
    return number


def move(process: MpiProcess, by: int, bound: int | None) -> None:
    """Put a process's times on another clock, which is right within a bound, ns."""
    process.moved_ns, process.bound_ns = by, bound
    if by:
        process.records = [
            record._replace(begin=record.begin + by, end=record.end + by)
            for record in process.records
        ]
        process.ended_ns = None if process.ended_ns is None else process.ended_ns + by


def total(sums: Mapping[str, CallSum], process: MpiProcess) -> int:
    """Return how often a process called MPI."""
    if sums:
        return sum(of.calls for of in sums.values())
    return sum(max(1, record.polls) for record in process.calls())
