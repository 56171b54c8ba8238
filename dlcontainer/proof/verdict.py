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
class Verdict:
    """A state, and the line that gives its reason."""

    state: State
    detail: str


Verdicts = Iterator[Verdict]


def ok(detail: str) -> Verdict:
    """Say that the file shows it."""
    return Verdict(state="ok", detail=detail)


def failed(detail: str) -> Verdict:
    """Say that the file shows the contrary."""
    return Verdict(state="failed", detail=detail)


def not_shown(detail: str) -> Verdict:
    """Say that no line shows what had to be shown."""
    return Verdict(state="not shown", detail=detail)


def not_tried(detail: str) -> Verdict:
    """Say that this job could not show it."""
    return Verdict(state="not tried", detail=detail)


def seen(detail: str) -> Verdict:
    """Give a fact without a bound."""
    return Verdict(state="seen", detail=detail)
