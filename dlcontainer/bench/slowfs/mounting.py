"""Mount through fusermount, answer in threads, and leave no mount, whoever ends whom.

fusermount stays beside us (`auto_unmount`) and waits on a socket that only this process holds:
when the process is killed, it unmounts. In good order we unmount first, lazily: a client that
still has a file open gets an error and holds nothing up.
"""

import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlcontainer.bench.slowfs import protocol
from dlcontainer.bench.slowfs.passthrough import PassThrough
from dlcontainer.errors import ChecksFailedError, UsageError
from dlcontainer.machine import find_program, mount_of
from dlcontainer.shell import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    ProcessRunner,
)

DEVICE = Path("/dev/fuse")
_OPTIONS = "ro,nosuid,nodev,default_permissions,auto_unmount,fsname=dlcontainer,subtype=slowfs"
# As many requests can wait at a time: ranks of a node, and what is read ahead for them.
_THREADS = 96
_BUFFER = protocol.MAX_READ + 65_536
_MOUNT_S = 30.0
_END_S = 10.0
_DRAIN_S = 2.0


@dataclass(slots=True)
class Mount:
    """A mount that is being served; `ended` is set when it is gone."""

    point: Path
    device: int | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        """Let go of the kernel's end."""
        if self.device is not None:
            os.close(self.device)


def helper(environ: Mapping[str, str], device: Path = DEVICE) -> Path:
    """Give the program that mounts for users; raises ChecksFailedError where FUSE can't be had."""
    if not device.exists():
        raise ChecksFailedError(
            f"no FUSE here: there is no {device}",
            why="the kernel lacks it, or this is a container without the device",
            next_step="try on a machine with FUSE (`modprobe fuse`); counts can be had without: "
            "dlcontainer bench count --with strace",
        )
    for name in ("fusermount3", "fusermount"):
        program = find_program(name, environ)
        if program is not None:
            return program
    raise ChecksFailedError(
        "no fusermount3 here",
        why="it mounts FUSE file systems for users",
        next_step="install the package fuse3",
    )


def check_places(source: Path, point: Path) -> None:
    """Refuse what can't be shown or mounted on; raises UsageError."""
    for path in (source, point):
        if not path.is_dir():
            raise UsageError(
                f"{path}: no such folder", next_step="SOURCE and MOUNTPOINT are folders"
            )
    if point.resolve() != source.resolve() and point.resolve().is_relative_to(source.resolve()):
        raise UsageError(
            f"{point} lies in {source}: it would show itself, without end",
            next_step="choose a mount point elsewhere",
        )


@contextmanager
def mounted(files: PassThrough, point: Path, runner: ProcessRunner) -> Iterator[Mount]:
    """Serve a file system at a folder; raises ChecksFailedError where it can't be mounted."""
    program = helper(runner.environ)
    real = point.resolve()
    mount = Mount(point=real)
    serving: list[threading.Thread] = []
    ours, theirs = socket.socketpair()
    guard = _Guard(program, real, runner, theirs)
    with ours:
        guard.start()
        try:
            guard.receive(ours, mount)
            _serve(files, mount, serving)
            yield mount
        finally:
            _unmount(program, runner, mount)
            # Where someone still has a file open, the descriptors stay as they are until this
            # process ends: their numbers must not come to mean other files.
            if _drained(serving):
                mount.close()
                files.close()
    guard.join(_END_S)


def _drained(threads: Sequence[threading.Thread]) -> bool:
    """Wait for threads that answer; tell whether all have ended."""
    until = time.monotonic() + _DRAIN_S
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


class _Guard(threading.Thread):
    """The command that mounts, and waits for our end."""

    def __init__(
        self, program: Path, point: Path, runner: ProcessRunner, end: socket.socket
    ) -> None:
        super().__init__(name="dlcontainer-fusermount")
        self._argv = [str(program), "-o", _OPTIONS, "--", str(point)]
        self._runner = replace(runner, inherited=(end.fileno(),))
        self._end = end
        self._failure: BaseException | None = None

    def run(self) -> None:
        environment = {**self._runner.environ, "_FUSE_COMMFD": str(self._end.fileno())}
        try:
            self._runner(self._argv, env=environment)
        except (CommandFailedError, CommandNotFoundError, OSError, RuntimeError) as error:
            self._failure = error
        finally:
            self._end.close()

    def receive(self, ours: socket.socket, mount: Mount) -> None:
        """Take the descriptor that fusermount sends."""
        ours.settimeout(_MOUNT_S)
        with suppress(TimeoutError):
            _, found, _, _ = socket.recv_fds(ours, 1, 1)
            mount.device = found[0] if found else None
        if mount.device is None:
            ours.close()
            self.join(_END_S)
            raise ChecksFailedError(
                f"{self._argv[0]} can't mount at {self._argv[-1]}",
                why=_said(self._failure),
                next_step=f"it needs read and write on {DEVICE}, and an empty place of your own",
            )


def _said(failure: BaseException | None) -> str:
    if isinstance(failure, CommandFailedError):
        return " ".join(failure.completed.stderr.split())[-400:] or str(failure)
    return str(failure or f"it sent no device within {_MOUNT_S:g} s")


def _serve(files: PassThrough, mount: Mount, serving: list[threading.Thread]) -> None:
    for _ in range(_THREADS):
        serving.append(threading.Thread(target=_answer, args=(files, mount), daemon=True))
        serving[-1].start()


def _answer(files: PassThrough, mount: Mount) -> None:
    """Answer requests until the mount is gone (ENODEV)."""
    device = mount.device
    assert device is not None  # noqa: S101 - threads start once it is there
    while True:
        try:
            message = os.read(device, _BUFFER)
        except InterruptedError:
            continue
        except FileNotFoundError:
            continue  # the client took its request back
        except OSError:
            mount.ended.set()
            return
        if mount.ended.is_set():
            # fusermount asks whether we live, and unmounts once this process is gone.
            return
        reply = files.answer(protocol.request(message))
        if reply is not None:
            with suppress(OSError):  # nobody waits for it any more
                os.write(device, reply)


def _unmount(program: Path, runner: ProcessRunner, mount: Mount) -> None:
    if mount.device is None or mount.ended.is_set():
        return
    mount.ended.set()
    with suppress(CommandFailedError, CommandNotFoundError, CommandTimeoutError):
        runner([str(program), "-u", "-z", "--", str(mount.point)], timeout=_END_S)


def is_mounted(point: Path) -> bool:
    """Tell whether one of ours is mounted at a folder."""
    there = mount_of(point)
    return there.point == Path(os.path.realpath(point)) and there.kind == "fuse.slowfs"
