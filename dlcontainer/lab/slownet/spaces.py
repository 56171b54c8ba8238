"""Namespaces of Linux by system calls: to make them, to enter them, to show a file in them.

Python has unshare(2) and setns(2) from 3.12 on.
"""

import ctypes
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import ChecksFailedError

NEW_MOUNTS, NEW_NAMES, NEW_USER, NEW_NET = 0x00020000, 0x04000000, 0x10000000, 0x40000000
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000
_PR_SET_TIMERSLACK, _PR_GET_TIMERSLACK = 29, 30

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, name: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Leave the namespaces of so many kinds for new ones."""
    _checked(_libc.unshare(flags), "unshare")


def enter(pid: int) -> None:
    """Enter the network and the names of another process's host."""
    for kind, flag in (("net", NEW_NET), ("uts", NEW_NAMES)):
        space = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _checked(_libc.setns(space, flag), "setns")
        finally:
            os.close(space)


def begin() -> None:
    """Give this process mounts and a network of its own; without root in a user namespace.

    Raises ChecksFailedError where neither is allowed.
    """
    uid, gid = os.geteuid(), os.getegid()
    try:
        unshare(NEW_MOUNTS | NEW_NET)
    except PermissionError:
        try:
            unshare(NEW_USER | NEW_MOUNTS | NEW_NET)
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
            Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
        except OSError as error:
            raise ChecksFailedError(
                "virtual hosts are not available: you may not create namespaces here",
                why=str(error),
                next_step="allow user namespaces (user.max_user_namespaces, AppArmor), or run as "
                "root",
            ) from None
    _mount("none", Path("/"), _RECURSIVE | _PRIVATE)


def show(source: Path, target: Path) -> None:
    """Show a file in another's place, in this process's own mounts."""
    _mount(str(source), target, _BIND)


def _mount(source: str, target: Path, flags: int) -> None:
    _checked(_libc.mount(os.fsencode(source), os.fsencode(target), None, flags, None), "mount")


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """How prompt a process is: its niceness, and how much later it may be woken, ns."""

    nice: int
    slack_ns: int


def be(prompt: Prompt) -> Prompt:
    """Be so prompt, as far as this user may; return what was before. Children inherit it."""
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    before = Prompt(nice=nice, slack_ns=_libc.prctl(_PR_GET_TIMERSLACK, 0, 0, 0, 0))
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, prompt.nice)
    _libc.prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(max(1, prompt.slack_ns)), 0, 0, 0)
    return before
