"""Versions of the earlier layout, which a takeover reads; the lock of a published tree.

ROOT/images/NAME/VERSION/   image.sif record.json checks.json build.log bin/ launch/
                            module.lua module.tcl SHA256SUMS, and .dlcontainer
ROOT/modules/lmod/NAME/VERSION.lua, ROOT/modules/tcl/NAME/VERSION     links into it

Below ROOT no link is followed: whoever shares the tree may plant one.
"""

import contextlib
import errno
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import PublishError
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.ownership import Ownership
from dlcontainer.system.guarded_files import name_of
from dlcontainer.system.process import quote

# Without locks only the age of what another publisher began tells whether they were killed.
GRACE_S = 60.0
# In each folder that publishing made: without it nothing is ever removed. Its presence counts.
MARK = ".dlcontainer"
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


def _target(link: Path, place: Place, name: str) -> str:
    return os.path.relpath(place.folder / name, link.parent)


def find(top: Folder, place: Place) -> Folder | None:
    """Open a version's folder; None where there is none."""
    with contextlib.ExitStack() as held:
        folder = top
        for part in (_IMAGES, place.name):
            if folder.info(part) is None:
                return None
            folder = held.enter_context(folder.sub(part))
        return None if folder.info(place.version) is None else folder.sub(place.version)


def lock_file(folder: Folder, own: Ownership) -> int:
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
