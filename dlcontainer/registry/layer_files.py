"""Single files of a layer, read from its tar as it comes; nothing is unpacked.

Source: OCI image specification, layer.md: "Whiteouts", "Opaque Whiteout".
"""

import posixpath
import tarfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import IO, cast

_HIDDEN = ".wh."
_EMPTIED = ".wh..wh..opq"
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_CHUNK = 1 << 16
# Long names and extended headers of a tar; a larger one is made to fill memory.
_MOST_HEADER = 1 << 20
_GZIP_BITS = 31


class RefusedLayerError(Exception):
    """A layer that can't be read, or does not end within its bounds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """The most bytes that a layer may unpack to, and that one of its files may have."""

    layer: int = 64 * 10**9
    file: int = 32 * 10**6


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerFiles:
    """What a layer says of the wanted files: their content, and those that it takes away."""

    content: dict[str, bytes] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)

    def add(self, path: str, content: bytes) -> None:
        """Note a file; it stands whatever the layer hides of those below it."""
        self.content[path] = content

    def hide(self, paths: Collection[str]) -> None:
        """Note files that lower layers have and the image has not."""
        self.hidden.update(paths)


def read(chunks: Iterator[bytes], paths: Collection[str], bounds: Bounds) -> LayerFiles:
    """Read the wanted files (absolute paths) of a layer; raises RefusedLayerError."""
    try:
        return _read(chunks, paths, bounds)
    except (tarfile.TarError, zlib.error, EOFError, ValueError, OverflowError) as error:
        raise RefusedLayerError(f"it is not a readable tar archive: {error}") from None


def _read(chunks: Iterator[bytes], paths: Collection[str], bounds: Bounds) -> LayerFiles:
    stream = _Forward(blocks=_bounded(_unpacked(chunks), bounds.layer))
    files = LayerFiles()
    with tarfile.TarFile(fileobj=cast("IO[bytes]", stream), mode="r") as tar:
        while (entry := tar.next()) is not None:
            # Else all of them stay in memory; the stubs do not know the list.
            tar.members.clear()  # type: ignore[attr-defined]
            path = _path(entry.name)
            folder, _, name = path.rpartition("/")
            if name == _EMPTIED:
                files.hide(_below(folder, paths))
            elif name.startswith(_HIDDEN):
                hidden = f"{folder}/{name.removeprefix(_HIDDEN)}"
                files.hide(_at_or_below(hidden, paths))
            elif entry.isreg() and path in paths:
                if entry.size > bounds.file:
                    raise RefusedLayerError(f"{path} is larger than {bounds.file} bytes")
                stream.allows = bounds.file
                file = tar.extractfile(entry)
                files.add(path, file.read() if file is not None else b"")
                stream.allows = _MOST_HEADER
            elif path in paths or not entry.isdir():
                # A link or a device in the place of a file, or of a folder above it.
                gone = _at_or_below(path, paths)
                files.hide(gone)
                for deleted in gone:
                    files.content.pop(deleted, None)
    return files


def _path(name: str) -> str:
    return "/" + posixpath.normpath(f"/{name}").lstrip("/")


def _below(folder: str, paths: Collection[str]) -> list[str]:
    return [path for path in paths if path.startswith(f"{folder}/")]


def _at_or_below(place: str, paths: Collection[str]) -> list[str]:
    return [path for path in paths if path == place] + _below(place, paths)


def _unpacked(chunks: Iterator[bytes]) -> Iterator[bytes]:
    first = next(chunks, b"")
    if first.startswith(_ZSTD):
        raise RefusedLayerError("it is compressed with zstd, which can't be read here; gzip can")
    if not first.startswith(_GZIP):
        yield first
        yield from chunks
        return
    unpacker = zlib.decompressobj(_GZIP_BITS)
    rest = first
    while rest or (rest := next(chunks, b"")):
        if unpacker.eof:  # a further member
            unpacker = zlib.decompressobj(_GZIP_BITS)
        yield unpacker.decompress(rest, _CHUNK)
        rest = unpacker.unconsumed_tail or unpacker.unused_data
    yield unpacker.flush()
    if not unpacker.eof:
        raise EOFError("it is truncated")


def _bounded(blocks: Iterator[bytes], most: int) -> Iterator[bytes]:
    size = 0
    for block in blocks:
        size += len(block)
        if size > most:
            raise RefusedLayerError(f"it unpacks to more than {most} bytes")
        yield block


@dataclass(kw_only=True, slots=True)
class _Forward:
    """A stream as tarfile reads it: it asks for the place, and skips forward."""

    blocks: Iterator[bytes]
    # the most that one read may ask for
    allows: int = _MOST_HEADER
    _at: int = 0
    # a view: cut in pieces without a copy
    _rest: memoryview = field(default_factory=lambda: memoryview(b""))

    def read(self, size: int) -> bytes:
        """Return so many bytes, fewer at the end."""
        if not 0 <= size <= self.allows:
            raise RefusedLayerError(f"one of its headers is {size} bytes long")
        parts: list[memoryview] = []
        missing = size
        while missing and self._fill():
            parts.append(self._rest[:missing])
            self._rest = self._rest[missing:]
            missing -= len(parts[-1])
        self._at += size - missing
        return b"".join(parts)

    def tell(self) -> int:
        """Return how far it was read."""
        return self._at

    def seek(self, place: int) -> None:
        """Skip to a place further on."""
        while self._at < place and self._fill():
            step = min(place - self._at, len(self._rest))
            self._rest = self._rest[step:]
            self._at += step

    def _fill(self) -> bool:
        while not self._rest:
            block = next(self.blocks, None)
            if block is None:
                return False
            self._rest = memoryview(block)
        return True
