"""What an examination of this machine finds."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "error"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DoctorFinding:
    """One thing looked at: fine, warning (works, but), or error (does not work); and the fix.

    `said` has the words of the program that was tried.
    """

    name: str
    state: State
    detail: str
    mend: str | None = None
    said: str | None = None
