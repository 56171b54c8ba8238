"""What a rule finds: two facts that contradict each other, or one that is missing."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dlcontainer.config import KeyPath
from dlcontainer.recipes.base import Base
from dlcontainer.recipes.distributions import DISTRIBUTIONS, Distribution
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.recipes.stack import Stack
from dlcontainer.sites.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """Two facts that are incompatible: where each stands, why, and the fix.

    `pin` is the newest value of the recipe's that goes with the site, where there is one.
    """

    what: str
    why: str
    in_site: KeyPath
    in_recipe: KeyPath
    way_out: str
    pin: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Doubt:
    """What can't be promised, because a fact is unknown or not exact enough."""

    text: str


Finding = Contradiction | Doubt
Rule = Callable[[Site, Recipe], Iterator[Finding]]
# Of a framework's build alone: what decides which variant a site can run.
StackRule = Callable[[Site, Stack], Iterator[Finding]]


def distribution_of(base: Base) -> Distribution | None:
    """Give the facts about a base's distribution; None for an image that does not state it."""
    facts = base.facts
    return DISTRIBUTIONS.get((facts.distribution, facts.release)) if facts else None


def glibc_of(base: Base) -> str | None:
    """Give the C library of a base; None where it is not known."""
    facts = base.facts
    return facts.glibc if facts else None


def base_path(base: Base) -> KeyPath:
    """Name the key that decides which base it is."""
    return ("base", "image") if base.image else ("base", "release")
