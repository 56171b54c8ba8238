"""What to change next: the first stage that surely costs a step enough, or none. Pure.

Stages stand in the order of tuning that Yin et al. recommend (DLS 2019, abstract): kernels, then
the node's input, then communication.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from pydantic import ConfigDict

from dlcontainer.bench.stats import student_t

Stage = Literal["kernel", "input", "communication"]
STAGES: tuple[Stage, ...] = get_args(Stage)
# Of a step: below it a change is not worth its hours.
WORTH = 0.05
_LEVEL = 0.9
_CONFIG = ConfigDict(extra="ignore", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepShare:
    """A share of a step, 0 to 1, with its 90 % interval."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    centre: float
    low: float
    high: float

    @property
    def percent(self) -> str:
        """Return it as text: `31 to 44 %`."""
        return f"{100 * self.low:.0f} to {100 * self.high:.0f} %"

    def times(self, factor: float) -> "StepShare":
        """Return so many times this share."""
        return StepShare(
            centre=self.centre * factor, low=self.low * factor, high=self.high * factor
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """Something that costs a step a share of its time, with the place that shows it."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    stage: Stage
    cause: str
    # What of the step goes at most when the cause is gone (Amdahl's law).
    gain: StepShare
    # `file:line` of the launch that shows it.
    where: str
    knob: str
    confirm: str
    # The command that shows it in the user's own program; empty where nothing more does.
    see: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnmeasuredStage:
    """A stage of which nothing is known, and the command that measures it."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    stage: Stage
    why: str
    command: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NextStep:
    """The limit to take next, None where no stage is surely worth it; and what is not known."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    limit: Limit | None
    limits: tuple[Limit, ...]
    unmeasured: tuple[UnmeasuredStage, ...]

    def lines(self) -> tuple[str, ...]:
        """Return the answer as lines of text: the first says it."""
        return (*(_said(self.limit) if self.limit else (self._nothing(),)), *self._unknown())

    def _nothing(self) -> str:
        if not self.limits:
            return "not known: no stage was measured"
        shares = ", ".join(
            f"{limit.stage} ({limit.cause}) {limit.gain.percent}" for limit in self.limits
        )
        return f"no stage surely costs {100 * WORTH:.0f} % of a step: {shares}"

    def _unknown(self) -> tuple[str, ...]:
        return tuple(
            f"not known: {stage.stage}: {stage.why}; measure it: {stage.command}"
            for stage in self.unmeasured
        )


def choose(limits: Sequence[Limit], unmeasured: Sequence[UnmeasuredStage] = ()) -> NextStep:
    """Choose the first stage whose gain is surely worth it; of its causes the largest."""
    ordered = sorted(limits, key=lambda limit: (STAGES.index(limit.stage), -limit.gain.centre))
    return NextStep(
        limit=next((limit for limit in ordered if limit.gain.low >= WORTH), None),
        limits=tuple(ordered),
        unmeasured=tuple(unmeasured),
    )


def share(values: Sequence[float]) -> StepShare:
    """Return the mean of shares, one a launch, with its t interval; [0, 1] below two launches."""
    centre, df = sum(values) / len(values), len(values) - 1
    if df < 1:
        return StepShare(centre=_bounded(centre), low=0.0, high=1.0)
    variance = sum((number - centre) ** 2 for number in values) / df
    half = student_t.quantile((1 - _LEVEL) / 2, df) * (variance / len(values)) ** 0.5
    return StepShare(
        centre=_bounded(centre), low=_bounded(centre - half), high=_bounded(centre + half)
    )


def _bounded(number: float) -> float:
    return min(1.0, max(0.0, number))


def _said(limit: Limit) -> tuple[str, ...]:
    see = (f"see which rank and which message: {limit.see}",) if limit.see else ()
    return (
        f"{limit.stage}: {limit.cause}: {limit.gain.percent} of a step ({limit.where})",
        f"change: {limit.knob}; a step takes {limit.gain.percent} less at most",
        f"confirm it: {limit.confirm}",
        *see,
    )
