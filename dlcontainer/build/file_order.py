"""How files lie in a SquashFS: what a trace opened first lies first, some libraries as they are."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import ConfigError
from dlcontainer.image import layout, open_trace
from dlcontainer.image.contents import FileTree, TreeEntry, elf
from dlcontainer.image.open_trace import Trace

# mksquashfs: -32768 to 32767, the highest first; what is in no list has 0.
_HIGHEST = 32767
# More than any tree has on the way to one file: a ring of links ends here.
_MOST_LINKS = 40
# What mksquashfs's own language and its patterns take as it is.
_PLAIN = re.compile(r"[A-Za-z0-9._/+-]+")
_ENGINE = ("/.singularity.d/actions/", "/.singularity.d/env/")


@dataclass(frozen=True, kw_only=True, slots=True)
class SortFile:
    """The text of a sort file, how many files it has and how many paths are none of the tree's."""

    text: bytes
    files: int
    strangers: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SquashOrder:
    """The texts of mksquashfs's sort file and action file; empty where none is needed."""

    sort: bytes
    actions: bytes


def sort(trace: Trace, entries: Sequence[TreeEntry]) -> SortFile:
    """Return mksquashfs's sort file for a tree: each traced file of it, once, in the trace's order.

    The module pack lies first, in the trace or not, and then what the engine reads at each start.
    Links are followed inside the tree. A path whose file is not there counts as a stranger.
    """
    kinds = {entry.path: entry.kind for entry in entries}
    links = {entry.path: entry.target for entry in entries if entry.kind == "l"}
    # Each import reads the pack, and most traces begin where it is open already.
    ranks = {path: None for path in sorted(kinds) if path.endswith(layout.PACK_FILE)}
    if ranks:
        each_start = [path for path in sorted(kinds) if path.startswith(_ENGINE)]
        ranks.update({path: None for path in each_start if kinds[path] == "-"})
    strangers = 0
    for path in trace.paths:
        real = _real(path, links)
        if real is None or real not in kinds:
            strangers += 1
        elif kinds[real] == "-":
            ranks.setdefault(real)
    # More files than numbers: neighbours share one, and lie as they would without a trace.
    stride = len(ranks) // _HIGHEST + 1
    lines = [
        _escaped(path) + b" %d\n" % (_HIGHEST - number // stride)
        for number, path in enumerate(ranks)
    ]
    return SortFile(text=b"".join(lines), files=len(ranks), strangers=strangers)


def arranger(
    trace: Trace | None, note: Callable[[str], None], *, has_pack: bool, raw_libraries: bool = False
) -> Callable[[FileTree, Path], SquashOrder] | None:
    """Return what arranges a tree's files and notes how much of the trace it has.

    Without a trace it is the one that the step `pack` left in the tree; without that, no order.
    `raw_libraries`: those that the pack's imports open are not compressed.
    """
    if trace is None and not has_pack:
        return None

    def made(tree: FileTree, folder: Path) -> SquashOrder:
        pack_trace, entries = of_pack(tree, folder) if has_pack else Trace(paths=()), tree.entries()
        sort_file = sort(trace or pack_trace, entries)
        if trace:
            note(f"ordered {sort_file.files} files of the image as in the trace")
        if trace and sort_file.strangers:
            note(f"skipped {sort_file.strangers} paths of the trace that are not in the image")
        return SquashOrder(
            sort=sort_file.text, actions=raw(pack_trace, entries) if raw_libraries else b""
        )

    return made


def raw(trace: Trace, entries: Sequence[TreeEntry]) -> bytes:
    """Return mksquashfs's actions that leave a trace's shared libraries uncompressed.

    A name that means something to its patterns is passed over: that file is compressed as usual.
    """
    libraries = {entry.path for entry in entries if elf.is_library(entry)}
    names = [path for path in trace.paths if f"/{path}" in libraries and _PLAIN.fullmatch(path)]
    return "".join(f'uncompressed@pathname("{name}")\n' for name in names).encode()


def of_pack(tree: FileTree, folder: Path) -> Trace:
    """Read the trace that the step `pack` has left; an empty one where no import was traced."""
    path = tree.fetch([layout.TRACE], folder).get(layout.TRACE)
    try:
        return open_trace.read(path) if path else Trace(paths=())
    except ConfigError:
        return Trace(paths=())


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
