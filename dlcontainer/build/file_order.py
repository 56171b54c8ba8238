"""The order of files in a SquashFS, by a trace: what is opened first lies first, and together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import ConfigError
from dlcontainer.image import layout, open_trace
from dlcontainer.image.contents import Entry, Tree
from dlcontainer.image.open_trace import Trace

# mksquashfs: -32768 to 32767, the highest first; what is in no list has 0.
_HIGHEST = 32767
# More than any tree has on the way to one file: a ring of links ends here.
_MOST_LINKS = 40
_ENGINE = ("/.singularity.d/actions/", "/.singularity.d/env/")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sorted:
    """The text of a sort file, how many files it has and how many paths are none of the tree's."""

    text: bytes
    files: int
    strangers: int


def sort(trace: Trace, entries: Sequence[Entry]) -> Sorted:
    """Give mksquashfs's sort file for a tree: each traced file of it, once, in the trace's order.

    The module pack lies first, in the trace or not, and then what the engine reads at each start.
    Links are followed inside the tree. A path whose file is not there counts as a stranger.
    """
    kinds = {entry.path: entry.kind for entry in entries}
    links = {entry.path: entry.target for entry in entries if entry.kind == "l"}
    # Each import reads the pack, and most traces begin where it is open already.
    found = {path: None for path in sorted(kinds) if path.endswith(layout.PACK_FILE)}
    if found:
        each_start = [path for path in sorted(kinds) if path.startswith(_ENGINE)]
        found.update({path: None for path in each_start if kinds[path] == "-"})
    strangers = 0
    for path in trace.paths:
        real = _real(path, links)
        if real is None or real not in kinds:
            strangers += 1
        elif kinds[real] == "-":
            found.setdefault(real)
    # More files than numbers: neighbours share one, and lie as they would without a trace.
    each = len(found) // _HIGHEST + 1
    lines = [
        _escaped(path) + b" %d\n" % (_HIGHEST - number // each) for number, path in enumerate(found)
    ]
    return Sorted(text=b"".join(lines), files=len(found), strangers=strangers)


def sorter(
    trace: Trace | None, note: Callable[[str], None], *, has_pack: bool = False
) -> Callable[[Tree, Path], bytes] | None:
    """Give what makes the sort file of a tree and notes how much of the trace it has.

    Without a trace it is the one that the step `pack` left in the tree; without that, no order.
    """
    if trace is None and not has_pack:
        return None

    def made(tree: Tree, folder: Path) -> bytes:
        own = None if trace else of_pack(tree, folder)
        found = sort(trace or own or Trace(paths=()), tree.entries())
        if trace:
            note(f"{found.files} files lie in the order of the trace")
        if trace and found.strangers:
            note(f"{found.strangers} paths of the trace are not in the image: skipped")
        return found.text

    return made


def of_pack(tree: Tree, folder: Path) -> Trace | None:
    """Read the trace that the step `pack` has left; None where no import could be traced."""
    path = tree.fetch([layout.TRACE], folder).get(layout.TRACE)
    try:
        return open_trace.read(path) if path else None
    except ConfigError:
        return None


def _real(path: str, links: Mapping[str, str]) -> str | None:
    """Follow the links of a tree to a path from its root; None for a ring of them."""
    waiting, real, followed = path.split("/")[::-1], "", 0
    while waiting:
        part = waiting.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            real = real.rpartition("/")[0]
            continue
        target = links.get(f"{real}/{part}")
        if target is None:
            real = f"{real}/{part}"
            continue
        followed += 1
        if followed > _MOST_LINKS:
            return None
        real = "" if target.startswith("/") else real
        waiting += target.split("/")[::-1]
    return real


def _escaped(path: str) -> bytes:
    """Write a path for a sort file, relative to the tree; a backslash takes any byte as it is.

    Else a space ends the name, and '#' makes a comment of the line.
    """
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/+-"
    data = path.lstrip("/").encode(errors="surrogateescape")
    return b"".join(bytes([byte]) if byte in plain else b"\\" + bytes([byte]) for byte in data)
