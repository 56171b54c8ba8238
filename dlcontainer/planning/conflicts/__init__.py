"""What contradicts what, at a site, in a recipe, between the two: found before anything is built.

The rules stand in `table.py`, one function each. Pure.
"""

import datetime
from collections.abc import Iterator

from dlcontainer.config import Document, SelectedDocument
from dlcontainer.planning.conflicts import table
from dlcontainer.planning.conflicts.messages import note, of_site, refusal
from dlcontainer.planning.conflicts.model import Contradiction, FactConflict, Severity, UnknownFact
from dlcontainer.planning.conflicts.site_facts import unknown
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.sites.site import Site

__all__ = [
    "Contradiction",
    "FactConflict",
    "UnknownFact",
    "doubts",
    "find",
    "notes",
    "refusal",
    "require_site",
    "unknown",
]


def require_site(site: SelectedDocument[Site]) -> None:
    """Refuse a site whose facts contradict each other, with both places of each.

    Raises ConfigError where one is wrong whatever else is true, else MisfitError.
    """
    for exit_code in (3, 8):
        rules = [rule for rule in table.SITE if rule.exit_code == exit_code]
        refused = [rule for rule in rules if rule.severity == "refuse"]
        clashes = [clash for rule in refused for clash in rule.check(site.value)]
        if clashes:
            raise of_site(clashes, site.document, exit_code=exit_code)


def find(site: Site, recipe: Recipe) -> Iterator[FactConflict | Contradiction]:
    """Find what of a settled recipe contradicts itself, or a site's facts."""
    yield from (
        finding for finding in _of("refuse", site, recipe) if not isinstance(finding, UnknownFact)
    )


def doubts(site: Site, recipe: Recipe) -> Iterator[str]:
    """Yield what can't be promised of a settled recipe, since a fact is missing or not exact."""
    findings = (*_of("refuse", site, recipe), *_of("note", site, recipe))
    yield from dict.fromkeys(
        finding.text for finding in findings if isinstance(finding, UnknownFact)
    )


def notes(
    site: SelectedDocument[Site], recipe: Recipe, written: Document, today: datetime.date | None
) -> Iterator[str]:
    """Yield what is odd, with both places, and what is in doubt.

    `written` is the recipe as written; without a day nothing is said that depends on it.
    """
    at = site.value
    clashes = [clash for rule in table.SITE if rule.severity == "note" for clash in rule.check(at)]
    if today is not None:
        clashes += [clash for rule in table.DATED for clash in rule.check(at, today)]
    yield from (note(clash, site=site.document, of=site.document) for clash in clashes)
    for finding in _of("note", at, recipe):
        if not isinstance(finding, UnknownFact):
            yield note(finding, site=site.document, of=written)
    yield from doubts(at, recipe)


def _of(
    severity: Severity, site: Site, recipe: Recipe
) -> Iterator[FactConflict | Contradiction | UnknownFact]:
    """Apply the rules of a severity; each finding once: two packages may bring one compiler."""
    findings: list[FactConflict | Contradiction | UnknownFact] = []
    for of_stack in table.STACK:
        if of_stack.severity == severity:
            findings += of_stack.check(site, recipe.stack)
    for of_recipe in table.RECIPE:
        if of_recipe.severity == severity:
            findings += of_recipe.check(recipe)
    for of_both in table.PAIR:
        if of_both.severity == severity:
            findings += of_both.check(site, recipe)
    yield from dict.fromkeys(findings)
