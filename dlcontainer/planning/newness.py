"""Which of two variants is the newer, and the version that a recipe is known by. Pure."""

from collections.abc import Mapping
from functools import lru_cache

from dlcontainer import config
from dlcontainer.config import Document, templating
from dlcontainer.errors import ConfigError
from dlcontainer.planning.versions import VersionKey, release
from dlcontainer.recipes.stack import Stack


def of_variant(recipe: Document, name: str, stack: Stack) -> VersionKey:
    """Read how new a variant of a recipe is."""
    return VersionKey(
        version=version(recipe, name), toolkit=stack.cuda or stack.rocm or stack.oneapi
    )


def version(recipe: Document, variant: str | None = None) -> str | None:
    """Return the version of a recipe, or of its variant; None where it takes a site to know it."""
    path: tuple[str, ...] = ("variants", variant, "changes") if variant else ()
    changes = config.subtree(recipe, path) if path else None
    changed = changes.data if changes else {}
    versions = {**_mapping(recipe.data.get("versions")), **_mapping(changed.get("versions"))}
    text = str(changed.get("version", recipe.data.get("version", "")))
    # With how each is written: 1 and 1.0 are equal, and no version.
    written_versions = tuple((name, value, repr(value)) for name, value in versions.items())
    try:
        return _expanded(text, written_versions, variant)
    except TypeError:  # a list or a mapping among the versions: validation says so
        return _expanded.__wrapped__(text, written_versions, variant)


# Each site judges all variants of each recipe, and this says nothing of a site.
@lru_cache(maxsize=4096)
def _expanded(
    text: str, versions: tuple[tuple[str, object, str], ...], variant: str | None
) -> str | None:
    values = {
        "versions": {name: value for name, value, _ in versions},
        "releases": {name: release(str(value)) for name, value, _ in versions},
        "variant": variant,
    }
    try:
        return templating.expand(text, values, where="version", shell=False) or None
    except ConfigError:
        return None


def note(recipe: Document, chosen: str | None, settled: str) -> list[str]:
    """Return the note of a plan whose version is another than the one the recipe is known by.

    That is the version of its first variant which needs nothing but an architecture.
    """
    for name, variant in _mapping(recipe.data.get("variants")).items():
        if set(_mapping(_mapping(variant).get("needs"))) <= {"arch"}:
            reference = version(recipe, str(name))
            if reference in (None, settled) or name == chosen:
                return []
            of = f" (variant {chosen})" if chosen else ""
            return [
                f"version: {settled} here{of}; without accelerators {reference} (variant {name})"
            ]
    return []


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
