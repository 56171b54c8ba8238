"""One question to a resolver and its answer, whichever program it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """Requirements without markers, what bounds them, and the versions that are liked best.

    `folders` hold further wheels. `exact_hashes` asks for the SHA-256 of each chosen file.
    """

    requirements: tuple[str, ...]
    constraints: tuple[str, ...] = ()
    preferences: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()
    prereleases: bool = False
    exact_hashes: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """Canonical name -> version of the closure; the SHA-256 of the chosen file where it is known.

    `needed_by` names who needs a package, where the resolver tells it.
    """

    versions: Mapping[str, str]
    hashes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    needed_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class NoSolutionError(Exception):
    """No set of versions serves a question; `text` is what the resolver says of it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class PackageResolver(Protocol):
    """A program that chooses versions and runs nothing of the packages."""

    @property
    def title(self) -> str:
        """Its name and version."""

    def ask(self, question: Question) -> Answer:
        """Choose versions; raises NoSolutionError, BuildError where an index fails."""

    def newest(self, requirements: Sequence[str], *, wheels: bool) -> Mapping[str, str]:
        """Return the newest version of each by itself: of its wheels, or source archives too.

        What there is none of is left out.
        """
