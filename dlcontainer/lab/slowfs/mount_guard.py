"""Mount for a process, and unmount when that process is gone, however it went.

Run by path, not imported: `python -I -S mount_guard.py SOCKET PROGRAM POINT OPTIONS`. PROGRAM is
fusermount, which sends the device through SOCKET; nobody but the process that serves holds its
other end.

fusermount has an option `auto_unmount` for this, and it leaves mounts on a busy machine: when the
socket closes it asks the mount whether somebody serves it, and takes every answer but ENOTCONN for
a yes (should_auto_unmount in libfuse's util/fusermount.c). A killed process closes the socket
first and the device later; a question that comes between the two ends with ECONNABORTED, and the
mount stays for ever. This one does not ask.
"""

import os
import signal
import sys
import time
from contextlib import suppress

# Seconds between attempts, from the first pause to the longest.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0


def mount_id(point: str) -> int | None:
    """Return which mount is on top at a folder; None where there is no such folder any more."""
    # O_PATH: the file system, which may be slow or dead, is asked nothing.
    with suppress(OSError):
        folder = os.open(point, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            facts = os.open(f"/proc/self/fdinfo/{folder}", os.O_RDONLY | os.O_CLOEXEC)
            words = os.read(facts, 4096).split()
            os.close(facts)
        finally:
            os.close(folder)
        return int(words[words.index(b"mnt_id:") + 1])
    return None


def run(program: str, *words: str) -> int:
    """Run a program in our environment to its end; return its exit code."""
    child = os.posix_spawn(program, [program, *words], os.environ)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def unmount(program: str, point: str, mine: int) -> None:
    """Unmount our mount, and no other that somebody has put over it since."""
    pause = _FIRST_PAUSE
    while mount_id(point) == mine:
        if run(program, "-u", "-q", "-z", "--", point) != 0:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def main() -> int:
    """Mount, wait, unmount; the exit code is that of the mounting."""
    end, (program, point, options) = int(sys.argv[1]), sys.argv[2:5]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.set_inheritable(end, True)  # noqa: FBT003 - it takes no keyword
    code = run(program, "-o", options, "--", point)
    if code != 0:
        return abs(code)
    os.set_inheritable(end, False)  # noqa: FBT003
    mine = mount_id(point)
    with suppress(OSError):
        while os.read(end, 64):
            pass
    if mine is not None:
        unmount(program, point, mine)
    return 0


if __name__ == "__main__":
    sys.exit(main())
