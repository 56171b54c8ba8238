"""Several documents, one over the other."""

from dataclasses import dataclass

from dlcontainer.config.document import Document, KeyPath, ValueOrigin, dotted, walk
from dlcontainer.config.yaml_text.scalars import kind
from dlcontainer.errors import ConfigError


def merge(*documents: Document) -> Document:
    """Lay documents over each other; the later wins.

    Mappings merge key by key, lists and other values are replaced whole, and a null in a later
    document removes the key. A merged mapping keeps the origin that it had first, one in a file
    before others.
    """
    merged = documents[0] if documents else Document(data={}, origins={})
    for later in documents[1:]:
        merged = _lay_over(merged, later)
    return merged


def _lay_over(base: Document, later: Document) -> Document:
    origins: dict[KeyPath, ValueOrigin] = {}
    over = _Overlay(base=base, later=later, origins=origins)
    return Document(data=over.merge(base.data, later.data, ()), origins=origins)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Overlay:
    """One document laid over another; `origins` gets the place of each value that stays."""

    base: Document
    later: Document
    origins: dict[KeyPath, ValueOrigin]

    def merge(
        self, old: dict[str, object], new: dict[str, object], path: KeyPath
    ) -> dict[str, object]:
        # The first that stands in a file, where a missing key could be written; else the first.
        layers = (self.base, self.later)
        origins = [layer.origins[path] for layer in layers if path in layer.origins]
        if origins:
            self.origins[path] = next((origin for origin in origins if origin.mark), origins[0])
        result: dict[str, object] = {}
        for key in [*old, *(key for key in new if key not in old)]:
            key_path = (*path, key)
            if key not in new:
                result[key] = self._keep(self.base, old[key], key_path)
            elif new[key] is None:
                continue
            elif isinstance(theirs := new[key], dict):
                mine = {} if old.get(key) is None else old[key]
                if not isinstance(mine, dict):
                    raise self._clash(mine, theirs, key_path)
                result[key] = self.merge(mine, theirs, key_path)
            elif isinstance(old.get(key), dict):
                raise self._clash(old[key], theirs, key_path)
            else:
                result[key] = self._keep(self.later, theirs, key_path)
        return result

    def _keep(self, owner: Document, value: object, path: KeyPath) -> object:
        for inner, _ in walk(value, path):
            if inner in owner.origins:
                self.origins[inner] = owner.origins[inner]
        return value

    def _clash(self, old: object, new: object, path: KeyPath) -> ConfigError:
        origin = self.base.origin(path)
        return ConfigError(
            f"{dotted(path)}: {kind(new)} cannot replace {kind(old)}",
            where=self.later.origin(path).where,
            why=f"{origin.layer} has {kind(old)} there ({origin.where})",
        )
