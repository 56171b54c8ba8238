"""What a session of resident groups has beside any other: its plan, and each process's turns.

Seconds throughout; `start_s` is the machine's monotonic clock, which all processes share.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, JsonValue

from dlcontainer.bench.samples.vocabulary import ArmName

# Processes of each arm: more would crowd out what they measure.
MOST = 4
_STRICT = ConfigDict(strict=True, extra="forbid")
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Time = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupPlan:
    """How a group is measured, settled before the first one.

    `per_arm` processes of each arm have a turn of `turn_steps` timed steps in each of `rounds`
    rounds, on `cpus`; each makes a new trainer every `renew_rounds` rounds. `gap_s` lies before
    every turn: longer than threads spin after the one before. A group that loses a process is
    discarded and measured again, at most `lost_most` times in the session.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    per_arm: Annotated[int, Field(ge=2, le=MOST)]
    rounds: Positive
    turn_steps: Positive
    renew_rounds: Positive
    gap_s: Seconds
    cpus: tuple[Count, ...]
    lost_most: Count

    @property
    def steps(self) -> int:
        """The timed steps of each arm in a group."""
        return self.per_arm * self.rounds * self.turn_steps


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One turn of a process: `place` counts the turns of its round, `trainer` its trainers.

    `first_s` is the dropped step's time, `wall_s` the sum of `steps_s`; `idle_cpu_s` the processor
    time since the order before, and `seen_s` the time that the session waited for the answer.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    round: Count
    place: Count
    trainer: Positive
    start_s: Seconds
    first_s: Seconds
    wall_s: Time
    cpu_s: Seconds
    steps_s: tuple[Time, ...]
    voluntary: Count
    involuntary: Count
    faults: Count
    idle_cpu_s: Seconds
    seen_s: Time


@dataclass(frozen=True, kw_only=True, slots=True)
class ResidentProcess:
    """One process of a group: when it was started, by the session's clock, and all its turns."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    started_s: Seconds
    ready_s: Seconds
    turns: tuple[Turn, ...]
    phases: Mapping[str, Seconds] = field(default_factory=dict)
    values: Mapping[str, JsonValue] = field(default_factory=dict)
    losses: tuple[float, ...] = ()

    @property
    def wall_s(self) -> float:
        """The time of all its timed steps."""
        return sum(turn.wall_s for turn in self.turns)


@dataclass(frozen=True, kw_only=True, slots=True)
class LostGroup:
    """A group that was discarded, and the process that it lost.

    Of launches it is a pair or triple, `process` its role, and `launches` are the indices of those
    in the file that are set aside.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    group: Positive
    arm: ArmName
    process: str
    reason: str
    started: str
    launches: tuple[Count, ...] = ()
    line: int = 0
