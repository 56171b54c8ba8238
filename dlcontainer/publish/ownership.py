"""Group and modes of what is published, the same under any umask; by descriptor, never by name."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import PublishError
from dlcontainer.publish.open_folder import Folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Ownership:
    """Group and modes of what is published."""

    group: int
    # A group that the site config names must be had; the root's own is a default.
    required: bool
    # Of folders that several publishers share, from the root: set-group-ID and group-writable.
    shared: int
    # the user whose root it is
    user: int

    def trusts(self, user: int) -> bool:
        """Return whether a file of this user may lie in the shared folders."""
        return bool(self.shared & stat.S_IWGRP) or user in (0, os.geteuid(), self.user)

    def has_publisher(self, user: int) -> bool:
        """Return whether a user publishes here: owner, root, this user, the group's members."""
        if user in (0, os.geteuid(), self.user):
            return True
        return bool(self.shared & stat.S_IWGRP) and _is_member(user, self.group)

    def give(self, number: int, mode: int, name: str) -> None:
        """Set group and mode of an open file or folder; `name` is for messages."""
        if os.fstat(number).st_gid != self.group:
            try:
                os.fchown(number, -1, self.group)
            except PermissionError:
                self._refuse(name)
        os.fchmod(number, mode)

    def give_link(self, name: str, folder: Folder) -> None:
        """Set the group of a link itself."""
        info = folder.info(name)
        if info is not None and info.st_gid != self.group:
            try:
                os.chown(name, -1, self.group, dir_fd=folder.number, follow_symlinks=False)
            except PermissionError:
                self._refuse(name)

    def _refuse(self, name: str) -> None:
        if self.required:
            raise PublishError(
                f"can't give {name} to the group {group_name(self.group)}",
                why="only members of the group and root can do so",
                next_step="publish as a member, or change modules.group in the site config",
            ) from None


def of_root(root: Path, group: str | None) -> Ownership:
    """Take group and shared bits from the root; raises PublishError for an unknown group."""
    info = root.stat()
    shared = info.st_mode & (stat.S_ISGID | stat.S_IWGRP)
    if group is None:
        return Ownership(group=info.st_gid, required=False, shared=shared, user=info.st_uid)
    import grp

    try:
        number = grp.getgrnam(group).gr_gid
    except KeyError:
        raise PublishError(
            f"there is no group {group!r} on this host",
            next_step="change modules.group in the site config, or publish on a host with this "
            "group",
        ) from None
    return Ownership(group=number, required=True, shared=shared, user=info.st_uid)


def _is_member(user: int, group: int) -> bool:
    import grp
    import pwd

    try:
        account = pwd.getpwuid(user)
        return account.pw_gid == group or account.pw_name in grp.getgrgid(group).gr_mem
    except KeyError:
        return False


def group_name(number: int) -> str:
    """Name a group."""
    import grp

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
