"""Samples, operations and memory of a published network's steps, and the share of the peak."""

import math
import statistics
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dlcontainer.bench.probes.networks import choices
from dlcontainer.bench.probes.networks.published import NETWORKS, PASSES, PublishedNetwork
from dlcontainer.bench.samples.traits import ProbeTable

if TYPE_CHECKING:
    from dlcontainer.bench.samples.records import Sample
    from dlcontainer.bench.samples.series import Series
    from dlcontainer.bench.samples.vocabulary import ArmName


def section(series: "Series") -> ProbeTable | None:
    """Make the table of a published network; None of the small one, which has no counts."""
    declared = series.session.declared
    network = NETWORKS.get(str(declared.workload.get(choices.WORKLOAD.name)))
    if network is None:
        return None
    rows = tuple(line for arm in declared.arms for line in _line(series, arm, network))
    if not rows:
        return None
    return ProbeTable(
        title=f"{network.title}: operations and memory",
        head=(
            "arm", "batch", "parameters", "multiply-adds of a sample", "samples/s", "GFLOP/s",
            "MFU, %", "largest memory, MB", "GPU memory, MB",
        ),
        rows=rows,
        note=_note(series, network),
    )  # fmt: skip


def _note(series: "Series", network: PublishedNetwork) -> str:
    workload = series.session.declared.workload
    peak, threads = _number(workload.get(choices.PEAK)), workload.get("threads")
    words = (
        "Counted in each process before its first step, and held against "
        f"{network.source}. A sample's training counts {2 * PASSES} operations for each "
        "multiply-add of its forward pass. samples/s, GFLOP/s, MFU: more is better; memory: less."
    )
    if peak:
        of = workload.get(choices.PEAK_OF)
        return (
            f"{words} MFU is of {peak:.4g} TFLOP/s for each process ({of}); these steps ran with "
            f"{threads} threads."
        )
    return f"{words} MFU takes a peak, which this session was not given: --peak."


def _line(series: "Series", arm: "ArmName", network: PublishedNetwork) -> Iterator[tuple[str, ...]]:
    attested = next((stack.facts for stack in series.stacks if stack.arm == arm), {}).get(
        "workload"
    )
    facts: Mapping[str, object] = attested if isinstance(attested, Mapping) else {}
    used = [
        sample
        for sample in series.samples
        if sample.arm == arm and sample.role in {"pair", "triple"}
    ]
    batch, adds = _number(facts.get("batch")), _number(facts.get("multiply_adds"))
    rates = [rate for sample in used if (rate := _samples_per_s(sample, batch))]
    if not rates or not batch or not adds:
        return
    rate = statistics.fmean(rates)
    flops = rate * network.operations(int(adds))
    # Ranks share the work, and each has a device of its own.
    peak = (_number(series.session.declared.workload.get(choices.PEAK)) or 0.0) * 1e12
    ranks = _number(facts.get("ranks")) or 1.0
    yield (
        arm, f"{batch:.0f}", f"{_number(facts.get('parameters')) or 0:,.0f}", f"{adds:,.0f}",
        f"{rate:.4g}", f"{flops / 1e9:.4g}", f"{100 * flops / peak / ranks:.1f}" if peak else "-",
        _largest(used, "counts.max_rss_mb"), _largest(used, "counts.device_memory_mb"),
    )  # fmt: skip


def _samples_per_s(sample: "Sample", batch: float | None) -> float | None:
    """Return the rate of a launch; of a group's part, that of its turns together."""
    turns = [turn for resident in sample.residents for turn in resident.turns]
    wall = sum(resident.wall_s for resident in sample.residents)
    if turns and wall and batch:
        return batch * sum(len(turn.steps_s) for turn in turns) / wall
    return sample.figure("counts.samples_per_s")


def _largest(used: "list[Sample]", name: str) -> str:
    figures = [value for sample in used if (value := sample.figure(name))]
    return f"{max(figures):.0f}" if figures else "-"


def _number(value: object) -> float | None:
    """Return a number above 0; files come from anybody."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < math.inf else None
