"""Where a path of an image leads, within the image, as a program inside follows it."""

from collections.abc import Mapping

from dlcontainer.image.contents.model import Entry

# As the kernel follows.
_MOST_HOPS = 40


def followed(path: str, known: Mapping[str, Entry]) -> Entry | None:
    """Give the entry that a path leads to through all links; None where there is none."""
    rest, here, hops = path.split("/"), "", 0
    found: Entry | None = None
    while rest:
        part = rest.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            here, found = here.rpartition("/")[0], None
            continue
        there = known.get(f"{here}/{part}")
        if there is None:
            return None
        if there.kind != "l":
            here, found = there.path, there
            continue
        hops += 1
        if hops > _MOST_HOPS:
            return None
        rest = [*there.target.split("/"), *rest]
        here = "" if there.target.startswith("/") else here
    return found
