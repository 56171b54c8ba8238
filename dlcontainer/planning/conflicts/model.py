"""What a rule is, and what it finds: two facts that contradict each other, or one that is missing.

The rules themselves are listed, each with its source, in one table: `conflicts/table.py`.
"""

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from dlcontainer.config import KeyPath
from dlcontainer.recipes.base import Base
from dlcontainer.recipes.distributions import DISTRIBUTIONS, Distribution


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """A fact of a site and one of a recipe that are incompatible: where each stands, why, the fix.

    `pin` is the newest value of the recipe's that goes with the site, where there is one.
    """

    what: str
    why: str
    in_site: KeyPath
    in_recipe: KeyPath
    way_out: str
    pin: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FactConflict:
    """Two facts of one file, a site's or a recipe's, that exclude each other."""

    what: str
    why: str
    first: KeyPath
    second: KeyPath
    way_out: str = "correct one of the two"


@dataclass(frozen=True, kw_only=True, slots=True)
class UnknownFact:
    """What can't be promised, because a fact is unknown or not exact enough."""

    text: str


Finding = Contradiction | UnknownFact

# refuse: it can't work. note: it may, and is odd.
Severity = Literal["refuse", "note"]
Check = TypeVar("Check")


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule(Generic[Check]):
    """One rule: what it compares, how severe it is, where that is said, and its function.

    `exit_code` is that of a refusal: 3 where a file is wrong whatever is true elsewhere, 8 where
    two facts contradict each other. A doubt that a rule has is a note, whatever its severity.
    """

    id: str
    compares: str
    source: str
    check: Check
    severity: Severity = "refuse"
    exit_code: Literal[3, 8] = 8


def distribution_of(base: Base) -> Distribution | None:
    """Return the facts about a base's distribution; None for an image that does not state it."""
    facts = base.facts
    return DISTRIBUTIONS.get((facts.distribution, facts.release)) if facts else None


def glibc_of(base: Base) -> str | None:
    """Return the C library of a base; None where it is not known."""
    facts = base.facts
    return facts.glibc if facts else None


def base_path(base: Base) -> KeyPath:
    """Name the key that decides which base it is."""
    return ("base", "image") if base.image else ("base", "release")
