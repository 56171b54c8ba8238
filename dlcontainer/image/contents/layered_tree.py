"""The tree of an OCI image, read from its layers as they lie; only what is asked is unpacked.

Source: OCI image specification, layer.md: "Whiteouts", "Opaque Whiteout".
"""

import gzip
import posixpath
import shutil
import stat
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO, cast

from dlcontainer.errors import ChecksFailedError
from dlcontainer.image.contents import zstd
from dlcontainer.image.contents.model import TreeEntry
from dlcontainer.system import foreign_tars

_HIDDEN, _EMPTIED = ".wh.", ".wh..wh..opq"
_GZIP = b"\x1f\x8b"
# Far beyond an image's: files of all layers, and bytes that one layer unpacks to.
_MOST_FILES = 3_000_000
_MOST_LAYER = 64 * 10**9


@dataclass(frozen=True, kw_only=True, slots=True)
class _LayerFile:
    """Where a file of the image lies: the layer's number, and the member's path in it."""

    entry: TreeEntry
    layer: int
    member: str


@dataclass(kw_only=True, slots=True)
class _LayerListing:
    """What a layer has, and what it takes away of those below it."""

    places: dict[str, _LayerFile] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    # folders of which nothing below is left
    emptied: set[str] = field(default_factory=set)

    def keeps(self, path: str) -> bool:
        """Return whether a file of a lower layer is still there."""
        if path in self.hidden:
            return False
        while path := path.rpartition("/")[0]:
            if path in self.emptied or path in self.hidden:
                return False
        return "" not in self.emptied


@dataclass(kw_only=True, slots=True)
class LayeredTree:
    """The tree that layers make, the lowest first."""

    layers: Sequence[Path]
    most_bytes: int = _MOST_LAYER
    _places: dict[str, _LayerFile] = field(default_factory=dict)
    _deleted: dict[str, TreeEntry] = field(default_factory=dict)

    def entries(self) -> Sequence[TreeEntry]:
        """List all entries; raises ChecksFailedError for a layer that can't be read."""
        if not self._places:
            for number in range(len(self.layers)):
                self._add(self._listed(number))
        entries = {path: place.entry for path, place in self._places.items()}
        # A layer need not list the folders of its files.
        for path in self._places:
            while (path := path.rpartition("/")[0]) and path not in entries:
                entries[path] = TreeEntry(path=path, kind="d", size=0)
        return [entries[path] for path in sorted(entries)]

    def deleted(self) -> Sequence[TreeEntry]:
        """List the files of layers that a later one takes away, or writes over."""
        self.entries()
        return [self._deleted[path] for path in sorted(self._deleted)]

    def fetch(self, paths: Iterable[str], folder: Path) -> Mapping[str, Path]:
        """Lay regular files out in a private folder, by number: no name of a layer is used."""
        self.entries()
        missing: dict[int, dict[str, list[str]]] = {}
        for path in paths:
            place = self._places.get(path)
            if place is not None and place.entry.kind == "-":
                missing.setdefault(place.layer, {}).setdefault(place.member, []).append(path)
        files: dict[str, Path] = {}
        for number, members in missing.items():
            for tar, member in self._members(number):
                if files.keys() >= {path for paths in members.values() for path in paths}:
                    break
                source = tar.extractfile(member) if _path(member.name) in members else None
                if source is None or not member.isreg():
                    continue
                target = folder / f"{number}-{len(files)}"
                with source, target.open("wb") as file:
                    shutil.copyfileobj(source, file)
                files |= dict.fromkeys(members[_path(member.name)], target)
        return files

    def _add(self, listing: _LayerListing) -> None:
        kept = {path: place for path, place in self._places.items() if listing.keeps(path)}
        self._deleted |= {
            path: place.entry
            for path, place in self._places.items()
            if place.entry.kind == "-" and (path not in kept or path in listing.places)
        }
        self._places = {**kept, **listing.places}
        if len(self._places) > _MOST_FILES:
            raise _unreadable(len(self.layers), f"more than {_MOST_FILES} files")

    def _listed(self, number: int) -> _LayerListing:
        listing = _LayerListing()
        for _, member in self._members(number):
            path = _path(member.name)
            folder, _, name = path.rpartition("/")
            if name == _EMPTIED:
                listing.emptied.add(folder)
            elif name.startswith(_HIDDEN):
                listing.hidden.add(f"{folder}/{name.removeprefix(_HIDDEN)}")
            elif path != "/":
                place = self._place(member, path, number, listing)
                listing.places[path] = place
                if place.entry.kind != "d":
                    listing.emptied.add(path)  # a folder was here, in a lower layer
            if len(listing.places) > _MOST_FILES:
                raise _unreadable(number, f"more than {_MOST_FILES} files")
        return listing

    def _place(
        self, member: tarfile.TarInfo, path: str, number: int, listing: _LayerListing
    ) -> _LayerFile:
        entry = _entry(member, path)
        if member.islnk():
            target = _path(member.linkname)
            source = listing.places.get(target) or self._places.get(target)
            if source is not None:
                size, kind = source.entry.size, source.entry.kind
                entry = TreeEntry(path=path, kind=kind, size=size, mode=source.entry.mode)
                return _LayerFile(entry=entry, layer=source.layer, member=source.member)
        return _LayerFile(entry=entry, layer=number, member=path)

    def _members(self, number: int) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
        damage: tuple[type[Exception], ...]
        damage = (tarfile.TarError, zlib.error, EOFError, OSError, ValueError, *zstd.errors())
        try:
            with self.layers[number].open("rb") as file:
                stream = _LayerStream(stream=_unpacked(file), remaining=self.most_bytes)
                with tarfile.open(
                    fileobj=cast("IO[bytes]", stream), mode="r|", tarinfo=foreign_tars.Member
                ) as tar:
                    for member in tar:
                        yield tar, member
                        # Else all of them stay in memory; the stubs do not know the list.
                        tar.members.clear()  # type: ignore[attr-defined]
        except damage as error:
            raise _unreadable(number, str(error)) from None


@dataclass(kw_only=True, slots=True)
class _LayerStream:
    """A stream that ends with an error where it is longer than allowed."""

    stream: IO[bytes]
    remaining: int

    def read(self, size: int) -> bytes:
        """Return so many bytes, fewer at the end; raises ValueError."""
        block = self.stream.read(size)
        self.remaining -= len(block)
        if self.remaining < 0:
            raise ValueError("it unpacks to more than an image's layer has")
        return block


def _unpacked(file: BinaryIO) -> IO[bytes]:
    first = file.read(4)
    file.seek(0)
    if first.startswith(_GZIP):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=file))
    return zstd.opened(file) if first == zstd.MAGIC else file


def _path(name: str) -> str:
    return "/" + posixpath.normpath(f"/{name}").lstrip("/")


def _entry(member: tarfile.TarInfo, path: str) -> TreeEntry:
    kinds = ((member.isreg, "-"), (member.isdir, "d"), (member.issym, "l"))
    return TreeEntry(
        path=path,
        kind=next((letter for is_it, letter in kinds if is_it()), "c"),
        size=member.size if member.isreg() else 0,
        mode=stat.filemode(member.mode)[1:],
        owner=f"{member.uid}/{member.gid}",
        target=member.linkname if member.issym() else "",
    )


def _unreadable(number: int, why: str) -> ChecksFailedError:
    return ChecksFailedError(
        f"layer {number + 1} of the image can't be read",
        why=why,
        next_step="copy the image again; of layers in zstd: pip install 'dlcontainer[zstd]'",
    )
