"""Compare two images bit by bit: which parts differ, and which files of the tree, and in what."""

import filecmp
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.image import sif
from dlcontainer.image.contents import Entry, Packed
from dlcontainer.image.sif import Part
from dlcontainer.system.process import Runner
from dlcontainer.system.workspace import temporary

_CHUNK = 1 << 22


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A part of the image file, or a file of the tree, that is not the same in both."""

    path: str
    # "only in the first", "content", "time", "mode" …
    how: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bits:
    """What differs between two image files; nothing where they are the same, bit by bit."""

    same: bool
    parts: tuple[Difference, ...] = ()
    files: tuple[Difference, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Outline:
    """Whether two image files are the same bytes, or their trees; and the parts that are not."""

    identical: bool
    same_tree: bool = True
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Unpacked:
    """A file of an image's tree, and where it was unpacked."""

    entry: Entry
    path: Path


def compare(one: Path, other: Path, environ: Mapping[str, str], runner: Runner) -> Bits:
    """Compare two image files; both trees are unpacked below TMPDIR where theirs differ.

    Raises ChecksFailedError for what is no image or is cut, EngineError without unsquashfs.
    """
    trees = [Packed.of(image, environ, runner) for image in (one, other)]
    parts = _parts(one, other)
    if filecmp.cmp(one, other, shallow=False):
        return Bits(same=True)
    if _same(one, sif.tree(one), other, sif.tree(other)):
        # The file system of both is the same: only the image's head, or other parts, differ.
        return Bits(same=False, parts=parts)
    with temporary(environ, runner) as work:
        folders = [work / "one", work / "other"]
        for tree, folder in zip(trees, folders, strict=True):
            tree.unpack(folder)
        files = _files([_by_path(tree) for tree in trees], folders)
    return Bits(same=False, parts=parts, files=tuple(files))


def outline(one: Path, other: Path) -> Outline:
    """Compare two image files by their bytes; no tree is unpacked. Raises as `compare`."""
    if filecmp.cmp(one, other, shallow=False):
        return Outline(identical=True)
    return Outline(
        identical=False,
        same_tree=_same(one, sif.tree(one), other, sif.tree(other)),
        parts=tuple(part.path for part in _parts(one, other)),
    )


def _parts(one: Path, other: Path) -> tuple[Difference, ...]:
    sides = [{part.name or part.kind: part for part in sif.parts(image)} for image in (one, other)]
    found = []
    for name in sorted({*sides[0], *sides[1]}):
        how = _only(name, sides[0], sides[1])
        if not how and not _same(one, sides[0][name], other, sides[1][name]):
            how = ["content"]
        if how:
            found.append(Difference(path=name, how=tuple(how)))
    if sif.head(one) != sif.head(other):
        found.append(Difference(path="the head", how=("id, times or places of the parts",)))
    return tuple(found)


def _same(one: Path, part: Part, other: Path, its: Part) -> bool:
    if part.size != its.size:
        return False
    with one.open("rb") as file, other.open("rb") as second:
        file.seek(part.offset)
        second.seek(its.offset)
        left = part.size
        while left > 0:
            step = min(left, _CHUNK)
            if file.read(step) != second.read(step):
                return False
            left -= step
    return True


def _files(sides: list[dict[str, Entry]], folders: list[Path]) -> list[Difference]:
    found = []
    for path in sorted({*sides[0], *sides[1]}):
        how = _only(path, sides[0], sides[1])
        if not how:
            one, other = (
                _Unpacked(entry=side[path], path=folder / path.lstrip("/"))
                for side, folder in zip(sides, folders, strict=True)
            )
            how = _differences(one, other)
        if how:
            found.append(Difference(path=path, how=tuple(how)))
    return found


def _differences(one: _Unpacked, other: _Unpacked) -> list[str]:
    names = ("kind", "mode", "owner", "target")
    how = [name for name in names if getattr(one.entry, name) != getattr(other.entry, name)]
    try:
        are_files = one.entry.kind == other.entry.kind == "-"
        if are_files and not filecmp.cmp(one.path, other.path, shallow=False):
            how.append("content")
        if one.path.lstat().st_mtime_ns != other.path.lstat().st_mtime_ns:
            how.append("time")
    except OSError:
        how.append("can't be read")  # a device, or a folder that only its owner may enter
    return how


def _only(name: str, one: Container[str], other: Container[str]) -> list[str]:
    if name not in one:
        return ["only in the second"]
    return [] if name in other else ["only in the first"]


def _by_path(tree: Packed) -> dict[str, Entry]:
    return {entry.path: entry for entry in tree.entries()}
