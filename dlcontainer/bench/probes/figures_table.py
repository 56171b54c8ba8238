"""A section of the report for a probe that has no table of its own: its figures' means."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dlcontainer.bench.samples.traits import Metric, ProbeTable

if TYPE_CHECKING:
    from dlcontainer.bench.samples.series import Series


def figures_table(metrics: Sequence[Metric]) -> "Callable[[Series], ProbeTable]":
    """Make a section of the report: the mean of each figure in each arm, over all pairs."""

    def section(series: "Series") -> ProbeTable:
        arms = series.session.declared.arms
        # The samples, not the table of launches: this has declared figures alone.
        used = [sample for sample in series.samples if sample.role in {"pair", "triple"}]
        rows = []
        for metric in metrics:
            means = (
                _mean([sample.figure(metric.name) for sample in used if sample.arm == arm])
                for arm in arms
            )
            better = f"{metric.better} is better"
            rows.append((metric.name, metric.unit, metric.statistic, better, *means))
        return ProbeTable(
            title="The probe's figures",
            head=("figure", "unit", "of a launch", "better", *arms),
            rows=tuple(rows),
            note="Means over the launches of all pairs.",
        )

    return section


def _mean(values: Sequence[float | None]) -> str:
    numbers = [value for value in values if value is not None]
    return f"{sum(numbers) / len(numbers):.4g}" if numbers else "-"
