"""What of a recipe contradicts the facts of a site: found before anything is built. Pure."""

from collections.abc import Iterator

from dlcontainer.planning.conflicts import compilers, glibc, isa, mpi, toolkits
from dlcontainer.planning.conflicts.messages import refusal
from dlcontainer.planning.conflicts.model import Contradiction, Doubt, Finding, Rule, StackRule
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.sites.site import Site

__all__ = ["Contradiction", "Doubt", "doubts", "find", "refusal"]

# Of a framework's build alone; planning/candidates.py asks them of each variant too.
_OF_STACK: tuple[StackRule, ...] = (*toolkits.RULES, isa.gpu_code)
_RULES: tuple[Rule, ...] = (
    isa.cpu_code,
    compilers.without_phi,
    mpi.other_family,
    mpi.other_fabric,
    glibc.older_than_host,
    glibc.kernel_older_than_base,
)


def find(site: Site, recipe: Recipe) -> Iterator[Contradiction]:
    """Find what of a settled recipe contradicts a site's facts."""
    yield from (one for one in _findings(site, recipe) if isinstance(one, Contradiction))


def doubts(site: Site, recipe: Recipe) -> Iterator[str]:
    """Say what can't be promised of a settled recipe, since a fact is missing or not exact."""
    yield from (one.text for one in _findings(site, recipe) if isinstance(one, Doubt))


def _findings(site: Site, recipe: Recipe) -> Iterator[Finding]:
    # Each once: two packages may bring the same compiler.
    of_stack = [one for rule in _OF_STACK for one in rule(site, recipe.stack)]
    yield from dict.fromkeys([*of_stack, *(one for rule in _RULES for one in rule(site, recipe))])
