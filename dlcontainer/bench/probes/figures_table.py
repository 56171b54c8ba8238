"""A section of the report for a probe that has no table of its own: its figures' means."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dlcontainer.bench.samples.traits import Metric, Section

if TYPE_CHECKING:
    from dlcontainer.bench.samples.series import Series


def figures_table(metrics: Sequence[Metric]) -> "Callable[[Series], Section]":
    """Make a section of the report: the mean of each figure in each arm, over all pairs."""

    def section(series: "Series") -> Section:
        arms = series.session.declared.arms
        # The samples, not the table of launches: this has declared figures alone.
        used = [one for one in series.samples if one.role in {"pair", "triple"}]
        rows = []
        for metric in metrics:
            means = (
                _mean([one.figure(metric.name) for one in used if one.arm == arm]) for arm in arms
            )
            better = f"{metric.better} is better"
            rows.append((metric.name, metric.unit, metric.statistic, better, *means))
        return Section(
            title="The probe's figures",
            head=("figure", "unit", "of a launch", "better", *arms),
            rows=tuple(rows),
            note="Means over the launches of all pairs.",
        )

    return section


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.4g}" if known else "-"
