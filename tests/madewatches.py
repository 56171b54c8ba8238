"""What the watch of a rank leaves, made by hand: where its first thread was, and when."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.madetraces import BASE_NS

DEVICE = "0:77"
# Ms since the watch began, KiB, processor time in ms (user, system), bytes.
FIGURES = [
    [0, 1024, 50, 10, None],
    [500, 2048, 500, 100, [1_000_000, 10, 0, 0]],
    [1000, 1536, 900, 200, [2_000_000, 10, 4096, 0]],
]
# (begin, end, looks, doing, device), ms since the first traced step.
Runs = Sequence[tuple[int, int, int, str, str | None]]


def process(pid: int, **changes: Any) -> dict[str, Any]:
    """Return a process's entry."""
    return {
        "pid": pid, "inner_pid": pid, "begun": 5, "parent": 1, "name": "python", "many": 1,
        "first_s": 0.0, "last_s": 2.0, "user_s": 1.25, "system_s": 0.25, "children_s": 0.0,
        "queued_s": None,
        "peak_kib": 2048, "bytes": [3_000_000, 10, 4096, 0], "threads": 2, "seconds": 2.0,
        "main": [["asleep", None, 30], ["read", DEVICE, 10]], "others": {"futex": 40},
        "calls_closed": False, **changes,
    }  # fmt: skip


def leave(folder: Path, rank: int, runs: Runs, **changes: Any) -> Path:
    """Leave a rank's watch in a folder of traces; its process has the pid of `madetraces`."""
    folder.mkdir(parents=True, exist_ok=True)
    body = {
        "schema": "dlcontainer/watch/1", "node": "node", "boot": "one", "rank": rank,
        "command": rank + 1, "began": BASE_NS / 1e9, "seconds": 2.0, "looks": 40,
        "own_cpu_s": 0.02, "is_over": True, "is_adopting": True, "calls_told": True,
        "runs_left_out": 0, "figures_left_out": 0, "processes": [process(rank + 1)],
        "file_systems": [
            {
                "device": DEVICE, "point": "/data", "within": [], "type": "slowfs",
                "source": "server", "read_bytes": 2_000_000, "written_bytes": 0,
                "waits": {"read": [10, 0.5, 0.75]},
            },
        ],
        "notes": [], **changes,
    }  # fmt: skip
    path = folder / f"watch-{rank}-n-{rank + 1}"
    path.with_suffix(".watch").write_text(json.dumps(body) + "\n")
    path.with_suffix(".runs").write_text(json.dumps([rank + 1, 5, runs]) + "\n")
    path.with_suffix(".figures").write_text(json.dumps([rank + 1, 5, FIGURES]) + "\n")
    return folder
