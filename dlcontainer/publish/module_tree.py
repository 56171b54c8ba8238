"""The published tree: where things lie, and who may do what there.

ROOT/images/NAME/VERSION/   image.sif record.json checks.json build.log bin/ module.lua module.tcl
                            SHA256SUMS, and .dlcontainer, without which nothing is ever removed
ROOT/modules/lmod/NAME/VERSION.lua, ROOT/modules/tcl/NAME/VERSION     links into it

Below ROOT no link is followed: whoever shares the tree may plant one.
"""

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import PublishError
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.ownership import Ownership
from dlcontainer.system.guarded_files import name_of
from dlcontainer.system.process import quote

_WAIT_S = 600.0
# A killed publisher leaves a version without links; without locks only its age tells it from one
# that another publisher is just about to link.
GRACE_S = 60.0
# In each version's folder: it is ours, and may be removed. Its presence counts, not its content:
# `touch` marks a folder of an earlier version.
MARK = ".dlcontainer"
MARK_TEXT = b"dlcontainer/version/1\n"
_LOCK = ".lock"
_IMAGES = "images"
# One part of a path, never hidden. Long enough for a version, an epoch and a node type.
_PART = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,199}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where one version stands below a root: ROOT/images/NAME/VERSION, each one part of a path.

    Raises PublishError for any other name or version: every later step relies on it.
    """

    root: Path
    name: str
    version: str

    def __post_init__(self) -> None:
        """Refuse what could lead elsewhere."""
        for kind, part in (("name", self.name), ("version", self.version)):
            if not _PART.fullmatch(part):
                raise PublishError(
                    f"not a module's {kind}: {part[:80]!r}",
                    why="it becomes the name of a folder: letters, digits and . + _ - alone",
                    next_step="build the image again, with dlcontainer build",
                )

    @property
    def folder(self) -> Path:
        """The version's folder, with everything in it."""
        return self.root / _IMAGES / self.name / self.version

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
        return any(os.path.lexists(link) for link in self.links)


@dataclass(frozen=True, kw_only=True, slots=True)
class Locked:
    """A module's folder, held; `alone` is false where the file system has no locks."""

    folder: Folder
    alone: bool


def require_link(link: Path, place: Place, name: str) -> bool:
    """Tell whether a link is there; raises PublishError where something else stands there."""
    if not os.path.lexists(link):
        return False
    wanted = _target(link, place, name)
    if link.is_symlink() and str(link.readlink()) == wanted:
        return True
    raise PublishError(
        f"{link} is not the link that publishing {place.name}/{place.version} made",
        why=f"it should lead to {wanted}",
        next_step=f"find out who changed it; then {quote(['rm', str(link)])}, and publish again",
    )


def make_link(link: Path, place: Place, top: Folder, own: Ownership, aside: Folder) -> None:
    """Make a relative link by rename: it is there whole, with its group, or not at all."""
    *folders, name = link.relative_to(place.root).parts
    with contextlib.ExitStack() as held:
        folder = top
        for part in folders:
            folder = held.enter_context(own.shared_folder(folder, part))
        with contextlib.suppress(FileNotFoundError):
            os.unlink("link", dir_fd=aside.number)
        os.symlink(_target(link, place, place.links[link]), "link", dir_fd=aside.number)
        own.give_link("link", aside)
        aside.rename("link", folder, name)
        folder.sync()


def _target(link: Path, place: Place, name: str) -> str:
    return os.path.relpath(place.folder / name, link.parent)


def settle_modes(folder: Folder, own: Ownership) -> None:
    """Set group and mode of a staged version and bring it to the disk."""
    inherited = own.shared & stat.S_ISGID
    for parent, _, files, number in os.fwalk(".", dir_fd=folder.number, onerror=_raise):
        for name in files:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=number)
            try:
                own.give(file, 0o755 if parent == "./bin" else 0o644, name)
                os.fsync(file)
            finally:
                os.close(file)
        own.give(number, 0o755 | inherited, parent)
        os.fsync(number)


def _raise(error: OSError) -> None:
    raise error  # without this, os.fwalk would pass over a folder that it can't open


def find(top: Folder, place: Place) -> Folder | None:
    """Open a version's folder; None where there is none."""
    with contextlib.ExitStack() as held:
        folder = top
        for part in (_IMAGES, place.name):
            if folder.info(part) is None:
                return None
            folder = held.enter_context(folder.sub(part))
        return None if folder.info(place.version) is None else folder.sub(place.version)


def clear(module: Folder, place: Place, aside: Folder) -> None:
    """Remove a version that nobody sees, if it is marked as ours; raises PublishError.

    It is moved into a private folder first: there nobody can put another in its place.
    """
    with module.sub(place.version) as folder:
        info = os.fstat(folder.number)
        if not folder.has_file(MARK):
            mark = quote(["touch", str(place.folder / MARK)])
            raise PublishError(
                f"{place.folder} is in the way, and does not say that it is dlcontainer's",
                why=f"only folders with a file {MARK} are removed; those of dlcontainer 0.1 have "
                "none",
                next_step=f"look at what is in it; if it may be removed: {mark}, and publish again",
            )
        try:
            module.rename(place.version, aside, "left")
        except PermissionError:
            raise PublishError(
                f"{place.folder} is in the way: a publisher that did not end left it",
                why=f"it belongs to {name_of(info.st_uid)}, who alone may remove it",
                next_step=f"ask them to type: {quote(['rm', '-r', str(place.folder)])}",
            ) from None
        moved = aside.info("left")
        if moved is None or not os.path.samestat(moved, info):
            aside.rename("left", module, place.version)
            raise PublishError(
                f"{place.folder} was replaced while it was looked at",
                next_step="find out who writes there, and try again",
            )
    # What this leaves, folders that can't be written, goes with the private folder.
    shutil.rmtree("left", ignore_errors=True, dir_fd=aside.number)


@contextlib.contextmanager
def locked(
    place: Place, top: Folder, own: Ownership, on_wait: Callable[[str], None]
) -> Iterator[Locked]:
    """Hold a module's folder and its lock, waiting for other publishers.

    Raises PublishError after ten minutes of waiting, and for a lock that is no file of a publisher.
    """
    with own.shared_folder(top, _IMAGES) as images, own.shared_folder(images, place.name) as folder:
        number = _lock_file(folder, own)
        try:
            yield Locked(folder=folder, alone=_take(number, place, on_wait))
        finally:
            os.close(number)


def _lock_file(folder: Folder, own: Ownership) -> int:
    """Open the lock; only the one who makes it sets its group and mode."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        number = os.open(_LOCK, flags | os.O_CREAT | os.O_EXCL, 0o664, dir_fd=folder.number)
    except FileExistsError:
        return _others_lock(folder, flags, own)
    try:
        own.give(number, 0o664, _LOCK)
    except BaseException:
        os.close(number)
        raise
    return number


def _others_lock(folder: Folder, flags: int, own: Ownership) -> int:
    path = folder.path / _LOCK
    wrong = f"{path} is not a lock that a publisher made"
    next_step = f"find out who made it; then {quote(['rm', str(path)])}, and publish again"
    try:
        number = os.open(_LOCK, flags, dir_fd=folder.number)
    except PermissionError:
        # Enough for a lock, except on some network file systems.
        number = os.open(_LOCK, flags & ~os.O_RDWR, dir_fd=folder.number)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        kind = "a symbolic link" if error.errno == errno.ELOOP else "not a regular file"
        raise PublishError(wrong, why=f"it is {kind}", next_step=next_step) from None
    info = os.fstat(number)
    why = None
    if not stat.S_ISREG(info.st_mode):
        why = "it is not a regular file"
    elif info.st_nlink != 1:
        why = "the file has a second name elsewhere"
    elif not own.trusts(info.st_uid):
        why = f"it belongs to {name_of(info.st_uid)}, who does not publish here"
    if why is None:
        return number
    os.close(number)
    raise PublishError(wrong, why=why, next_step=next_step)


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
                    next_step=f"find the holder of {place.folder.parent / _LOCK}, and try again",
                ) from None
            time.sleep(0.1)
        except OSError:
            return False
        else:
            return True
