"""The files of an image that is checked: read by unsquashfs, while nothing of the image runs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dlcontainer.engines.execution import Execution
from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import layout, libraries
from dlcontainer.image.contents import Library, SquashfsTree, TreeEntry, elf, links
from dlcontainer.image.contents.elf_format import LEAST_BYTES
from dlcontainer.system.workspace import temporary

_MOST_LIST_BYTES = 64_000_000
# Of all that is unpacked to be read: beyond, the question stays open.
_MOST_BYTES = 16_000_000_000


# No slots: an answer is kept in the instance's dictionary.
@dataclass(frozen=True, kw_only=True)
class ImageFiles:
    """An image's files; each question raises EngineError without unsquashfs, and
    ChecksFailedError for a tree that can't be read.
    """

    image: Path
    execution: Execution

    @cached_property
    def _tree(self) -> SquashfsTree:
        return SquashfsTree.of(self.image, self.execution.host.environ, self.execution.runner)

    def called(self, name: re.Pattern[str]) -> list[str]:
        """List the files of such a name, and the links that lead to a file."""
        return [
            entry.path
            for entry in self._tree.entries()
            if entry.kind in "-l"
            and name.fullmatch(entry.path.rpartition("/")[2])
            and self._is_file(entry.path)
        ]

    def _is_file(self, path: str) -> bool:
        target = links.followed(path, self._by_path)
        return target is not None and target.kind == "-"

    @cached_property
    def _by_path(self) -> Mapping[str, TreeEntry]:
        return {entry.path: entry for entry in self._tree.entries()}

    def asking(self, name: re.Pattern[str]) -> list[str]:
        """List the programs and libraries that need a library of such a name.

        The image's own list comes first; the distribution's files, which it leaves out, and
        programs are unpacked only where it has no answer.
        """
        return list(_asking(self._listed, name)) or list(_asking(self._others, name))

    @cached_property
    def _listed(self) -> Sequence[Library]:
        listings = [entry for entry in self._tree.entries() if entry.path == layout.LIBRARIES]
        if not listings or listings[0].size > _MOST_LIST_BYTES:
            return ()
        with temporary(self.execution.host.environ, self.execution.runner) as folder:
            files = self._tree.fetch([layout.LIBRARIES], folder)
            try:
                return libraries.read(files[layout.LIBRARIES].read_text(errors="replace"))
            except (ValueError, KeyError, TypeError):
                return ()  # then each of them is read

    @cached_property
    def _others(self) -> Sequence[Library]:
        paths = {library.path for library in self._listed}
        candidates = [
            entry
            for entry in self._tree.entries()
            if entry.path not in paths and (elf.is_library(entry) or _is_program(entry))
        ]
        size = sum(entry.size for entry in candidates)
        if size > _MOST_BYTES:
            raise ChecksFailedError(
                f"its programs and libraries are {size / 1e9:.0f} GB: too large to unpack"
            )
        with temporary(self.execution.host.environ, self.execution.runner) as folder:
            return elf.libraries(self._tree.fetch((entry.path for entry in candidates), folder))


def _is_program(entry: TreeEntry) -> bool:
    return entry.kind == "-" and "x" in entry.mode and entry.size > LEAST_BYTES


def _asking(libraries: Sequence[Library], name: re.Pattern[str]) -> Iterator[str]:
    for library in libraries:
        if any(map(name.fullmatch, library.needed)):
            yield library.path
