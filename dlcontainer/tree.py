"""The published tree: where things lie, and files there whose owner group and mode are set.

ROOT/images/NAME/VERSION/   image.sif record.json checks.json build.log bin/ module.lua module.tcl
ROOT/modules/lmod/NAME/VERSION.lua, ROOT/modules/tcl/NAME/VERSION     links into it
"""

import contextlib
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import PublishError

_CHUNK = 1 << 22
_WAIT_S = 600.0
# A killed publisher leaves a version without links; without locks only its age tells it from one
# that another publisher is just about to link.
GRACE_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where one version stands below a root."""

    root: Path
    name: str
    version: str

    @property
    def folder(self) -> Path:
        """The version's folder, with everything in it."""
        return self.root / "images" / self.name / self.version

    @property
    def links(self) -> dict[Path, str]:
        """What users see: each link, and the file of the folder that it leads to."""
        modules = self.root / "modules"
        return {
            modules / "lmod" / self.name / f"{self.version}.lua": "module.lua",
            modules / "tcl" / self.name / self.version: "module.tcl",
        }

    def visible(self) -> bool:
        """Tell whether users see this version: some link is there."""
        return any(link.is_symlink() or link.exists() for link in self.links)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ownership:
    """Group and modes of what is published, the same under any umask."""

    group: int
    # A group that the site config names must be had; the root's own is a default.
    required: bool
    # Of folders that several publishers share, from the root: set-group-ID and group-writable.
    shared: int

    def give(self, path: Path, mode: int) -> None:
        """Set group and mode."""
        self._own(path)
        path.chmod(mode)

    def _own(self, path: Path) -> None:
        if path.lstat().st_gid == self.group:
            return
        try:
            os.chown(path, -1, self.group, follow_symlinks=False)
        except PermissionError:
            if self.required:
                raise PublishError(
                    f"can't give {path.name} to the group {group_name(self.group)}",
                    why="only its members and root may",
                    next_step="publish as one of them, or change modules.group of the site",
                ) from None

    def folder(self, path: Path) -> None:
        """Make a folder that versions share, and those above it; an existing one stays as it is."""
        if path.is_dir():
            return
        self.folder(path.parent)
        try:
            path.mkdir()
        except FileExistsError:
            return  # another publisher's
        self.give(path, 0o755 | self.shared)

    def link(self, link: Path, target: Path, aside: Path) -> None:
        """Make a relative link by rename: it is there whole, with its group, or not at all."""
        self.folder(link.parent)
        aside.unlink(missing_ok=True)
        aside.symlink_to(os.path.relpath(target, link.parent))
        self._own(aside)
        aside.rename(link)
        sync(link.parent)


def ownership(root: Path, group: str | None) -> Ownership:
    """Take group and shared bits from the root; raises PublishError for an unknown group."""
    there = root.stat()
    shared = there.st_mode & (stat.S_ISGID | stat.S_IWGRP)
    if group is None:
        return Ownership(group=there.st_gid, required=False, shared=shared)
    import grp

    try:
        return Ownership(group=grp.getgrnam(group).gr_gid, required=True, shared=shared)
    except KeyError:
        raise PublishError(
            f"there is no group {group!r} on this host",
            next_step="change modules.group of the site, or publish where the group is known",
        ) from None


def group_name(number: int) -> str:
    """Name a group."""
    import grp

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def sync(path: Path) -> None:
    """Bring a file's or folder's contents to the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def copy(source: Path, target: Path) -> str:
    """Copy a file; give the SHA-256 of the bytes that were written."""
    digest = hashlib.sha256()
    with source.open("rb") as read, target.open("xb") as write:
        while chunk := read.read(_CHUNK):
            digest.update(chunk)
            write.write(chunk)
    return digest.hexdigest()


def settle_modes(folder: Path, own: Ownership) -> None:
    """Set group and mode of a staged version and bring it to the disk."""
    inherited = own.shared & stat.S_ISGID
    for parent, folders, files in os.walk(folder):
        for name in files:
            path = Path(parent) / name
            own.give(path, 0o755 if path.parent.name == "bin" else 0o644)
            sync(path)
        for name in folders:
            own.give(Path(parent) / name, 0o755 | inherited)
        sync(Path(parent))
    own.give(folder, 0o755 | inherited)


@contextlib.contextmanager
def locked(place: Place, own: Ownership, on_wait: Callable[[str], None]) -> Iterator[bool]:
    """Hold the module's lock, waiting for other publishers; False where there are no locks.

    Raises PublishError after ten minutes of waiting.
    """
    path = place.folder.parent / ".lock"
    own.folder(path.parent)
    number = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        with contextlib.suppress(PermissionError):  # another publisher's file
            own.give(path, 0o664)
        yield _take(number, place, on_wait)
    finally:
        os.close(number)


def _take(number: int, place: Place, on_wait: Callable[[str], None]) -> bool:
    began = time.monotonic()
    said = False
    while True:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not said:
                on_wait(f"another publisher of {place.name} is at work: waiting")
                said = True
            if time.monotonic() - began > _WAIT_S:
                raise PublishError(
                    f"another publisher of {place.name} does not end",
                    next_step=f"see who holds {place.folder.parent / '.lock'} and try again",
                ) from None
            time.sleep(0.1)
        except OSError:
            return False
        else:
            return True
