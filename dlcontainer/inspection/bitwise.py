"""Compare two images bit by bit: which parts differ, and which files of the tree, and in what."""

import filecmp
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.image import sif
from dlcontainer.image.contents import SquashfsTree, TreeEntry
from dlcontainer.image.sif import SifPart
from dlcontainer.system.process import Runner
from dlcontainer.system.workspace import temporary

_CHUNK = 1 << 22


@dataclass(frozen=True, kw_only=True, slots=True)
class ByteDifference:
    """A part of the image file, or a file of the tree, that is not the same in both."""

    path: str
    # "only in the first", "content", "time", "mode" …
    how: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bits:
    """What differs between two image files; nothing where they are the same, bit by bit."""

    same: bool
    parts: tuple[ByteDifference, ...] = ()
    files: tuple[ByteDifference, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Outline:
    """Whether two image files are the same bytes, or their trees; and the parts that are not."""

    identical: bool
    same_tree: bool = True
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _UnpackedFile:
    """A file of an image's tree, and where it was unpacked."""

    entry: TreeEntry
    path: Path


def compare(before: Path, after: Path, environ: Mapping[str, str], runner: Runner) -> Bits:
    """Compare two image files; both trees are unpacked below TMPDIR where theirs differ.

    Raises ChecksFailedError for what is no image or is cut, EngineError without unsquashfs.
    """
    trees = [SquashfsTree.of(image, environ, runner) for image in (before, after)]
    parts = _parts(before, after)
    if filecmp.cmp(before, after, shallow=False):
        return Bits(same=True)
    if _same(before, sif.tree(before), after, sif.tree(after)):
        # The file system of both is the same: only the image's head, or other parts, differ.
        return Bits(same=False, parts=parts)
    with temporary(environ, runner) as work:
        folders = [work / "one", work / "other"]
        for tree, folder in zip(trees, folders, strict=True):
            tree.unpack(folder)
        files = _files([_by_path(tree) for tree in trees], folders)
    return Bits(same=False, parts=parts, files=tuple(files))


def outline(before: Path, after: Path) -> Outline:
    """Compare two image files by their bytes; no tree is unpacked. Raises as `compare`."""
    if filecmp.cmp(before, after, shallow=False):
        return Outline(identical=True)
    return Outline(
        identical=False,
        same_tree=_same(before, sif.tree(before), after, sif.tree(after)),
        parts=tuple(part.path for part in _parts(before, after)),
    )


def _parts(before: Path, after: Path) -> tuple[ByteDifference, ...]:
    sides = [
        {part.name or part.kind: part for part in sif.parts(image)} for image in (before, after)
    ]
    differing = []
    for name in sorted({*sides[0], *sides[1]}):
        how = _only(name, sides[0], sides[1])
        if not how and not _same(before, sides[0][name], after, sides[1][name]):
            how = ["content"]
        if how:
            differing.append(ByteDifference(path=name, how=tuple(how)))
    if sif.head(before) != sif.head(after):
        differing.append(ByteDifference(path="the head", how=("id, times or places of the parts",)))
    return tuple(differing)


def _same(before: Path, part: SifPart, after: Path, its: SifPart) -> bool:
    if part.size != its.size:
        return False
    with before.open("rb") as file, after.open("rb") as second:
        file.seek(part.offset)
        second.seek(its.offset)
        remaining = part.size
        while remaining > 0:
            step = min(remaining, _CHUNK)
            if file.read(step) != second.read(step):
                return False
            remaining -= step
    return True


def _files(sides: list[dict[str, TreeEntry]], folders: list[Path]) -> list[ByteDifference]:
    differing = []
    for path in sorted({*sides[0], *sides[1]}):
        how = _only(path, sides[0], sides[1])
        if not how:
            ours, theirs = (
                _UnpackedFile(entry=side[path], path=folder / path.lstrip("/"))
                for side, folder in zip(sides, folders, strict=True)
            )
            how = _differences(ours, theirs)
        if how:
            differing.append(ByteDifference(path=path, how=tuple(how)))
    return differing


def _differences(before: _UnpackedFile, after: _UnpackedFile) -> list[str]:
    names = ("kind", "mode", "owner", "target")
    how = [name for name in names if getattr(before.entry, name) != getattr(after.entry, name)]
    try:
        are_files = before.entry.kind == after.entry.kind == "-"
        if are_files and not filecmp.cmp(before.path, after.path, shallow=False):
            how.append("content")
        if before.path.lstat().st_mtime_ns != after.path.lstat().st_mtime_ns:
            how.append("time")
    except OSError:
        how.append("can't be read")  # a device, or a folder that only its owner may enter
    return how


def _only(name: str, before: Container[str], after: Container[str]) -> list[str]:
    if name not in before:
        return ["only in the second"]
    return [] if name in after else ["only in the first"]


def _by_path(tree: SquashfsTree) -> dict[str, TreeEntry]:
    return {entry.path: entry for entry in tree.entries()}
