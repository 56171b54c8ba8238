"""A tree that lies unpacked in a folder: an image in the making."""

import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dlcontainer.image.contents.following import LeavesError, LinksOnDisk, follow
from dlcontainer.image.contents.model import TreeEntry, is_plain


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderTree:
    """The tree in a folder.

    No link is followed: an absolute one would lead to this host's files. Folders that this user
    may not enter (of a subordinate user, mode 0700) are passed over; no package database is one.
    """

    folder: Path

    def entries(self) -> Sequence[TreeEntry]:
        """List all entries that can be seen."""
        entries: list[TreeEntry] = []
        # Names are put together here: tens of thousands of paths would take longer than the disk.
        waiting = [""]
        while waiting:
            parent = waiting.pop()
            try:
                with os.scandir(f"{self.folder}{parent}") as names:
                    inside = list(names)
            except PermissionError:
                continue
            for child in inside:
                entry = _entry(child, f"{parent}/{child.name}")
                entries.append(entry)
                if entry.kind == "d":
                    waiting.append(entry.path)
        return sorted(entries, key=lambda entry: entry.path)

    def fetch(self, paths: Iterable[str], folder: Path) -> Mapping[str, Path]:  # noqa: ARG002
        """Return the files where they lie."""
        files, root = {}, self.folder.resolve()
        for path in paths:
            parent, _, name = path.rpartition("/")
            try:
                # An absolute link above it leads to the tree's own root, and never to this host.
                above = follow(parent, LinksOnDisk(root=root)).end
            except LeavesError:
                continue
            file = root / above.lstrip("/") / name
            if os.access(file, os.R_OK) and is_plain(file, root):
                files[path] = file
        return files

    def each_file(self, look: Callable[[str, BinaryIO], None], most: int, since_ns: int) -> None:
        """Show each regular file that this user may read; see `search.Searched`."""
        waiting = [""]
        while waiting:
            parent = waiting.pop()
            with suppress(PermissionError), os.scandir(f"{self.folder}{parent}") as names:
                for child in names:
                    path = f"{parent}/{child.name}"
                    if child.is_dir(follow_symlinks=False):
                        waiting.append(path)
                    elif child.is_file(follow_symlinks=False):
                        info = child.stat(follow_symlinks=False)
                        if 0 < info.st_size <= most and info.st_ctime_ns >= since_ns:
                            # A Path of each of tens of thousands would take longer than it.
                            with suppress(PermissionError), open(child.path, "rb", 0) as file:  # noqa: PTH123
                                look(path, file)


def _entry(child: "os.DirEntry[str]", path: str) -> TreeEntry:
    info = child.stat(follow_symlinks=False)
    mode = stat.filemode(info.st_mode)
    return TreeEntry(
        path=path,
        kind=mode[0],
        size=info.st_size if mode[0] == "-" else 0,
        mode=mode[1:],
        owner=f"{info.st_uid}/{info.st_gid}",
        target=str(Path(child.path).readlink()) if mode[0] == "l" else "",
    )
