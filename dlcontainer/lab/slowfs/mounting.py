"""Mount through fusermount, and leave no mount, whoever ends whom.

`mount_guard.py` stays beside us and waits on a socket that only this process holds: when that
closes, in good order or because the process was killed, it unmounts. In good order the connection
is aborted first: a client that still has a file open gets an error and holds nothing up.
"""

import errno
import os
import shlex
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlcontainer.errors import ChecksFailedError, UsageError
from dlcontainer.lab.slowfs.passthrough import PassThrough
from dlcontainer.lab.slowfs.serving import Service
from dlcontainer.system.machine import find_program, mounts_below
from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    ProcessRunner,
)

DEVICE = Path("/dev/fuse")
_OPTIONS = "ro,nosuid,nodev,default_permissions,fsname=dlcontainer,subtype=slowfs"
_PROGRAM = Path(__file__).resolve().with_name("mount_guard.py")
_MOUNT_S = 30.0
# A session ends within 10 s: so long the guard, which only needs a moment of a processor, is
# waited for, and then the one that is started in its place.
_GUARD_S = 3.0
_UNMOUNT_S = 1.0
# Without us the guard has time: it is ended only where the unmount hangs, and the mount then stays.
_ALONE_S = 300.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedMount:
    """A mount that is being served; `ended` is set when it is gone."""

    point: Path
    ended: threading.Event = field(default_factory=threading.Event)


def helper(environ: Mapping[str, str], device: Path = DEVICE) -> Path:
    """Return the program that mounts for users; raises ChecksFailedError without FUSE."""
    if not device.exists():
        raise ChecksFailedError(
            f"no FUSE here: there is no {device}",
            why="the kernel has no FUSE, or this container has no such device",
            next_step="use a machine with FUSE (`modprobe fuse`); or count without FUSE: "
            "dlcontainer lab count --with strace",
        )
    for name in ("fusermount3", "fusermount"):
        program = find_program(name, environ)
        if program is not None:
            return program
    raise ChecksFailedError(
        "no fusermount3 here",
        why="users need it to mount FUSE file systems",
        next_step="install the package fuse3",
    )


def check_places(source: Path, point: Path) -> None:
    """Refuse what can't be shown or mounted on; raises UsageError."""
    for path in (source, point):
        if _is_dead(path):
            raise UsageError(
                f"{path}: stale mount, its FUSE server has ended",
                why="the server was killed together with the process that unmounts after it",
                next_step=f"unmount it: fusermount3 -u -z {shlex.quote(str(path))}",
            )
        if not path.is_dir():
            raise UsageError(
                f"{path}: no such folder",
                next_step=f"create the folder: mkdir -p {shlex.quote(str(path))}",
            )
    if point.resolve() != source.resolve() and point.resolve().is_relative_to(source.resolve()):
        raise UsageError(
            f"{point} lies in {source}: the mount would contain itself",
            next_step="choose a mount point elsewhere",
        )


def _is_dead(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ENOTCONN
    return False


@contextmanager
def mounted(files: PassThrough, point: Path, runner: ProcessRunner) -> Iterator[ServedMount]:
    """Serve a file system at a folder; raises ChecksFailedError where it can't be mounted."""
    program = helper(runner.environ)
    mount = ServedMount(point=point.resolve())
    before = mounted_at(mount.point)
    ours, theirs = socket.socketpair()
    guard = _Guard(program, mount.point, runner, theirs)
    guard.start()
    try:
        # The service ends before `ours` is closed: who waits for an answer gets an error first.
        with ours, _served(files, guard.receive(ours), mount.ended):
            yield mount
    finally:
        guard.join(_GUARD_S)
        if mounted_at(mount.point) > before:
            _unmount(program, runner, mount.point)


@contextmanager
def _served(files: PassThrough, device: int, ended: threading.Event) -> Iterator[None]:
    try:
        service = Service(files, device, ended)
    except BaseException:
        os.close(device)
        raise
    try:
        service.start()
        yield
    finally:
        service.end()


def guard_argv(program: Path, point: Path, end: socket.socket) -> list[str]:
    """Return the command that mounts, given the end of a socket, and unmounts when the other
    closes.

    The number of the end stands in its environment too: _FUSE_COMMFD.
    """
    python = [sys.executable, "-I", "-S"]
    return [*python, str(_PROGRAM), str(end.fileno()), str(program), str(point), _OPTIONS]


class _Guard(threading.Thread):
    """The command that mounts, waits for our end, and unmounts."""

    def __init__(
        self, program: Path, point: Path, runner: ProcessRunner, end: socket.socket
    ) -> None:
        super().__init__(name="dlcontainer-mount-guard", daemon=True)
        self._program, self._point = program, point
        self._runner = replace(runner, inherited=(end.fileno(),), more_grace_s=_ALONE_S)
        self._end = end
        self._failure: BaseException | None = None

    def run(self) -> None:
        environment = {**self._runner.environ, "_FUSE_COMMFD": str(self._end.fileno())}
        try:
            self._runner(guard_argv(self._program, self._point, self._end), env=environment)
        except (CommandFailedError, CommandNotFoundError, OSError, RuntimeError) as error:
            self._failure = error
        finally:
            self._end.close()

    def receive(self, ours: socket.socket) -> int:
        """Take the descriptor that fusermount sends."""
        ours.settimeout(_MOUNT_S)
        with suppress(TimeoutError):
            # Close-on-exec: a process that inherited it would keep the connection alive.
            _, handles, _, _ = socket.recv_fds(ours, 1, 1, socket.MSG_CMSG_CLOEXEC)
            if handles:
                return handles[0]
        ours.close()
        self.join(_GUARD_S)
        raise ChecksFailedError(
            f"{self._program} can't mount at {self._point}",
            why=_said(self._failure),
            next_step=f"check that you can read and write {DEVICE} and that you own the empty "
            "mount point",
        )


def _said(failure: BaseException | None) -> str:
    if isinstance(failure, CommandFailedError):
        return " ".join(failure.completed.stderr.split())[-400:] or str(failure)
    return str(failure or f"it sent no device within {_MOUNT_S:g} s")


def _unmount(program: Path, runner: ProcessRunner, point: Path) -> None:
    """Unmount what the guard left: it was killed, or was slow."""
    with suppress(CommandFailedError, CommandNotFoundError, CommandTimeoutError):
        runner([str(program), "-u", "-z", "--", str(point)], timeout=_UNMOUNT_S)


def mounted_at(real: Path) -> int:
    """Count our mounts at a path without links: one may cover another."""
    below = mounts_below(real)
    return sum(1 for mount in below if mount.point == real and mount.kind == "fuse.slowfs")
