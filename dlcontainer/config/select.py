"""Documents from data, and parts of documents, with the origins kept."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from dlcontainer.config.document import Document, KeyPath, ValueOrigin, walk

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectedDocument(Generic[T]):
    """A validated value beside the document that it was made from."""

    value: T
    document: Document


def from_data(data: Mapping[str, object], *, layer: str) -> Document:
    """Make a document of plain data that stands in no file."""
    origin = ValueOrigin(layer=layer, mark=None)
    copied = dict(data)
    return Document(data=copied, origins={path: origin for path, _ in walk(copied)})


def subtree(document: Document, path: KeyPath) -> Document | None:
    """Return the mapping at a path as a document of its own; None where there is none."""
    value: object = document.data
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    if not isinstance(value, dict):
        return None
    return Document(data=value, origins=_Below(document.origins, path))


class _Below(Mapping[KeyPath, ValueOrigin]):
    """The origins below a path, looked up where they are.

    A recipe has thousands, and a part of it is read for each variant and site: copies would be most
    of the time of a plan.
    """

    __slots__ = ("_origins", "_path")

    def __init__(self, origins: Mapping[KeyPath, ValueOrigin], path: KeyPath) -> None:
        # Of a part's part, one look-up too.
        if isinstance(origins, _Below):
            path = (*origins._path, *path)
            origins = origins._origins
        self._origins: Mapping[KeyPath, ValueOrigin] = origins
        self._path: KeyPath = path

    def __getitem__(self, key: KeyPath) -> ValueOrigin:
        return self._origins[(*self._path, *key)]

    def __iter__(self) -> Iterator[KeyPath]:
        length = len(self._path)
        return (key[length:] for key in self._origins if key[:length] == self._path)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def nest(document: Document, key: str) -> Document:
    """Put a document under a key of a new one."""
    origins: dict[KeyPath, ValueOrigin] = {
        (key, *path): origin for path, origin in document.origins.items()
    }
    origins[()] = document.origin(())
    return Document(data={key: document.data}, origins=origins)


def without(document: Document, key: str) -> Document:
    """Leave a key of the top level out."""
    return Document(
        data={name: value for name, value in document.data.items() if name != key},
        origins={path: origin for path, origin in document.origins.items() if path[:1] != (key,)},
    )


def replaced(document: Document, parts: Mapping[KeyPath, Document]) -> Document:
    """Put documents in the place of the mappings at paths, none of which is below another."""
    data: object = document.data
    for path, part in parts.items():
        data = _put(data, path, part.data)
    # In one go: a recipe has thousands of origins, and many variants.
    lengths = {len(path) for path in parts}
    origins = {
        key: origin
        for key, origin in document.origins.items()
        if not any(key[:length] in parts for length in lengths)
    }
    for path, part in parts.items():
        origins.update(((*path, *key), origin) for key, origin in part.origins.items())
    return Document(data=data if isinstance(data, dict) else {}, origins=origins)


def _put(value: object, path: KeyPath, new: object) -> object:
    if not path:
        return new
    mapping = dict(value) if isinstance(value, dict) else {}
    return {**mapping, str(path[0]): _put(mapping.get(path[0]), path[1:], new)}


def map_text(document: Document, change: Callable[[KeyPath, str, ValueOrigin], str]) -> Document:
    """Replace each text of a document by what `change` makes of it."""

    def mapped(value: object, path: KeyPath) -> object:
        if isinstance(value, dict):
            return {key: mapped(inner, (*path, key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [mapped(inner, (*path, index)) for index, inner in enumerate(value)]
        return change(path, value, document.origin(path)) if isinstance(value, str) else value

    return Document(
        data={key: mapped(value, (key,)) for key, value in document.data.items()},
        origins=document.origins,
    )
