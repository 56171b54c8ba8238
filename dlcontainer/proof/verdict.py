"""What a rule says of a proof: a state and its reason.

ok: the file shows it. failed: the file shows the contrary. not shown: it had to be shown and no
line does. not tried: this job could not show it. seen: a fact without a bound.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "failed", "not shown", "not tried", "seen"]
# What counts against a proof.
BAD: frozenset[State] = frozenset({"failed", "not shown"})


@dataclass(frozen=True, kw_only=True, slots=True)
class StateVerdict:
    """A state, and the line that gives its reason."""

    state: State
    detail: str


Verdicts = Iterator[StateVerdict]


def ok(detail: str) -> StateVerdict:
    """Return the verdict where the file shows it."""
    return StateVerdict(state="ok", detail=detail)


def failed(detail: str) -> StateVerdict:
    """Return the verdict where the file shows the contrary."""
    return StateVerdict(state="failed", detail=detail)


def not_shown(detail: str) -> StateVerdict:
    """Return the verdict where no line shows what had to be shown."""
    return StateVerdict(state="not shown", detail=detail)


def not_tried(detail: str) -> StateVerdict:
    """Return the verdict where this job could not show it."""
    return StateVerdict(state="not tried", detail=detail)


def seen(detail: str) -> StateVerdict:
    """Return a fact without a bound."""
    return StateVerdict(state="seen", detail=detail)
