"""Folders held by their descriptors: what others rename or link meanwhile leads nowhere else."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from dlcontainer.errors import PublishError
from dlcontainer.system import foreign_files

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Folder:
    """An open folder; names are looked up in it, one part each, and links are not followed."""

    def __init__(self, number: int, path: Path) -> None:
        """Take over an open descriptor; `path` is for messages."""
        self.number, self.path = number, path

    @classmethod
    def at(cls, path: Path) -> "Folder":
        """Open a folder by its path, through links: for the one folder that the user names."""
        return cls(os.open(path, _FLAGS), path)

    def __enter__(self) -> "Folder":
        """Be closed at the end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the folder."""
        os.close(self.number)

    def info(self, name: str) -> os.stat_result | None:
        """Describe an entry, a link as a link; None where there is none."""
        with self._at(name):
            try:
                return os.stat(name, dir_fd=self.number, follow_symlinks=False)
            except FileNotFoundError:
                return None

    def has_file(self, name: str) -> bool:
        """Return whether there is a regular file of this name."""
        info = self.info(name)
        return info is not None and stat.S_ISREG(info.st_mode)

    def sub(self, name: str) -> "Folder":
        """Open a folder in this one; raises PublishError for a link and for anything else."""
        info = self.info(name)
        if info is not None and not stat.S_ISDIR(info.st_mode):
            kind = "a symbolic link" if stat.S_ISLNK(info.st_mode) else "not a folder"
            raise PublishError(
                f"{self.path / name} is {kind}",
                why="modules are published in real folders only",
                next_step="find out who created it; then remove it, or publish elsewhere: --root "
                "DIR",
            )
        with self._at(name):
            return Folder(
                os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=self.number), self.path / name
            )

    def make(self, name: str) -> "Folder":
        """Make a folder in this one, private for now; raises FileExistsError."""
        with self._at(name):
            os.mkdir(name, 0o700, dir_fd=self.number)
        folder = self.sub(name)
        if os.fstat(folder.number).st_uid == os.geteuid():
            return folder
        os.close(folder.number)
        raise PublishError(
            f"{self.path / name} was replaced while dlcontainer created it",
            next_step="find out who writes to this folder, then try again",
        )

    def open(self, name: str) -> BinaryIO:
        """Open a regular file to read; raises OSError, also for a link."""
        with self._at(name):
            return foreign_files.opened(name, follow=False, folder=self.number)

    def create(self, name: str) -> BinaryIO:
        """Open a new file to write, private for now; raises FileExistsError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._at(name):
            return os.fdopen(os.open(name, flags, 0o600, dir_fd=self.number), "wb")

    def write(self, name: str, data: bytes) -> None:
        """Write a new file."""
        with self.create(name) as file:
            file.write(data)

    def rename(self, name: str, target: "Folder", as_name: str) -> None:
        """Move an entry into another folder."""
        with target._at(as_name):
            os.rename(name, as_name, src_dir_fd=self.number, dst_dir_fd=target.number)

    @contextlib.contextmanager
    def _at(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.filename, error.filename2 = str(self.path / name), None
            raise
