"""What reached the file system: counts by operation, by client and by file."""

import json
import os
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

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


@dataclass(slots=True)
class Counters:
    """Counts since the mount; many threads add to them."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _operations: Counter[str] = field(default_factory=Counter)
    _clients: Counter[tuple[int, str]] = field(default_factory=Counter)
    _opened: set[bytes] = field(default_factory=set)
    _read: int = 0

    def add(self, operation: Operation, client: int, path: bytes, size: int = 0) -> None:
        """Count one operation of a client's on a path; `size` in bytes."""
        kind = "read" if operation == "read" else "metadata"
        with self._lock:
            self._operations[operation] += 1
            self._clients[client, kind] += 1
            self._read += size
            if operation == "open":
                self._opened.add(path)

    def snapshot(self) -> dict[str, object]:
        """Give the counts as plain data."""
        with self._lock:
            operations = {name: self._operations[name] for name in (*METADATA, "read")}
            clients = dict(self._clients)
            opened, size = sorted(self._opened), self._read
        suffixes = Counter(os.path.splitext(os.fsdecode(path))[1] or "none" for path in opened)
        return {
            "operations": operations,
            "metadata": sum(operations[name] for name in METADATA),
            "reads": operations["read"],
            "bytes": size,
            "unique_files": len(opened),
            "suffixes": dict(sorted(suffixes.items())),
            # The kernel names threads: a rank that imports in one thread is one client.
            "clients": {
                str(client): {
                    kind: clients.get((client, kind), 0) for kind in ("metadata", "read")
                }
                for client in sorted({client for client, _ in clients})
            },
        }


def write(path: Path, counts: Mapping[str, object], setting: Mapping[str, object]) -> None:
    """Write counts beside what they were counted with; the file appears whole."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    body = {"schema": SCHEMA, "setting": dict(setting), **counts}
    aside.write_text(json.dumps(body, indent=1) + "\n")
    aside.replace(path)
