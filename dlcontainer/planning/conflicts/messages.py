"""A refusal in words: each contradiction with both its places, the reason and the fix."""

import re
from collections.abc import Sequence

from dlcontainer.config import Document, KeyPath, dotted
from dlcontainer.errors import ConfigError, DlcontainerError, MisfitError
from dlcontainer.planning.conflicts.model import Contradiction, FactConflict

_A_VERSION = re.compile(r"\{\{\s*versions\.([a-z_][a-z0-9_]*)\s*\}\}")


_CORRECT = "; `dlcontainer site show` names the origin of each value"


def refusal(
    contradictions: Sequence[FactConflict | Contradiction], *, site: Document, recipe: Document
) -> MisfitError:
    """Word the refusal of a recipe, which is given as written, templates and all, at a site."""
    return _joined([_one(contradiction, site, recipe) for contradiction in contradictions])


def of_site(clashes: Sequence[FactConflict], site: Document, *, exit_code: int) -> DlcontainerError:
    """Word the refusal of a site; with exit code 3 its file is wrong whatever else is true."""
    conflicts = [
        FactConflict(
            what=clash.what,
            why=clash.why,
            first=clash.first,
            second=clash.second,
            way_out=f"{clash.way_out}{_CORRECT}",
        )
        for clash in clashes
    ]
    error = _joined([_one(conflict, site, site) for conflict in conflicts])
    if exit_code == MisfitError.exit_code:
        return error
    return ConfigError(error.what, where=error.where, why=error.why, next_step=error.next_step)


def note(clash: FactConflict | Contradiction, *, site: Document, of: Document) -> str:
    """Word what is odd in a line: both places, what, and the next step.

    `of` is the file of a clash: the site's, or the recipe's.
    """
    error = _one(clash, site, of)
    return f"{error.where}: {error.what} ({error.why}); {error.next_step}"


def _joined(errors: Sequence[MisfitError]) -> MisfitError:
    if len(errors) == 1:
        return errors[0]
    return MisfitError(
        "\n".join(map(str, errors)), brief="; ".join(error.brief for error in errors)
    )


def _one(
    contradiction: FactConflict | Contradiction, site: Document, recipe: Document
) -> MisfitError:
    """Word one; the two facts of a clash are in one file, given as `recipe`."""
    if isinstance(contradiction, FactConflict):
        path, counterpart, place = (
            _decided_by(recipe, contradiction.first),
            contradiction.second,
            recipe,
        )
    else:
        path, counterpart, place = (
            _decided_by(recipe, contradiction.in_recipe),
            contradiction.in_site,
            site,
        )
    return MisfitError(
        f"{dotted(path)} contradicts {place.origin(counterpart).where}: {dotted(counterpart)}: "
        f"{contradiction.what}",
        where=recipe.origin(path).where,
        why=contradiction.why,
        next_step=contradiction.way_out
        if isinstance(contradiction, FactConflict)
        else _next(contradiction, path),
        brief=contradiction.what,
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


def _next(contradiction: Contradiction, path: KeyPath) -> str:
    if contradiction.pin is None:
        return contradiction.way_out
    if path[0] in ("versions", "base"):
        return f"--set {dotted(path)}={contradiction.pin}, or {contradiction.way_out}"
    return (
        f"use a variant of the recipe whose {dotted(path)} is at most {contradiction.pin}, "
        f"or {contradiction.way_out}"
    )
