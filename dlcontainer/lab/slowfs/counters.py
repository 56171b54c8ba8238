"""What reached the file system: counts by operation, by client and by file."""

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dlcontainer.system import atomic_files

SCHEMA = "dlcontainer/slowfs/1"

Operation = Literal[
    "getattr", "lookup", "failed_lookup", "open", "opendir", "readdir", "readlink", "statfs", "read"
]
METADATA: tuple[Operation, ...] = (
    "getattr",
    "lookup",
    "failed_lookup",
    "open",
    "opendir",
    "readdir",
    "readlink",
    "statfs",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CounterSnapshot:
    """Counts at one moment; `files` are those that were opened, in order of first open.

    `read_turns` are the reads as if they had come one after the other: those that were under way
    together, as what is read ahead is, count once.
    """

    operations: dict[str, int]
    bytes: int
    files: tuple[str, ...]
    read_turns: float = 0.0

    @property
    def metadata(self) -> int:
        """All operations but reads."""
        return sum(self.operations[name] for name in METADATA)

    @property
    def reads(self) -> int:
        """Reads, as the client's kernel cut them."""
        return self.operations["read"]


@dataclass(slots=True)
class Counters:
    """Counts since the mount; many threads add to them."""

    # A signal may ask for the counts while this very thread gives them.
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _operations: Counter[str] = field(default_factory=Counter)
    _clients: Counter[tuple[int, str]] = field(default_factory=Counter)
    _opened: dict[bytes, None] = field(default_factory=dict)
    _read: int = 0
    # Reads under way, since when there is one, seconds with at least one, and those of each added.
    _under_way: int = 0
    _since: float = 0.0
    _any_s: float = 0.0
    _each_s: float = 0.0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Note that a read is under way."""
        began = time.monotonic()
        with self._lock:
            if not self._under_way:
                self._since = began
            self._under_way += 1
        try:
            yield
        finally:
            ended = time.monotonic()
            with self._lock:
                self._under_way -= 1
                self._each_s += ended - began
                if not self._under_way:
                    self._any_s += ended - self._since

    def add(self, operation: Operation, client: int, path: bytes, size: int = 0) -> None:
        """Count one operation of a client's on a path; `size` in bytes."""
        kind = "read" if operation == "read" else "metadata"
        with self._lock:
            self._operations[operation] += 1
            self._clients[client, kind] += 1
            self._read += size
            if operation == "open":
                self._opened.setdefault(path)

    def counted(self) -> CounterSnapshot:
        """Return the counts so far."""
        with self._lock:
            return CounterSnapshot(
                operations={name: self._operations[name] for name in (*METADATA, "read")},
                bytes=self._read,
                files=tuple(os.fsdecode(path).removeprefix("./") for path in self._opened),
                # In units of a read as long as it took here: a busy machine answers later still.
                read_turns=self._any_s / self._each_s * self._operations["read"]
                if self._each_s
                else 0.0,
            )

    def snapshot(self) -> dict[str, object]:
        """Return the counts as plain data."""
        with self._lock:
            snapshot, clients = self.counted(), dict(self._clients)
        suffixes = Counter(Path(path).suffix or "none" for path in snapshot.files)
        return {
            "operations": snapshot.operations,
            "metadata": snapshot.metadata,
            "reads": snapshot.reads,
            "bytes": snapshot.bytes,
            "unique_files": len(snapshot.files),
            "suffixes": dict(sorted(suffixes.items())),
            # The kernel names threads: a rank that imports in one thread is one client.
            "clients": {
                str(client): {kind: clients.get((client, kind), 0) for kind in ("metadata", "read")}
                for client in sorted({client for client, _ in clients})
            },
        }


def write(path: Path, counts: Mapping[str, object], setting: Mapping[str, object]) -> None:
    """Write counts beside what they were counted with; the file appears whole."""
    body = {"schema": SCHEMA, "setting": dict(setting), **counts}
    atomic_files.write(path, json.dumps(body, indent=1) + "\n")
