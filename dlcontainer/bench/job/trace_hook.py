"""What the hook of a traced job reads: when to trace, and where its files go.

The reader's rules stand in `probe/trace_steps.py`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dlcontainer.bench.job.step_events import HOOK
from dlcontainer.config.resources import PROBE
from dlcontainer.system import atomic_files

TRACE = "trace"
# As the program that runs in each process names it.
PLAN = "trace.json"
FILES: Mapping[str, Path] = {
    name: PROBE / name for name in ("forward_steps.py", "trace_steps.py", "trace_profilers.py")
}

# Where a step ends: after an optimizer's, or as the model returns.
StepEnd = Literal["optimizer", "forward"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceSchedule:
    """Which steps are traced: so many behind the warm-up and as many without a profiler."""

    warm_up: int
    steps: int
    step_at: StepEnd = "optimizer"


def write(folder: Path, schedule: TraceSchedule) -> None:
    """Put what the hook reads into a job's folder, beside the hook."""
    (folder / TRACE).mkdir()
    for name, source in FILES.items():
        atomic_files.write(folder / HOOK / name, source.read_text())
    plan = {
        "folder": str(folder / TRACE),
        "step_at": schedule.step_at,
        "warm_up": schedule.warm_up,
        "steps": schedule.steps,
    }
    atomic_files.write(folder / HOOK / PLAN, json.dumps(plan) + "\n")
