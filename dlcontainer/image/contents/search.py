"""A search for bytes in the files of a tree, as a stream: no file is held whole."""

from collections.abc import Callable, Iterable, Sequence
from typing import BinaryIO, Protocol

from dlcontainer.image.contents.model import FileTree

# A secret is written by a tool into a text: a log, a setting, a cache. Larger files are libraries.
MOST_BYTES = 4 * 1024 * 1024
_CHUNK = 1 << 20


class SearchableTree(FileTree, Protocol):
    """A tree whose files can be read one after the other."""

    def each_file(self, look: Callable[[str, BinaryIO], None], most: int, since_ns: int) -> None:
        """Show each regular file of up to `most` bytes, by its path; links are not followed.

        Not those that nobody changed since `since_ns` (the inode's clock, ns), where that is known.
        """


def search(
    tree: SearchableTree, needles: Sequence[bytes], since_ns: int = 0, most: int = MOST_BYTES
) -> list[str]:
    """Name the entries of a tree that hold one of some texts, in a name, a link or a content."""
    names = tree.entries() if since_ns == 0 else ()
    hits = {
        entry.path
        for entry in names
        if _holds(f"{entry.path}\n{entry.target}".encode(errors="surrogateescape"), needles)
    }

    def look(path: str, file: BinaryIO) -> None:
        if in_stream(file, needles):
            hits.add(path)

    tree.each_file(look, most, since_ns)
    return sorted(hits)


def in_stream(file: BinaryIO, needles: Sequence[bytes]) -> bool:
    """Return whether what can be read holds one of some texts, across the ends of blocks too."""
    overlap = max(map(len, needles), default=1) - 1
    tail = b""
    while block := file.read(_CHUNK):
        if _holds(tail + block, needles):
            return True
        tail = (tail + block)[-overlap:] if overlap else b""
    return False


def _holds(data: bytes, needles: Iterable[bytes]) -> bool:
    return any(needle in data for needle in needles)
