"""What is asked of a resolver, and what it answers. Data alone."""

from dataclasses import dataclass
from typing import Literal

from packaging.requirements import Requirement

from dlcontainer.packages.resolve.wishes import WishList

Strength = Literal["hard", "soft"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What the packages run on: Python as `3.12`, the machine, the base's glibc as `2.39`."""

    python: str
    arch: str
    glibc: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ParentPin:
    """A pin of the parent recipe (`torch==2.13.0+cpu`), and its place as `file:line`.

    Hard: never changed (the framework, its compiler and device libraries). Soft: changed where
    nothing else resolves, and then listed. `installed`: it lies in an image, complete with what it
    needs, and no index has to know it; `extras` are the needs that its extras add, as METADATA has
    them.
    """

    requirement: Requirement
    origin: str
    strength: Strength
    installed: bool = False
    extras: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolveRequest:
    """Wishes on top of a parent's pins, for one target.

    `verified` names the packages whose modules the parent's verify imports; `may_change` those of
    them that the user lets change.
    """

    wishes: WishList
    target: Target
    pins: tuple[ParentPin, ...] = ()
    verified: frozenset[str] = frozenset()
    may_change: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """A chosen version; `asked_at` is the place of the wish, None for what others need."""

    name: str
    version: str
    asked_at: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PinChange:
    """A soft pin of the parent's that had to change."""

    name: str
    before: str
    after: str
    origin: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolution:
    """Pins beside those of the parent, sorted by name; the changed ones are among them.

    `resolver` is the program and its version. `notes` says what a user should know, a line each.
    """

    pins: tuple[Pin, ...]
    changes: tuple[PinChange, ...] = ()
    resolver: str = ""
    notes: tuple[str, ...] = ()
