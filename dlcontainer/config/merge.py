"""Several documents, one over the other."""

from dlcontainer.config.document import Document, KeyPath, Origin, dotted, walk
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
    origins: dict[KeyPath, Origin] = {}
    data = _merge_mapping(base, later, (base.data, later.data), (), origins)
    return Document(data=data, origins=origins)


def _merge_mapping(
    base: Document,
    later: Document,
    pair: tuple[dict[str, object], dict[str, object]],
    path: KeyPath,
    origins: dict[KeyPath, Origin],
) -> dict[str, object]:
    old, new = pair
    # The first that stands in a file, where a missing key could be written; else the first.
    there = [layer.origins[path] for layer in (base, later) if path in layer.origins]
    if there:
        origins[path] = next((origin for origin in there if origin.mark), there[0])
    result: dict[str, object] = {}
    for key in [*old, *(key for key in new if key not in old)]:
        here = (*path, key)
        if key not in new:
            result[key] = _keep(base, old[key], here, origins)
        elif new[key] is None:
            continue
        elif isinstance(theirs := new[key], dict):
            mine = {} if old.get(key) is None else old[key]
            if not isinstance(mine, dict):
                raise _clash(base, later, here, (mine, theirs))
            result[key] = _merge_mapping(base, later, (mine, theirs), here, origins)
        elif isinstance(old.get(key), dict):
            raise _clash(base, later, here, (old[key], theirs))
        else:
            result[key] = _keep(later, theirs, here, origins)
    return result


def _keep(owner: Document, value: object, path: KeyPath, origins: dict[KeyPath, Origin]) -> object:
    for inner, _ in walk(value, path):
        if inner in owner.origins:
            origins[inner] = owner.origins[inner]
    return value


def _clash(
    base: Document, later: Document, path: KeyPath, pair: tuple[object, object]
) -> ConfigError:
    old, new = pair
    there = base.origin(path)
    return ConfigError(
        f"{dotted(path)}: {kind(new)} cannot replace {kind(old)}",
        where=later.origin(path).where,
        why=f"{there.layer} has {kind(old)} there ({there.where})",
    )
