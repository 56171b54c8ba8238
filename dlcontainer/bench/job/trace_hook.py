"""What the hooks of a traced job read: when to trace, and where its files go.

The reader's rules stand in `probe/trace_steps.py` for PyTorch, and in `mpi_calls.c` for MPI.
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
# What watches a rank's processes, from outside of them.
WATCH = "watch"
WATCH_FILES = (
    "process_watch.py",
    "watch_calls.py",
    "watch_files.py",
    "watch_proc.py",
    "watch_record.py",
)
# Where the library that takes down calls of MPI is built, and what for.
MPI, MPI_SCRIPT = "mpi", "mpi_preload.sh"
_MPI_SOURCE = "mpi_calls.c"
_OF_PYTORCH = (
    "accelerator.py",
    "accelerator_kinds.py",
    "forward_steps.py",
    "step_marks.py",
    "trace_profilers.py",
    "trace_steps.py",
)
FILES: Mapping[str, Path] = {
    **{name: PROBE / name for name in _OF_PYTORCH},
    **{name: Path(__file__).with_name(name) for name in (MPI_SCRIPT, _MPI_SOURCE)},
}
# A line of the shell, which knows the job's folder as $3: the ranks' own compiler makes the library
# that their command is started with, and that the engine, which stands before, is not.
PRELOAD = (
    f"if [ -e $3/{HOOK}/{MPI_SCRIPT} ]; then "
    f"dlc_mpi=$(/bin/sh $3/{HOOK}/{MPI_SCRIPT} $3/{HOOK}/{_MPI_SOURCE} $3/{MPI}); "
    'if [ -n "$dlc_mpi" ]; then '
    f"DLCONTAINER_MPI_TRACE=$3/{TRACE}; LD_PRELOAD=$dlc_mpi${{LD_PRELOAD:+:$LD_PRELOAD}}; "
    "export DLCONTAINER_MPI_TRACE LD_PRELOAD; fi; unset dlc_mpi; fi; "
).replace("$3/", '"$3"/')

# Where a step ends: after an optimizer's, or as the model returns.
StepEnd = Literal["optimizer", "forward"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceSchedule:
    """Which steps are traced: so many behind the warm-up and as many without a profiler.

    `operations`: with PyTorch's operations; else collectives and a device's kernels alone.
    """

    warm_up: int
    steps: int
    step_at: StepEnd = "optimizer"
    operations: bool = True


def write(folder: Path, schedule: TraceSchedule) -> None:
    """Put what the hook reads into a job's folder, beside the hook."""
    (folder / TRACE).mkdir()
    (folder / MPI).mkdir()
    for name, source in FILES.items():
        atomic_files.write(folder / HOOK / name, source.read_text())
    (folder / WATCH).mkdir()
    for name in WATCH_FILES:
        atomic_files.write(folder / WATCH / name, (PROBE / name).read_text())
    plan = {
        "folder": str(folder / TRACE),
        "step_at": schedule.step_at,
        "operations": schedule.operations,
        "warm_up": schedule.warm_up,
        "steps": schedule.steps,
    }
    atomic_files.write(folder / HOOK / PLAN, json.dumps(plan) + "\n")
