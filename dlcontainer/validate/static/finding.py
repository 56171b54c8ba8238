"""What a rule says of an image: where, what, why it matters, and what helps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

# In the order in which they are shown.
Level = Literal["error", "warning", "not decided", "note"]
LEVELS: tuple[Level, ...] = get_args(Level)


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleFinding:
    """What a rule has to say; `file` is a path of the image, empty for the image as such."""

    level: Level
    what: str
    why: str
    fix: str = ""
    file: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StaticFinding:
    """A finding with the name of its rule."""

    rule: str
    level: Level
    file: str
    what: str
    why: str
    fix: str


def worst(levels: set[Level]) -> Level:
    """Return the first of some levels, in the order in which they are shown."""
    return min(levels, key=LEVELS.index)


def and_more(names: Sequence[str]) -> str:
    """Name the first of several, and count the rest."""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def needing(names: Sequence[str]) -> str:
    """Name files as the subject of a need."""
    return f"{and_more(names)} {'needs' if len(names) == 1 else 'need'}"
