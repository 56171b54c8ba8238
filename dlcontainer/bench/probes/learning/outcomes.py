"""The table of trainings: who reached the target, after how many steps, how well at the end."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from dlcontainer.bench.probes.learning import trainings
from dlcontainer.bench.samples.traits import ProbeTable

if TYPE_CHECKING:
    from dlcontainer.bench.probes.learning.trainings import Sides, TrainingSetting, TrainingSide
    from dlcontainer.bench.samples.records import SessionDeclaration
    from dlcontainer.bench.samples.series import Series
    from dlcontainer.bench.stats.equivalence import Tost

# Of the declared workload: percent; points of percent; a share.
TARGET = "accuracy"
ACCURACY_MARGIN = "accuracy_margin_points"
STEPS_MARGIN = "steps_margin"


def section(series: "Series") -> ProbeTable | None:
    """Make the table, one line for each optimizer and batch."""
    declared, by_setting = series.session.declared, trainings.of(series)
    if not by_setting:
        return None
    first, second = declared.sides.names
    return ProbeTable(
        title=f"Trainings to {number(declared, TARGET):g} %",
        head=(
            "optimizer", "batch", f"steps, {first}", f"steps, {second}", "ratio of steps",
            "interval of the ratio", "steps are", f"accuracy at the end, {first}, %",
            f"accuracy at the end, {second}, %", "difference, points", "interval, points",
            "accuracies are", "between launches, points",
        ),
        rows=tuple(tuple(_line(declared, setting, sides)) for setting, sides in by_setting.items()),
        note=_note(declared),
    )  # fmt: skip


def _note(declared: "SessionDeclaration") -> str:
    level = 100 * (1 - 2 * declared.alpha)
    points, share = number(declared, ACCURACY_MARGIN), number(declared, STEPS_MARGIN)
    return (
        f"Steps until {number(declared, TARGET):g} % of the test images were told right for the "
        "first time, less is better: median over seeds, the fewest and the most in brackets. "
        "Accuracy after all declared steps, more is better: means over seeds. Both sides are held "
        "against each other seed by seed (container less native, in its order of samples), by two "
        f"one-sided tests: equivalent where the {level:.0f} % interval lies within the declared "
        f"margin, {points:g} points, or a factor of {1 + share:g} for steps; different where all "
        "of it lies outside. A ratio takes all seeds on both sides: those that did not reach the "
        "target have no steps. Between launches: how far the same seed on the same side was apart, "
        "at most. None of this is judged: the verdict is on times."
    )


def number(declared: "SessionDeclaration", name: str) -> float:
    """Return a declared number; 0 where the file has none."""
    value = declared.workload.get(name)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0


def _line(
    declared: "SessionDeclaration", setting: "TrainingSetting", sides: "Sides"
) -> Iterator[str]:
    first, second = (sides[arm] for arm in declared.sides.names)
    yield setting.optimizer
    yield f"{setting.batch:,}"
    most = number(declared, "most_steps")
    yield _steps(first, most)
    yield _steps(second, most)
    ratio = steps_ratio(declared, first, second)
    yield from _tested(ratio, lambda value: f"{_exp(value):.3f}")
    yield _accuracy(first)
    yield _accuracy(second)
    difference = accuracies(declared, first, second)
    yield from _tested(difference, lambda value: f"{value:+.2f}")
    spread = max((s.spread for side in (first, second) for s in side.seeds.values()), default=0.0)
    yield f"{spread:.2f}"


def _tested(test: "Tost | None", shown: Callable[[float], str]) -> Iterator[str]:
    if test is None:
        yield from ("-", "-", "-")
        return
    yield shown(test.mean)
    yield f"[{shown(test.low)}, {shown(test.high)}]"
    yield test.reading


def _steps(side: "TrainingSide", most: float) -> str:
    """Return after how many steps; one that was not reached is words and never a number."""
    never = f"not reached within {most:,.0f} steps"
    steps = sorted(trainings.known(side, "steps"))
    if not steps:
        return never
    if not side.all_reached:
        return f"{side.reached} of {len(side.seeds)} seeds, the others {never}"
    return f"{median(steps):,.4g} ({steps[0]:,.4g} to {steps[-1]:,.4g})"


def _accuracy(side: "TrainingSide") -> str:
    values = [seed.accuracy for seed in side.seeds.values()]
    return f"{sum(values) / len(values):.2f}" if values else "-"


def accuracies(
    declared: "SessionDeclaration", first: "TrainingSide", second: "TrainingSide"
) -> "Tost | None":
    """Hold the final accuracies against each other, in points; None where seeds are missing."""
    from dlcontainer.bench.stats import equivalence

    margin = number(declared, ACCURACY_MARGIN)
    if not first.seeds or first.seeds.keys() != second.seeds.keys() or margin <= 0:
        return None
    apart = [second.seeds[seed].accuracy - first.seeds[seed].accuracy for seed in first.seeds]
    return equivalence.tost(apart, margin, declared.alpha)


def steps_ratio(
    declared: "SessionDeclaration", first: "TrainingSide", second: "TrainingSide"
) -> "Tost | None":
    """Hold the steps against each other, in logs; None where a seed did not reach the target."""
    from dlcontainer.bench.stats import equivalence, margins

    margin = number(declared, STEPS_MARGIN)
    comparable = (
        first.all_reached and second.all_reached and first.seeds.keys() == second.seeds.keys()
    )
    if not comparable or margin <= 0:
        return None
    logs = [
        math.log(theirs / ours)
        for ours, theirs in zip(
            trainings.known(first, "steps"), trainings.known(second, "steps"), strict=True
        )
    ]
    return equivalence.tost(logs, margins.band(margin).half_width, declared.alpha)


def median(values: Sequence[float]) -> float:
    """Return the middle of sorted values."""
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
