"""Which file of the folder stands at a path of the image, by the COPY lines so far."""

import os
import posixpath
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple


class Copy(NamedTuple):
    """One copy, the line that it stands at, and its target in the image."""

    source: str
    target: str
    line: int


@dataclass(kw_only=True, slots=True)
class CopiedFiles:
    """The files that a Dockerfile or a definition copies from its own folder."""

    folder: Path
    _copies: list[Copy] = field(default_factory=list)
    _found: set[Copy] = field(default_factory=set)

    def add(self, source: str, target: str, current: str, line: int) -> None:
        """Note one copy; `current` is the image's folder that a target counts from."""
        target = posixpath.normpath(posixpath.join(current, target))
        self._copies.append(Copy(source=source, target=target, line=line))

    @property
    def used_up(self) -> set[int]:
        """The lines that copy nothing but files which were found by their paths."""
        rest = {copy.line for copy in self._copies if copy not in self._found}
        return {copy.line for copy in self._found} - rest

    def find(self, path: str, current: str) -> Path | None:
        """Return the file of the folder that stands at a path of the image; None for none known.

        It may lie anywhere, since a source may say `..`: who reads it looks.
        """
        place = posixpath.normpath(posixpath.join(current, path))
        for copy in reversed(self._copies):
            file = self._of_copy(copy.source, copy.target, place)
            if file is not None:
                if not (self.folder / copy.source).is_dir() and "*" not in copy.source:
                    self._found.add(copy)
                return file
        return None

    def _of_copy(self, source: str, target: str, place: str) -> Path | None:
        name = posixpath.basename(posixpath.normpath(source))
        if any(mark in source for mark in "*?["):
            inside = posixpath.basename(place)
            if posixpath.dirname(place) == target and fnmatchcase(inside, name):
                return self.folder / posixpath.dirname(source) / inside
            return None
        at = self.folder / source
        if not at.is_dir():
            return at if place in (target, posixpath.join(target, name)) else None
        for top in (target, posixpath.join(target, name)):
            rest = posixpath.relpath(place, top)
            if not rest.startswith("..") and os.path.lexists(at / rest):
                return at / rest
        return None
