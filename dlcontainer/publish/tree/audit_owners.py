"""Audit: owners and modes. Whoever owns a file, or may write in its folder, can change it."""

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.publish.tree import journal
from dlcontainer.publish.tree.contents import ReleaseFault
from dlcontainer.publish.tree.layout import GENERATIONS, RELEASES
from dlcontainer.system.guarded_files import name_of

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, kw_only=True, slots=True)
class _Publishers:
    """Who may own what is published: root, the root's owner, and its group where that may write."""

    user: int
    # None where the group can't write, or nobody here knows it.
    group: int | None

    def have(self, uid: int) -> bool:
        """Return whether a user is one of them; a group that nobody knows can't be asked."""
        if uid in (0, self.user) or self.group == -1:
            return True
        if self.group is None:
            return False
        try:
            user = pwd.getpwuid(uid)
        except KeyError:
            return False
        return self.group in os.getgrouplist(user.pw_name, user.pw_gid)


def faults(root: Path, number: int, digests: frozenset[str]) -> Iterator[ReleaseFault]:
    """Look at the tree's own folders, the live generation and its releases; links are not followed.

    A group-writable root is the site's choice: colleagues publish there.
    """
    top = root.stat()
    shared = bool(top.st_mode & stat.S_IWGRP)
    publishers = _Publishers(user=top.st_uid, group=_group(top.st_gid) if shared else None)
    for name in ("", RELEASES, GENERATIONS, journal.FILE):
        path = root / name
        if path.exists():
            # The journal is for the root and the owner of the tree alike.
            allowed = stat.S_IWGRP if shared or name == journal.FILE else 0
            yield from _of(path, path.lstat(), publishers, allowed)
    live = [root / RELEASES / digest for digest in sorted(digests)]
    for folder in (root / GENERATIONS / str(number), *live):
        if folder.is_dir():  # else it is missing, which is said elsewhere
            yield from _below(folder, publishers)


def _group(gid: int) -> int:
    try:
        return grp.getgrgid(gid).gr_gid
    except KeyError:
        return -1


def _below(folder: Path, publishers: _Publishers) -> Iterator[ReleaseFault]:
    for parent, _, names, number in os.fwalk(folder):
        yield from _of(Path(parent), os.fstat(number), publishers)
        mode = stat.S_IMODE(os.fstat(number).st_mode)
        if mode & 0o005 != 0o005:
            yield ReleaseFault(
                where=parent, why=f"other users can't read it: its mode is {mode:04o}"
            )
        for name in names:
            info = os.stat(name, dir_fd=number, follow_symlinks=False)
            yield from _of(Path(parent, name), info, publishers)


def _of(
    path: Path, info: os.stat_result, publishers: _Publishers, allowed: int = 0
) -> Iterator[ReleaseFault]:
    if not publishers.have(info.st_uid):
        yield ReleaseFault(
            where=str(path), why=f"it belongs to {name_of(info.st_uid)}, who is not a publisher"
        )
    writable = info.st_mode & _OTHERS & ~allowed
    if writable and not stat.S_ISLNK(info.st_mode):
        who = "any user" if writable & stat.S_IWOTH else f"the group {_group_name(info.st_gid)}"
        mode = f"{stat.S_IMODE(info.st_mode):04o}"
        yield ReleaseFault(where=str(path), why=f"{who} can change it: its mode is {mode}")


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
