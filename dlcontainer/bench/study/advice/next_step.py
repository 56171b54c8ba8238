"""What to do next, in one line: where the time goes, the knob, the gain, the command. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

from dlcontainer.bench.study.advice.drawn_inputs import Spread
from dlcontainer.bench.study.study_records import MeasuredStudy

Stage = Literal["kernel", "input", "communication", "waiting", "nothing"]


@dataclass(frozen=True, kw_only=True, slots=True)
class NextStep:
    """A stage and its share of a step, the evidence (FILE:LINE), the knob and what it gains."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="ignore", allow_inf_nan=False)

    stage: Stage
    share: float
    evidence: str
    knob: str
    # Of the step, as a share.
    gain: Spread
    # The command that would confirm it.
    command: str

    @property
    def words(self) -> str:
        """Return the line."""
        low, high = 100 * self.gain.low, 100 * self.gain.high
        return (
            f"{self.stage}: {self.share:.0%} of a step ({self.evidence}); {self.knob}: "
            f"{low:.0f} to {high:.0f} % less; confirm it with: {self.command}"
        )


def of(study: MeasuredStudy | None, terms: Mapping[str, float]) -> NextStep | None:
    """Return the next step for a study's terms at the advised point; None where nothing shows it.

    `terms`: seconds by their names, of the point that "how many" advises.
    """
    del study, terms
    return None
