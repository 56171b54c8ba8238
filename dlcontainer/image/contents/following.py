"""Paths of an image's tree, followed as a program in the image follows them: none leaves it."""

import posixpath
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

# As the kernel follows.
_MOST_HOPS = 40


class Links(Protocol):
    """The links of a tree: a path -> what the link says."""

    def get(self, path: str, /) -> str | None:
        """Return a link's text; None for what is no link."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LinksOnDisk:
    """The links of a tree that lies unpacked in a folder."""

    root: Path

    def get(self, path: str, /) -> str | None:
        """Read one link of the tree."""
        try:
            return str(Path(f"{self.root}{path}").readlink())
        except OSError:
            return None


class LeavesError(ValueError):
    """A path that leads out of its tree by '..', or in a circle."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FollowedPath:
    """A path that was followed in its tree: its end, and the links on the way."""

    end: str
    met: tuple[str, ...]


def follow(path: str, links: Links) -> FollowedPath:
    """Follow a path as a program in the image does; raises LeavesError."""
    rest, position, hops = path.split("/"), "", 0
    met = []
    while rest:
        part = rest.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            if not position:
                raise LeavesError("above the image's root")
            position = posixpath.dirname(position).rstrip("/")
            continue
        position = f"{position}/{part}"
        target = links.get(position)
        if target is None:
            continue
        hops += 1
        if hops > _MOST_HOPS:
            raise LeavesError("in a circle")
        met.append(position)
        rest = [*target.split("/"), *rest]
        position = "" if target.startswith("/") else posixpath.dirname(position).rstrip("/")
    return FollowedPath(end=position or "/", met=tuple(met))
