"""A server with a queue: each request books the next free stretch of the server's time.

Several mounts, each a process of its own, share one server through a file: two moments of the
system's monotonic clock, under a lock. Who books is told when it is served; waiting needs no lock.
"""

import fcntl
import mmap
import os
import random
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from dlcontainer.errors import UsageError

Service = Literal["constant", "exponential"]

# Magic, the boot that the clock counts from, rate and bandwidth, when each is free again.
_STATE = struct.Struct("<8s36sdddd")
_MAGIC = b"DLCQUEU1"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerRates:
    """What the server can do: operations/s and bytes/s, 0 for no limit; how service varies."""

    rate: float = 0.0
    bandwidth: float = 0.0
    service: Service = "exponential"


class ServerQueue:
    """One server; a file shares it with other processes."""

    def __init__(
        self,
        speed: ServerRates,
        state: mmap.mmap | bytearray,
        lock_file: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._speed = speed
        self._state = state
        self._lock_file = lock_file
        self._clock = clock
        self._lock = threading.Lock()
        self._random = random.Random()  # noqa: S311 - it draws service times

    @classmethod
    def alone(cls, speed: ServerRates, clock: Callable[[], float] = time.monotonic) -> Self:
        """Return a server that only this process asks."""
        fresh = bytearray(_STATE.pack(_MAGIC, b"", speed.rate, speed.bandwidth, 0.0, 0.0))
        return cls(speed, fresh, None, clock)

    @classmethod
    def shared(cls, speed: ServerRates, path: Path) -> Self:
        """Return the server behind a file; the first who comes makes it.

        Raises UsageError where it was made with another speed, or can't be opened.
        """
        try:
            number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(f"--server {path}: {error.strerror}") from None
        try:
            state = _joined(number, path, speed)
        except BaseException:
            os.close(number)
            raise
        return cls(speed, state, number)

    def operation(self) -> float:
        """Book one metadata operation; return the moment when it is served."""
        if not self._speed.rate:
            return self._clock()
        mean = 1.0 / self._speed.rate
        exponential = self._speed.service == "exponential"
        return self._book(0, self._random.expovariate(1.0 / mean) if exponential else mean)

    def transfer(self, size: int) -> float:
        """Book so many bytes; return the moment when they are served."""
        if not self._speed.bandwidth:
            return self._clock()
        return self._book(1, size / self._speed.bandwidth)

    def _book(self, which: int, seconds: float) -> float:
        with self._lock:
            if self._lock_file is not None:
                fcntl.flock(self._lock_file, fcntl.LOCK_EX)
            try:
                head = list(_STATE.unpack_from(self._state))
                served = max(self._clock(), head[4 + which]) + seconds
                head[4 + which] = served
                _STATE.pack_into(self._state, 0, *head)
            finally:
                if self._lock_file is not None:
                    fcntl.flock(self._lock_file, fcntl.LOCK_UN)
        return float(served)


def _joined(number: int, path: Path, speed: ServerRates) -> mmap.mmap:
    boot = _BOOT_ID.read_bytes().strip()
    fcntl.flock(number, fcntl.LOCK_EX)
    try:
        old = os.pread(number, _STATE.size, 0)
        if old and (len(old) < _STATE.size or not old.startswith(_MAGIC)):
            raise UsageError(
                f"--server {path}: not the file of a server", next_step="name a new file"
            )
        state = _STATE.unpack(old) if old else None
        # The monotonic clock begins again with each boot.
        if state is None or state[1] != boot:
            fresh = _STATE.pack(_MAGIC, boot, speed.rate, speed.bandwidth, 0.0, 0.0)
            os.pwrite(number, fresh, 0)
        elif state[2:4] != (speed.rate, speed.bandwidth):
            raise UsageError(
                f"--server {path}: the server already runs with {state[2]:g} operations/s and "
                f"{state[3]:g} bytes/s, not {speed.rate:g} and {speed.bandwidth:g}",
                next_step="give all mounts of one server the same --rate and --bandwidth",
            )
    finally:
        fcntl.flock(number, fcntl.LOCK_UN)
    return mmap.mmap(number, _STATE.size)
