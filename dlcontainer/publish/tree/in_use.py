"""Signs that somebody uses a release. They only ever keep more: time alone lets something go.

A login node sees no other node's processes, and a user no other user's. So what is seen counts, and
what is not seen means nothing.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    Runner,
)

_TIMEOUT_S = 120.0
_RELEASE = re.compile(r"/releases/([0-9a-f]{64})(?:/|$|\s)")
# device as major:minor, hexadecimal, and inode: /proc/PID/maps, proc_pid_maps(5)
_MAPPED = re.compile(r"^\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) ([0-9]+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Inode:
    """A file, under whatever name."""

    device: int
    number: int


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenFiles:
    """What processes of this host have open; `unread` counts those that could not be asked."""

    inodes: frozenset[Inode] = frozenset()
    digests: frozenset[str] = frozenset()
    unread: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class OldestJob:
    """When the oldest job was submitted; None for no job. Not `is_known`: all may be in use."""

    is_known: bool = True
    oldest: float | None = None


def seen(proc: Path = Path("/proc")) -> OpenFiles:
    """Look at open files, mapped files, programs and mounts of all processes that may be asked."""
    inodes: set[Inode] = set()
    digests: set[str] = set()
    unread = 0
    for process in proc.iterdir():
        if not process.name.isdigit():
            continue
        try:
            inodes.update(_opened(process))
        except FileNotFoundError:
            continue  # it ended
        except OSError:
            unread += 1
        for text in _texts(process):
            digests.update(_RELEASE.findall(text))
            inodes.update(
                Inode(device=os.makedev(int(major, 16), int(minor, 16)), number=int(number))
                for major, minor, number in _MAPPED.findall(text)
            )
    return OpenFiles(inodes=frozenset(inodes), digests=frozenset(digests), unread=unread)


def _opened(process: Path) -> Iterator[Inode]:
    for path in (*(process / "fd").iterdir(), process / "cwd", process / "exe"):
        with contextlib.suppress(OSError):
            info = path.stat()
            yield Inode(device=info.st_dev, number=info.st_ino)


def _texts(process: Path) -> Iterator[str]:
    for name in ("maps", "mountinfo", "cmdline"):
        with contextlib.suppress(OSError):
            yield (process / name).read_text(errors="replace").replace("\0", "\n")
    for name in ("cwd", "exe", "root"):
        with contextlib.suppress(OSError):
            yield str((process / name).readlink())
    with contextlib.suppress(OSError):
        for path in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                yield str(path.readlink())


def queue(argv: Sequence[str], runner: Runner) -> OldestJob:
    """Ask the scheduler for the time of submission of each job of all users, one a line.

    `squeue -h -a -o %V` does, for jobs that wait too: a job has the environment of its submission.
    """
    try:
        stdout = runner(list(argv), timeout=_TIMEOUT_S).stdout
        times = list(_times(stdout.splitlines()))
    except (CommandFailedError, CommandNotFoundError, CommandTimeoutError, ValueError):
        return OldestJob(is_known=False)
    return OldestJob(oldest=min(times, default=None))


def _times(lines: Iterable[str]) -> Iterator[float]:
    for line in lines:
        if line.strip():
            # A time without a zone is the host's: that is what Slurm writes.
            yield datetime.fromisoformat(line.strip()).timestamp()
