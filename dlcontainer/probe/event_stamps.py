"""A file of named events with the moments at which they happened, one a process. Python >= 3.6.

The first line is JSON: the process and the node's monotonic clock as the file began. Each further
line is an event: seconds since then, a blank, a name without a line end. Steps of a training loop
are such events; whatever else is traced takes a name of its own.

A forked process has a file of its own, which begins with its own first event. Events are held back
for a millisecond at most, so that a process that is killed leaves all but its last ones. A file
that can't be written is given up: no program fails for it.
"""

import atexit
import json
import os
import time

SCHEMA = "dlcontainer/events/1"
SUFFIX = ".events"
# So many events of a process are kept, its first ones.
MOST = 1000000
_HELD_S = 0.001


class EventFile(object):
    """The events of this process, in a folder that may have those of others."""

    def __init__(self, folder):
        self._folder = folder
        self._begin()
        atexit.register(self.flush)

    def _begin(self):
        self._pid, self._file, self._held = os.getpid(), None, []
        self._began = self._flushed = time.monotonic()
        self._count, self._failed = 0, False

    def note(self, name):
        """Take down that an event happened just now."""
        if self._pid != os.getpid():  # a fork: what was held is its parent's
            self._begin()
        now = time.monotonic()
        if self._failed or self._count >= MOST:
            return
        self._count += 1
        self._held.append((now, name))
        if now - self._flushed >= _HELD_S or self._count == MOST:
            self.flush(now)

    def flush(self, now=None):
        """Write what is held."""
        if self._pid != os.getpid() or self._failed or not self._held:
            return
        held, self._held = self._held, []
        self._flushed = time.monotonic() if now is None else now
        lines = ["%.9f %s\n" % (at - self._began, name) for at, name in held]
        try:
            if self._file is None:
                self._file = self._opened()
            os.write(self._file, "".join(lines).encode("utf-8"))
        except OSError:
            self._failed = True

    def _opened(self):
        # Ranks in namespaces of their own may have the same number.
        name = "%s-%d-%d%s" % (os.uname()[1], self._pid, int(1e9 * self._began), SUFFIX)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        opened = os.open(os.path.join(self._folder, name), flags, 0o644)
        rank = os.environ.get("RANK", "")
        head = {
            "schema": SCHEMA,
            "node": os.environ.get("SLURMD_NODENAME") or os.uname()[1],
            "pid": self._pid,
            "rank": int(rank) if rank.isdigit() else None,
            "mono": self._began,
        }
        os.write(opened, json.dumps(head).encode("utf-8") + b"\n")
        return opened
