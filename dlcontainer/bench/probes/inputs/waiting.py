"""What the steps of a training waited for their samples: a table for the report."""

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlcontainer.bench.probes.inputs import training
from dlcontainer.bench.samples.traits import ProbeTable

if TYPE_CHECKING:
    from dlcontainer.bench.samples.records import Sample, SessionDeclaration
    from dlcontainer.bench.samples.series import Series
    from dlcontainer.bench.samples.vocabulary import ArmName

# A figure of each process: what a timed step waited, on the average, s.
WAITED = "input_s_per_step"
_HEAD = (
    *("arm", "format", "shuffle", "batch", "step, ms", "input, ms", "compute, ms"),
    *("waiting for input, %", "samples/s", "MB/s"),
)
_NOTE = (
    "Input is the reading of a batch's samples from their files and their decoding, in the "
    "training process and within its step; compute is the rest of the step. On a GPU, what is "
    "only put into its queue is in neither's time alone. Every sample was held against its sum "
    "before the first step: where memory holds them all, they come from the page cache. Of ranks "
    "the slowest counts; samples/s and MB/s are those of all ranks together: more is better, all "
    "others: less. MB/s counts the samples' own bytes."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Step:
    """A step of one launch, or of one arm's part of a group: seconds, and those of input."""

    seconds: float
    waited: float


def section(series: "Series") -> ProbeTable | None:
    """Make the table; None where noise was trained on."""
    declared = series.session.declared
    if not declared.workload.get(training.INPUT.name):
        return None
    rows = tuple(line for arm in declared.arms for line in _line(series, arm))
    if not rows:
        return None
    return ProbeTable(title="Waiting for input", head=_HEAD, rows=rows, note=_NOTE)


def _line(series: "Series", arm: "ArmName") -> Iterator[tuple[str, ...]]:
    declared = series.session.declared
    attested = next((stack.facts for stack in series.stacks if stack.arm == arm), {}).get(
        "workload"
    )
    facts: Mapping[str, object] = attested if isinstance(attested, Mapping) else {}
    used = [
        sample
        for sample in series.samples
        if sample.arm == arm and sample.role in {"pair", "triple"}
    ]
    steps = [step for sample in used if (step := _step(sample, declared))]
    if not steps:
        return
    seconds = statistics.fmean(step.seconds for step in steps)
    waited = statistics.fmean(step.waited for step in steps)
    batch, ranks = _number(facts.get("batch")), _number(facts.get("ranks")) or 1.0
    rate = (batch or 0.0) * ranks / seconds
    size = _number(declared.workload.get("sample_bytes")) or 0.0
    yield (
        arm, str(declared.workload.get(training.INPUT.name)),
        str(declared.workload.get(training.SHUFFLE.name)), f"{batch or 0:.0f}",
        f"{1000 * seconds:.3f}", f"{1000 * waited:.3f}", f"{1000 * (seconds - waited):.3f}",
        f"{100 * waited / seconds:.1f}", f"{rate:.4g}" if rate else "-",
        f"{rate * size / 1e6:.3g}" if rate and size else "-",
    )  # fmt: skip


def _step(sample: "Sample", declared: "SessionDeclaration") -> _Step | None:
    if sample.residents:
        walls = [resident.wall_s for resident in sample.residents]
        counts = [
            sum(len(turn.steps_s) for turn in resident.turns) for resident in sample.residents
        ]
        waits = [_number(resident.values.get(WAITED)) for resident in sample.residents]
        if not sum(counts) or None in waits:
            return None
        # Each process's mean, by how many steps it had.
        waited = sum((wait or 0.0) * n for wait, n in zip(waits, counts, strict=True))
        return _Step(seconds=sum(walls) / sum(counts), waited=waited / sum(counts))
    wall, waited_s = sample.figure("wall_s"), sample.figure(WAITED)
    if not wall or waited_s is None or not declared.steps:
        return None
    return _Step(seconds=wall / declared.steps, waited=waited_s)


def _number(value: object) -> float | None:
    """Return a number above 0; files come from anybody."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < math.inf else None
