"""What the hook of a traced job reads: when to trace, and where its files go.

The reader's rules stand in `probe/trace_steps.py`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.bench.job.step_events import HOOK
from dlcontainer.config.resources import PROBE
from dlcontainer.system import atomic_files

TRACE = "trace"
# As the program that runs in each process names it.
PLAN = "trace.json"
# What watches a rank's processes, from outside of them.
WATCH = "watch"
WATCH_FILES = (
    "process_watch.py",
    "watch_calls.py",
    "watch_files.py",
    "watch_proc.py",
    "watch_record.py",
)
FILES: Mapping[str, Path] = {
    name: PROBE / name for name in ("trace_steps.py", "trace_profilers.py")
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceSchedule:
    """Which steps are traced: so many behind the warm-up and as many without a profiler."""

    warm_up: int
    steps: int


def write(folder: Path, schedule: TraceSchedule) -> None:
    """Put what the hook reads into a job's folder, beside the hook."""
    (folder / TRACE).mkdir()
    for name, source in FILES.items():
        atomic_files.write(folder / HOOK / name, source.read_text())
    (folder / WATCH).mkdir()
    for name in WATCH_FILES:
        atomic_files.write(folder / WATCH / name, (PROBE / name).read_text())
    plan = {
        "folder": str(folder / TRACE),
        "warm_up": schedule.warm_up,
        "steps": schedule.steps,
    }
    atomic_files.write(folder / HOOK / PLAN, json.dumps(plan) + "\n")
