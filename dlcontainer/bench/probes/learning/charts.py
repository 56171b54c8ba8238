"""The curves of trainings: accuracy over steps, steps and seconds to the target by batch."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dlcontainer.bench.probes.learning import trainings
from dlcontainer.bench.probes.learning.outcomes import TARGET, median, number
from dlcontainer.bench.samples.traits import Chart, ChartLine, ChartPoint

if TYPE_CHECKING:
    from dlcontainer.bench.probes.learning.trainings import Sides, TrainingSetting, TrainingSide
    from dlcontainer.bench.samples.series import Series
    from dlcontainer.bench.samples.vocabulary import ArmName


def of(series: "Series") -> Sequence[Chart]:
    """Make a chart of accuracies for each optimizer, and one of steps and of seconds by batch."""
    by_setting = trainings.of(series)
    return (*_accuracies(series, by_setting), *_by_batch(series, by_setting))


def _optimizers(by_setting: "Mapping[TrainingSetting, Sides]") -> list[str]:
    return list(dict.fromkeys(setting.optimizer for setting in by_setting))


def _accuracies(series: "Series", by_setting: "Mapping[TrainingSetting, Sides]") -> Iterator[Chart]:
    declared = series.session.declared
    every = number(declared, "every")
    for optimizer in _optimizers(by_setting):
        lines = [
            ChartLine(
                name=f"batch {setting.batch:,}",
                is_candidate=arm == declared.sides.candidate,
                points=tuple(_curve(setting, arm, side, every)),
            )
            for setting, sides in by_setting.items()
            if setting.optimizer == optimizer
            for arm, side in sides.items()
        ]
        yield Chart(
            title=f"Accuracy over steps, {optimizer.upper()}",
            caption="Of the test images, the mean over seeds; higher is better.",
            across="steps",
            up="accuracy, %",
            lines=tuple(lines),
        )


def _curve(
    setting: "TrainingSetting", arm: "ArmName", side: "TrainingSide", every: float
) -> Iterator[ChartPoint]:
    curves = [seed.curve for seed in side.seeds.values()]
    for place, values in enumerate(zip(*curves, strict=False), start=1):
        step, mean = place * every, sum(values) / len(values)
        hint = f"{arm}, {setting.name}, step {step:,.0f}: {mean:.2f} %"
        yield ChartPoint(x=step, y=mean, hint=hint)


def _by_batch(series: "Series", by_setting: "Mapping[TrainingSetting, Sides]") -> Iterator[Chart]:
    declared = series.session.declared
    target = f"{number(declared, TARGET):g} %"
    unreached = [
        s.name for s, sides in by_setting.items() if not all(x.all_reached for x in sides.values())
    ]
    out = (
        f" Left out, not reached by all seeds on both sides: {'; '.join(unreached)}."
        if unreached
        else ""
    )
    for what in ("steps", "seconds"):
        lines = [
            ChartLine(
                name=optimizer.upper(),
                is_candidate=arm == declared.sides.candidate,
                points=tuple(_points(by_setting, optimizer, arm, what)),
            )
            for optimizer in _optimizers(by_setting)
            for arm in declared.sides.names
        ]
        yield Chart(
            title=f"{what.capitalize()} to {target}, by batch",
            caption=f"Medians over seeds, lower is better; both axes are logarithmic.{out}",
            across="batch, samples",
            up=what,
            lines=tuple(lines),
            log=True,
        )


def _points(
    by_setting: "Mapping[TrainingSetting, Sides]", optimizer: str, arm: "ArmName", what: str
) -> Iterator[ChartPoint]:
    for setting, sides in by_setting.items():
        if setting.optimizer != optimizer or not all(s.all_reached for s in sides.values()):
            continue
        value = median(sorted(trainings.known(sides[arm], what)))
        yield ChartPoint(
            x=setting.batch, y=value, hint=f"{arm}, {setting.name}: {value:,.4g} {what}"
        )
