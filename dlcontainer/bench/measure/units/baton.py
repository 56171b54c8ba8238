"""The session's side of the baton: two named pipes a process; probe/baton.py has the other ends."""

import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlcontainer.engines.engine import Binds
from dlcontainer.system import foreign_files

# Where a container sees the folder of the pipes; every tree has an empty /mnt.
INSIDE = "/mnt"
_LOOK_S = 0.5
# A launch of 100,000 steps a turn says less.
_LONGEST = 16_000_000


class SilentError(Exception):
    """A process did not answer an order; the text says how."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupSeat:
    """A process's place in a group: its folder of pipes on the host, its name, its processors."""

    folder: Path
    name: str
    cpus: tuple[int, ...]

    def words(self, folder: str) -> tuple[str, ...]:
        """Return the probe's options; `folder` is the one as the probe sees it."""
        cpus = ",".join(map(str, self.cpus))
        return ("--baton", folder, "--process", self.name, "--cpus", cpus)

    @property
    def binds(self) -> Binds:
        """Return where a container sees the folder."""
        return ((self.folder, INSIDE),)


class Pipes:
    """The session's ends of one process's pipes; made before the process is started."""

    def __init__(self, seat: GroupSeat) -> None:
        paths = [seat.folder / f"{seat.name}.{end}" for end in ("to", "from")]
        for path in paths:
            os.mkfifo(path, 0o600)
        # Neither open waits for the process. It alone holds the other ends: each side sees the
        # other one's end.
        self._to = os.open(paths[0], os.O_RDWR | os.O_CLOEXEC)
        self._from = os.open(paths[1], os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._rest = b""

    def order(self, text: str) -> None:
        """Write an order; a process that is gone is noticed by its answer."""
        os.write(self._to, f"{text}\n".encode())

    def answer(self, lives: Callable[[], bool], timeout_s: float) -> dict[str, Any]:
        """Wait for one answer; raises SilentError where none comes."""
        end = time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(self._from, select.POLLIN)
        while b"\n" not in self._rest:
            remaining_s = end - time.monotonic()
            if remaining_s <= 0:
                raise SilentError(f"no answer within {timeout_s:g} s")
            if not poll.poll(1000 * min(_LOOK_S, remaining_s)):
                if not lives():
                    raise SilentError("it ended")
                continue
            part = os.read(self._from, 1 << 16)
            self._rest += part
            if not part or len(self._rest) > _LONGEST:
                raise SilentError("it ended" if not part else "its answer has no end")
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            body = foreign_files.loads(line)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise SilentError("its answer is no JSON object")
        return body

    def close(self) -> None:
        """Close both: for a process that waits this is the order to end."""
        os.close(self._to)
        os.close(self._from)
