"""One set-up: whose environment it works in, and who tells the user of it.

`make setup` and `dlcontainer setup engine` begin it, each with its own way to tell.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol


class Teller(Protocol):
    """Whoever tells the user how far the set-up is."""

    def step(self, title: str) -> None:
        """Begin a step."""

    def say(self, text: str) -> None:
        """Say what the running step does."""

    def note(self, text: str) -> None:
        """Say something that the user may want to act on."""

    def tool(self, line: str) -> None:
        """Take a tool's line."""

    def waiting(self, what: str) -> contextlib.AbstractContextManager[None]:
        """Say once in a while that a tool still works."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """What a set-up works with; `elsewhere` is how the user takes another folder for it."""

    environ: Mapping[str, str]
    teller: Teller
    elsewhere: str


_RUNNING: list[Session] = []


def begin(session: Session) -> None:
    """Let the set-up work in this environment and tell this teller, until the process ends."""
    _RUNNING.append(session)


@contextlib.contextmanager
def begun(session: Session) -> Iterator[None]:
    """Let the set-up work in this environment and tell this teller, within the block."""
    begin(session)
    try:
        yield
    finally:
        _RUNNING.remove(session)


def environ() -> Mapping[str, str]:
    """Return the environment of the running set-up."""
    return _RUNNING[-1].environ


def elsewhere() -> str:
    """Return how the user takes another folder."""
    return _RUNNING[-1].elsewhere


def teller() -> Teller:
    """Return who tells the user."""
    return _RUNNING[-1].teller


def say(text: str) -> None:
    """Say what the running step does."""
    teller().say(text)


def note(text: str) -> None:
    """Say something that the user may want to act on."""
    teller().note(text)
