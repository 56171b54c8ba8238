"""Who besides a tree's publishers could put something else in the place of what is published.

Publishers of one tree are one domain of trust: whoever may write in ROOT may point `current`
elsewhere, and sticky folders could not keep them apart without keeping them from a rollback. They
are the owner of ROOT, root, and the members of the group that may write there. What lies above
ROOT counts too: who may rename a folder there puts another tree in its place.
"""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from dlcontainer.errors import PublishError
from dlcontainer.publish.ownership import Ownership, group_name
from dlcontainer.system.guarded_files import name_of
from dlcontainer.system.process import quote


def require_none(root: Path, own: Ownership, note: Callable[[str], None]) -> None:
    """Refuse a root that everybody may change; say which other users may.

    Raises PublishError, and OSError for a root that is not there.
    """
    # Modulefiles name the path as it is given: a link on the way counts like a folder.
    for place in dict.fromkeys((*_way(root.absolute()), *_way(Path(os.path.realpath(root))))):
        info = place.lstat()
        if stat.S_ISLNK(info.st_mode):
            continue
        is_root = os.path.samestat(info, root.stat())
        # Where a folder above is sticky, nobody can rename what is another's.
        if not is_root and info.st_mode & stat.S_ISVTX:
            continue
        if info.st_mode & stat.S_IWOTH:
            raise _open_to_all(place, is_root=is_root)
        for who in _others(info, own):
            note(f"{who} may replace what is published in {root}: they may write in {place}")


def _way(path: Path) -> Iterator[Path]:
    yield from (*reversed(path.parents), path)


def _open_to_all(place: Path, *, is_root: bool) -> PublishError:
    means = "what is published" if is_root else "the published tree"
    return PublishError(
        f"everybody may write in {place}",
        where=str(place),
        why=f"any user could put something else in the place of {means}, which others then run",
        next_step=f"take that right away: {quote(['chmod', 'o-w', str(place)])}; publishers share "
        "a tree by its group",
    )


def _others(info: os.stat_result, own: Ownership) -> Iterator[str]:
    """Name those who may write in a folder and do not publish here."""
    if info.st_uid not in (0, own.user, os.geteuid()):
        yield name_of(info.st_uid)
    # root's group, and a user's own group of the same name, have nobody else in them.
    known = info.st_gid in (0, own.group) or group_name(info.st_gid) == name_of(info.st_uid)
    if info.st_mode & stat.S_IWGRP and not known:
        yield f"the group {group_name(info.st_gid)}"
