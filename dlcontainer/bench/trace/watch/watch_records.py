"""What the watch of a job's processes says, as `trace.json` holds it. Seconds, bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

_OURS = ConfigDict(extra="forbid", allow_inf_nan=False)
_Seconds = Annotated[float, Field(ge=0)]
_Count = Annotated[int, Field(ge=0)]
# What a thread was seen at. `computing` is in an operation of PyTorch, by its profile.
Doing = Literal[
    "computing", "running", "asleep", "poll", "futex", "child", "pipe", "socket", "read", "write",
    "sync", "path", "fault", "blocked", "waiting",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeEstimate:
    """A time by looks, with 95 % bounds: so many of all had it. `of` 0: it was measured."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    seconds: _Seconds
    low_s: _Seconds
    high_s: _Seconds
    looks: _Count = 0
    of: _Count = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class DoingLooks:
    """At so many looks a thread did this, to files of a file system where that is told.

    With a wait for others it is the file system that another thread or a child read meanwhile.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    doing: Doing
    file_system: str | None
    looks: _Count


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessRow:
    """A process below a rank's clock, or `many` short ones of a name.

    `children_s` is the processor time of children that it waited for; their bytes are in its own.
    For `queued_s` its first thread was ready, and had no processor.
    `read_bytes` are those of calls, `device_read_bytes` came from a device or a server.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    rank: _Count
    node: str
    pid: _Count
    name: str
    many: Annotated[int, Field(ge=1)]
    first_s: _Seconds
    last_s: _Seconds
    user_s: _Seconds
    system_s: _Seconds
    children_s: _Seconds
    queued_s: _Seconds | None
    peak_bytes: _Count | None
    read_bytes: _Count | None
    written_bytes: _Count | None
    device_read_bytes: _Count | None
    device_written_bytes: _Count | None
    threads: _Count
    seconds: _Seconds
    doing: tuple[DoingLooks, ...]
    others: Mapping[Doing, _Count]


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSystemRow:
    """A file system that a rank's processes read, wrote or waited for.

    Its name is the node's mount point; `within` has some points of other views, as containers'.
    Bytes by positions of open files: lower bounds. `waits`: while at least one thread was in such a
    call; `thread_s`: the same, of all threads together.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    rank: _Count
    node: str
    name: str
    source: str
    within: tuple[str, ...]
    read_bytes: _Count
    written_bytes: _Count
    waits: Mapping[Doing, TimeEstimate]
    thread_s: _Seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class RankDoing:
    """What a rank's first thread did in its traced steps beside communication.

    Of `time`, others waited for it for `waited_s`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    rank: _Count
    doing: Doing
    file_system: str | None
    time: TimeEstimate
    waited_s: _Seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitCause:
    """While a rank waited for another one in a collective, what that one did."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    rank: _Count
    of: _Count
    doing: Doing
    file_system: str | None
    time: TimeEstimate


@dataclass(frozen=True, kw_only=True, slots=True)
class JobWatch:
    """All that was watched; `looks` by each of the ranks' clocks, and what that cost."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    seconds: _Seconds
    looks: _Count
    own_cpu_s: _Seconds
    processes: tuple[ProcessRow, ...] = ()
    file_systems: tuple[FileSystemRow, ...] = ()
    doings: tuple[RankDoing, ...] = ()
    causes: tuple[WaitCause, ...] = ()
    notes: tuple[str, ...] = ()
