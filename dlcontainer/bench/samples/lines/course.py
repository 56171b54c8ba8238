"""What files of records say of their own course: that it went on, and how it ended."""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

_OURS = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Resumed:
    """It went on after an interruption."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    started: str
    dropped_bytes: int
    line: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """The last line."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    complete: bool
    reason: str
    launches: int
    line: int = 0
