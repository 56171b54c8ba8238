"""The lock of a published tree, and the mark of what publishing made.

No link is followed: whoever shares the tree may plant one.
"""

import errno
import os
import stat

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


def lock_file(folder: Folder, ownership: Ownership) -> int:
    """Open the lock; only the one who makes it sets its group and mode."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        number = os.open(_LOCK, flags | os.O_CREAT | os.O_EXCL, 0o664, dir_fd=folder.number)
    except FileExistsError:
        return _others_lock(folder, flags, ownership)
    try:
        ownership.give(number, 0o664, _LOCK)
    except BaseException:
        os.close(number)
        raise
    return number


def _others_lock(folder: Folder, flags: int, ownership: Ownership) -> int:
    path = folder.path / _LOCK
    wrong = f"{path} is not a lock that a publisher made"
    next_step = f"find out who created it; then {quote(['rm', str(path)])}, and publish again"
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
    elif not ownership.trusts(info.st_uid):
        why = f"it belongs to {name_of(info.st_uid)}, who does not publish here"
    if why is None:
        return number
    os.close(number)
    raise PublishError(wrong, why=why, next_step=next_step)
