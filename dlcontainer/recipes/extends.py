"""A recipe over another one (`extends`): the other's whole, own steps after its, own exceptions.

Applied on the documents, before a variant is chosen: each value keeps the file and line that it
stands at, and the steps below stay what they are, so that their results in a cache serve.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer import config
from dlcontainer.config import Document
from dlcontainer.config.field_types import Line, Name, Strict
from dlcontainer.errors import ConfigError
from dlcontainer.recipes import recipe as recipes

# So many recipes may lie below one.
MOST_BELOW = 4
# What a recipe says of itself alone: nothing of it is handed on.
_OWN = ("name", "extends", "wishes")
# What the steps of the parent recipe stand on.
OF_LOWER = ("base", "prefix", "interpreter", "stack", "variant")
# Tables of which a recipe above adds entries, and changes none.
_ADDED = ("versions", "upstreams")


@dataclass(frozen=True, kw_only=True, slots=True)
class LowerRecipe:
    """A recipe that another one extends: its name, the layer of its values, and its folder."""

    name: str
    layer: str
    folder: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenRecipe:
    """A recipe as written, over all that it extends; `below` has those, the nearest first."""

    document: Document
    folder: Path
    below: tuple[LowerRecipe, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Name the recipe and those below it, the lowest first."""
        upper = str(self.document.data.get("name"))
        return (*(lower.name for lower in reversed(self.below)), upper)

    def folder_of(self, layer: str) -> Path:
        """Return the folder that holds the files which values of a layer name."""
        of_layer = (lower.folder for lower in self.below if lower.layer == layer)
        return next(of_layer, self.folder)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipeFinder:
    """Finds the file of a recipe's name, and names files for messages."""

    find: Callable[[str], Path]
    display: Callable[[Path], str]


class _Reference(Strict):
    extends: Line


class _NameKey(Strict):
    name: Name


def read(path: Path, finder: RecipeFinder) -> WrittenRecipe:
    """Read a recipe file over those that it extends.

    Raises ConfigError with the place: of `extends`, or of what is wrong in the file that it is in.
    """
    written = recipes.read(path, display=finder.display(path))
    chain: list[tuple[Document, LowerRecipe]] = []
    document, paths = written, [path]
    while document.data.get("extends") is not None:
        below, name = _below(document, paths, finder)
        layer = _layer(below, [lower.layer for _, lower in chain])
        paths.append(below)
        document = recipes.read(below, display=finder.display(below), layer=layer)
        # It names a file of the image: before anything is made of it.
        own_name = config.validate(_one_key(document, "name"), _NameKey).name
        if name is not None:
            recipes.require_named(document, name)
        lower = LowerRecipe(name=own_name, layer=layer, folder=below.parent)
        chain.append((document, lower))
    return WrittenRecipe(
        document=_over(written, chain),
        folder=path.parent,
        below=tuple(lower for _, lower in chain),
    )


def _below(
    document: Document, paths: Sequence[Path], finder: RecipeFinder
) -> tuple[Path, str | None]:
    """Find the recipe that one extends; with its name, where it is found by that."""
    reference = config.validate(_one_key(document, "extends"), _Reference).extends
    where = document.origin(("extends",)).where
    by_path = "/" in reference or reference.endswith((".yaml", ".yml"))
    try:
        below = _file(paths[-1].parent / reference) if by_path else finder.find(reference)
        known = [path.resolve() for path in paths]
        if below.resolve() in known:
            names = " -> ".join(path.parent.name for path in (*paths, below))
            raise ConfigError(
                f"circular reference: {names}",
                next_step="name another recipe, by its path where it has the same name",
            )
    except ConfigError as error:
        raise ConfigError(
            f"extends: {error.what}", where=where, why=error.why, next_step=error.next_step
        ) from None
    if len(paths) > MOST_BELOW:
        raise ConfigError(
            f"extends: more than {MOST_BELOW} recipes, each extending the next: "
            f"{' -> '.join(path.parent.name for path in (*paths, below))}",
            where=where,
            next_step="join two of these recipes",
        )
    return below, None if by_path else reference


def _file(path: Path) -> Path:
    try:
        path = path / "recipe.yaml" if path.is_dir() else path
        is_there = path.is_file()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}") from error
    if not is_there:
        raise ConfigError(
            f"there is no recipe at {path}",
            next_step="a path counts from the folder of this recipe; a name has no '/'",
        )
    return path


def _layer(below: Path, taken: Sequence[str]) -> str:
    layer = f"recipe {below.parent.name}"
    return f"recipe {below}" if layer in taken else layer


def _one_key(document: Document, key: str) -> Document:
    data = {key: document.data[key]} if key in document.data else {}
    return Document(data=data, origins=document.origins)


def _over(written: Document, chain: Sequence[tuple[Document, LowerRecipe]]) -> Document:
    """Lay a recipe over those below it, from the lowest up."""
    if not chain:
        return written
    from dlcontainer.recipes.overlay import Overlay  # most recipes extend none

    documents = [written, *(document for document, _ in chain)]
    merged = documents.pop()
    for upper, (_, lower) in zip(reversed(documents), reversed(chain), strict=True):
        _require_own(upper, merged, lower)
        for key in _OWN:
            merged = config.without(merged, key)
        merged = Overlay(lower=merged, upper=upper, name=lower.name).merged()
    return merged


def _require_own(upper: Document, below: Document, lower: LowerRecipe) -> None:
    """Refuse a recipe without a name of its own, and keys that are those of the one below."""
    if upper.data.get("name") is None:
        raise ConfigError("name: missing", where=upper.origin(()).where)
    for key in OF_LOWER:
        if upper.data.get(key) is not None:
            raise ConfigError(
                f"{key}: belongs to the recipe {lower.name}, because its steps depend on it",
                where=upper.origin((key,)).where,
                why=f"{lower.name} has it at {below.origin((key,)).where}",
                next_step="remove the key; a site, an override or --set can change a base",
            )
    for table in _ADDED:
        written = config.subtree(upper, (table,))
        for key in written.data if written else ():
            place = _place_in(below, table, key)
            if place is not None:
                raise ConfigError(
                    f"{table}.{key}: the recipe {lower.name} has an entry of this name",
                    where=upper.origin((table, key)).where,
                    why=f"its steps depend on it ({place})",
                    next_step="use another name",
                )


def _place_in(document: Document, table: str, key: str) -> object:
    """Return where a table of a recipe, or of a variant of it, has a key; None where none has."""
    variants = config.subtree(document, ("variants",))
    paths: list[tuple[str, ...]] = [(table,)]
    paths += [("variants", name, "changes", table) for name in (variants.data if variants else ())]
    for path in paths:
        part = config.subtree(document, path)
        if part is not None and key in part.data:
            return part.origin((key,)).where
    return None
