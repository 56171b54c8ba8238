"""A refusal in words: each contradiction with both its places, the reason and the fix."""

import re
from collections.abc import Sequence

from dlcontainer.config import Document, KeyPath, dotted
from dlcontainer.errors import ConfigError, DlcontainerError, MisfitError
from dlcontainer.planning.conflicts.model import Clash, Contradiction

_A_VERSION = re.compile(r"\{\{\s*versions\.([a-z_][a-z0-9_]*)\s*\}\}")


_CORRECT = "; `dlcontainer site show` names the origin of each value"


def refusal(
    found: Sequence[Clash | Contradiction], *, site: Document, recipe: Document
) -> MisfitError:
    """Word the refusal of a recipe, which is given as written, templates and all, at a site."""
    return _joined([_one(one, site, recipe) for one in found])


def of_site(found: Sequence[Clash], site: Document, *, exit_code: int) -> DlcontainerError:
    """Word the refusal of a site; with exit code 3 its file is wrong whatever else is true."""
    said = [
        Clash(
            what=one.what,
            why=one.why,
            first=one.first,
            second=one.second,
            way_out=f"{one.way_out}{_CORRECT}",
        )
        for one in found
    ]
    error = _joined([_one(one, site, site) for one in said])
    if exit_code == MisfitError.exit_code:
        return error
    return ConfigError(error.what, where=error.where, why=error.why, next_step=error.next_step)


def note(one: Clash | Contradiction, *, site: Document, of: Document) -> str:
    """Word what is odd in a line: both places, what, and the next step.

    `of` is the file of a clash: the site's, or the recipe's.
    """
    error = _one(one, site, of)
    return f"{error.where}: {error.what} ({error.why}); {error.next_step}"


def _joined(errors: Sequence[MisfitError]) -> MisfitError:
    if len(errors) == 1:
        return errors[0]
    return MisfitError(
        "\n".join(map(str, errors)), brief="; ".join(error.brief for error in errors)
    )


def _one(one: Clash | Contradiction, site: Document, recipe: Document) -> MisfitError:
    """Word one; the two facts of a clash are in one file, given as `recipe`."""
    if isinstance(one, Clash):
        path, other, there = _decided_by(recipe, one.first), one.second, recipe
    else:
        path, other, there = _decided_by(recipe, one.in_recipe), one.in_site, site
    return MisfitError(
        f"{dotted(path)} against {there.origin(other).where}: {dotted(other)}: {one.what}",
        where=recipe.origin(path).where,
        why=one.why,
        next_step=one.way_out if isinstance(one, Clash) else _next(one, path),
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
