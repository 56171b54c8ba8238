"""Where a path of an image leads, within the image, as a program inside follows it."""

from collections.abc import Mapping

from dlcontainer.image.contents.model import TreeEntry

# As the kernel follows.
_MOST_HOPS = 40


def followed(path: str, entries: Mapping[str, TreeEntry]) -> TreeEntry | None:
    """Return the entry that a path leads to through all links; None where there is none."""
    rest, position, hops = path.split("/"), "", 0
    reached: TreeEntry | None = None
    while rest:
        part = rest.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            position, reached = position.rpartition("/")[0], None
            continue
        target = entries.get(f"{position}/{part}")
        if target is None:
            return None
        if target.kind != "l":
            position, reached = target.path, target
            continue
        hops += 1
        if hops > _MOST_HOPS:
            return None
        rest = [*target.target.split("/"), *rest]
        position = "" if target.target.startswith("/") else position
    return reached
