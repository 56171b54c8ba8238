"""What a user asks of Python packages, and where each line of it stands. Data alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

WishFormat = Literal[
    "requirements", "pyproject", "pylock", "uv.lock", "environment", "Dockerfile", "definition"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """One requirement (PEP 508), its place as `file:line`, and the SHA-256 values it allows."""

    requirement: Requirement
    origin: str
    hashes: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class WishList:
    """A file's requirements in its own order, before any of their markers is evaluated.

    `constraints` bound what is chosen and ask for nothing (pip's `-c`). `python` is the file's own
    bound on the interpreter, as `requires-python` has it, and `python_at` its place. `is_locked`
    says that the list is a closure: every version is exact. `notes` says what was left out, a line
    each.
    """

    path: Path
    format: WishFormat
    wishes: tuple[Wish, ...]
    constraints: tuple[Wish, ...] = ()
    python: str | None = None
    python_at: str | None = None
    is_locked: bool = False
    notes: tuple[str, ...] = ()
