"""A fact of a node: its name, its value, how it was read; or why it is unknown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

FactValue = str | int | bool | tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeFact:
    """One fact; a site's key names it where there is one (`os.kernel`).

    `value` is None where it is unknown, and `why` says why.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    value: FactValue | None
    how: str
    why: str | None = None

    @property
    def text(self) -> str:
        """The value as people read it."""
        if self.value is None:
            return f"unknown: {self.why}"
        if isinstance(self.value, bool):
            return "yes" if self.value else "no"
        if isinstance(self.value, tuple):
            return ", ".join(self.value) or "none"
        return str(self.value)


def known(name: str, content: FactValue, how: str) -> NodeFact:
    """Return a fact that was read."""
    return NodeFact(name=name, value=content, how=how)


def unknown(name: str, how: str, why: str) -> NodeFact:
    """Return a fact that could not be read, with the reason."""
    return NodeFact(name=name, value=None, how=how, why=why)


def either(name: str, content: FactValue | None, how: str, why: str) -> NodeFact:
    """Return a fact by what was read of it, None for nothing."""
    return NodeFact(name=name, value=content, how=how, why=None if content is not None else why)


def listed(words: Sequence[str]) -> tuple[str, ...]:
    """Return words each once, in their order."""
    return tuple(dict.fromkeys(words))
