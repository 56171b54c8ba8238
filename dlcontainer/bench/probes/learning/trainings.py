"""The trainings of a session: each seed's outcome on each side, over its launches. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dlcontainer.bench.samples.vocabulary import ArmName

if TYPE_CHECKING:
    from dlcontainer.bench.samples.rows.row_records import SampleRow
    from dlcontainer.bench.samples.series import Series


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSetting:
    """What seeds are repeated at."""

    optimizer: str
    batch: int

    @property
    def name(self) -> str:
        """It in words."""
        return f"{self.optimizer.upper()}, batch {self.batch:,}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingRun:
    """One training of one launch: accuracies in percent; no steps where it was never reached."""

    accuracy: float
    curve: tuple[float, ...]
    steps: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SeedOutcome:
    """A seed on one side: means over its launches; `spread` is the widest between two, in points.

    `steps` and `seconds` are None where a launch did not reach the target.
    """

    accuracy: float
    spread: float
    curve: tuple[float, ...]
    steps: float | None
    seconds: float | None


@dataclass(slots=True)
class TrainingSide:
    """The seeds of a setting on one side, by number."""

    seeds: dict[int, SeedOutcome] = field(default_factory=dict)

    @property
    def reached(self) -> int:
        """How many seeds reached the target, in all launches."""
        return sum(1 for seed in self.seeds.values() if seed.steps is not None)

    @property
    def all_reached(self) -> bool:
        """Whether all seeds did."""
        return bool(self.seeds) and self.reached == len(self.seeds)


Sides = Mapping[ArmName, TrainingSide]


def of(series: "Series") -> dict[TrainingSetting, Sides]:
    """Return each setting's seeds on both sides; of the launches of all pairs, as the figures
    are.
    """
    by_setting: dict[TrainingSetting, dict[ArmName, dict[int, list[TrainingRun]]]] = {}
    sides = series.session.declared.sides.names
    for sample in series.samples:
        if sample.role not in {"pair", "triple"} or not sample.ok or sample.arm not in sides:
            continue
        for row in sample.rows:
            setting, seed, trained = _setting(row), row.parameters.get("seed"), _trained(row)
            if setting and trained and isinstance(seed, int):
                by_number = by_setting.setdefault(setting, {}).setdefault(sample.arm, {})
                by_number.setdefault(seed, []).append(trained)
    return {
        setting: {arm: _side(by_arm.get(arm, {})) for arm in sides}
        for setting, by_arm in by_setting.items()
    }


def _side(seeds: Mapping[int, Sequence[TrainingRun]]) -> TrainingSide:
    return TrainingSide(seeds={number: _seed(runs) for number, runs in sorted(seeds.items())})


def _seed(runs: Sequence[TrainingRun]) -> SeedOutcome:
    accuracies = [run.accuracy for run in runs]
    steps = [run.steps for run in runs if run.steps is not None]
    seconds = [run.seconds for run in runs if run.seconds is not None]
    whole = len(steps) == len(seconds) == len(runs)
    return SeedOutcome(
        accuracy=_mean(accuracies),
        spread=max(accuracies) - min(accuracies),
        curve=tuple(map(_mean, zip(*(run.curve for run in runs), strict=False))),
        steps=_mean(steps) if whole else None,
        seconds=_mean(seconds) if whole else None,
    )


def _setting(row: "SampleRow") -> TrainingSetting | None:
    optimizer, batch = row.parameters.get("optimizer"), row.parameters.get("batch")
    if not isinstance(optimizer, str) or not isinstance(batch, int):
        return None
    return TrainingSetting(optimizer=optimizer, batch=batch)


def _trained(row: "SampleRow") -> TrainingRun | None:
    """Read an outcome; None for one that is none: files come from anybody."""
    outcome = row.outcome
    right, tested = outcome.get("right"), outcome.get("tested")
    if not isinstance(right, int) or not isinstance(tested, int) or not 0 <= right <= tested:
        return None
    steps, seconds, curve = (outcome.get(name) for name in ("steps", "seconds", "curve"))
    reached = isinstance(steps, int) and steps > 0 and isinstance(seconds, float) and seconds > 0
    points = curve if isinstance(curve, list) else []
    return TrainingRun(
        accuracy=100 * right / max(1, tested),
        curve=tuple(
            100 * correct / max(1, tested) for correct in points if isinstance(correct, int)
        ),
        steps=steps if reached and isinstance(steps, int) else None,
        seconds=seconds if reached and isinstance(seconds, float) else None,
    )


def known(side: TrainingSide, what: str) -> Iterator[float]:
    """Yield the steps or seconds of the seeds that reached the target."""
    for seed in side.seeds.values():
        value = seed.steps if what == "steps" else seed.seconds
        if value is not None:
            yield value


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
