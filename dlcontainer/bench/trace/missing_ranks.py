"""Ranks without a profile, and traces without any: why. Pure."""

from collections.abc import Mapping, Sequence

from dlcontainer.bench.trace.process_trace import ProcessTrace, StepEnd
from dlcontainer.bench.trace.trace_records import MissingRank, NoTrace


def missing(
    by_rank: Mapping[int, ProcessTrace], traced: set[int], ranks: int
) -> tuple[MissingRank, ...]:
    """Return the ranks of a job that left no profile, with what is known of each."""
    sizes = [process.head.ranks or 1 for process in by_rank.values()]
    return tuple(
        MissingRank(rank=number, why=_why(by_rank.get(number)))
        for number in range(max([ranks, *sizes, *(number + 1 for number in by_rank)]))
        if number not in traced
    )


def _why(process: ProcessTrace | None) -> str:
    if process is None:
        return "it left nothing: no step of PyTorch ended in it, or it was killed before"
    step = process.steps[-1].step if process.steps else 0
    if process.end is None:
        return f"killed: its last block that was written ended with step {step}"
    return f"its trace ended in step {step}: {process.end}"


def nothing(
    by_rank: Mapping[int, ProcessTrace],
    missing: Sequence[MissingRank],
    step_at: StepEnd,
    reasons: Sequence[str],
) -> NoTrace:
    """Say why there are neither steps nor calls; `reasons` are those for no calls of MPI."""
    if not by_rank and step_at == "forward":
        return NoTrace(
            what="no model of PyTorch returned twice in any process, and none called MPI",
            why="the hook sees torch.nn.Module of PyTorch 2.3 and later, in a Python that reads "
            "PYTHONPATH: not python -I, -E or -S, and not behind model.compile()",
            next_step="trace a command that calls one model at least twice",
        )
    if not by_rank:
        of_mpi = "; ".join(reasons) or "calls of MPI are seen where they pass a shared library"
        return NoTrace(
            what="no optimizer of PyTorch stepped in any process, and none called MPI",
            why="the hook sees optimizers of PyTorch 2.0 and later, in a Python that reads "
            f"PYTHONPATH: not python -I, -E or -S, and not inside torch.compile; {of_mpi}",
            next_step="for inference, or updates of your own: --step-at forward",
        )
    return NoTrace(
        what="no rank left a profile",
        why="; ".join(f"rank {rank.rank}: {rank.why}" for rank in missing[:4]),
        next_step="let the program do more steps, or trace fewer: --steps",
    )
