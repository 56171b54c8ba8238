"""What differs between two images' files by their listings: no file is unpacked or read."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dlcontainer.image.contents import TreeEntry

_EXAMPLES = 3
_ASPECTS = ("kind", "size", "mode", "owner", "target")


@dataclass(frozen=True, kw_only=True, slots=True)
class FileChange:
    """Files that differ in one way: in what, how many, and some of them."""

    how: str
    count: int
    examples: tuple[str, ...]


def compare(first: Iterable[TreeEntry], second: Iterable[TreeEntry]) -> tuple[FileChange, ...]:
    """Group the files that differ by what differs; content of one size is not seen so."""
    sides = [{entry.path: entry for entry in entries} for entries in (first, second)]
    groups: dict[str, list[str]] = {}
    for path in sorted({*sides[0], *sides[1]}):
        for how in _differences(path, *sides):
            groups.setdefault(how, []).append(path)
    return tuple(
        FileChange(how=how, count=len(paths), examples=tuple(paths[:_EXAMPLES]))
        for how, paths in groups.items()
    )


def _differences(
    path: str, first: Mapping[str, TreeEntry], second: Mapping[str, TreeEntry]
) -> Iterator[str]:
    before, after = first.get(path), second.get(path)
    if before is None or after is None:
        yield "only in the second" if before is None else "only in the first"
        return
    aspects = [name for name in _ASPECTS if getattr(before, name) != getattr(after, name)]
    if aspects:
        yield from aspects
    elif before.time != after.time:
        yield "time"
