"""What an examination of this machine finds."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "poor", "bad"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing looked at: fine, poor (works, but), or bad (does not work); and the cure."""

    name: str
    state: State
    detail: str
    mend: str | None = None
