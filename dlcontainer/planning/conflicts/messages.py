"""A refusal in words: each contradiction with both its places, the reason and the fix."""

import re
from collections.abc import Sequence

from dlcontainer.config import Document, KeyPath, dotted
from dlcontainer.errors import MisfitError
from dlcontainer.planning.conflicts.model import Contradiction

_A_VERSION = re.compile(r"\{\{\s*versions\.([a-z_][a-z0-9_]*)\s*\}\}")


def refusal(found: Sequence[Contradiction], *, site: Document, recipe: Document) -> MisfitError:
    """Word the refusal of a recipe, which is given as written, templates and all, at a site."""
    errors = [_one(one, site, recipe) for one in found]
    if len(errors) == 1:
        return errors[0]
    return MisfitError(
        "\n".join(map(str, errors)), brief="; ".join(error.brief for error in errors)
    )


def _one(one: Contradiction, site: Document, recipe: Document) -> MisfitError:
    path = _decided_by(recipe, one.in_recipe)
    there = site.origin(one.in_site).where
    return MisfitError(
        f"{dotted(path)} against {there}: {dotted(one.in_site)}: {one.what}",
        where=recipe.origin(path).where,
        why=one.why,
        next_step=_next(one, path),
        brief=one.what,
    )


def _decided_by(recipe: Document, path: KeyPath) -> KeyPath:
    """Follow a value that is nothing but `{{ versions.X }}` to that version."""
    value: object = recipe.data
    for part in path:
        if isinstance(value, dict):
            value = value.get(str(part))
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return path
    named = _A_VERSION.fullmatch(value.strip()) if isinstance(value, str) else None
    return ("versions", named[1]) if named else path


def _next(one: Contradiction, path: KeyPath) -> str:
    if one.pin is None:
        return one.way_out
    if path[0] in ("versions", "base"):
        return f"--set {dotted(path)}={one.pin}, or {one.way_out}"
    return f"a variant of the recipe whose {dotted(path)} is at most {one.pin}, or {one.way_out}"
