"""What `process_watch.py` keeps of a process, and its logs: what a thread was seen at, figures.

Standard library only, Python >= 3.6.
"""

import json
import os

import watch_proc

# A run is some 30 bytes, figures are 60: together 11 MB.
_MOST_RUNS, _MOST_FIGURES = 250_000, 50_000
# Figures are kept each time they are read until a process is 100 s old, then ever more rarely.
_FIGURES_SHARE = 0.005


class ProcessRecord:
    """A process: its figures, and what its threads were seen at. Seconds since the watch began."""

    def __init__(self, pid, seen, at):
        self.pid, self.begun, self.parent = pid, seen.begun, seen.parent
        self.first = self.last = at
        self.comm, self.name = seen.comm, watch_proc.name(pid, seen.comm)
        self.user = self.system = self.children = 0.0
        self.inner, self.peak_kib, self.bytes, self.queued = pid, None, None, None
        self.resident_kib, self.figures_due = None, at
        self.main, self.others = {}, {}
        self.seconds, self.threads, self.many = 0.0, 1, 1
        # Whether its calls are closed to us, whether figures were read yet, whether it ended.
        self.is_closed, self.is_new, self.is_dead = False, True, False
        self.is_ours = False
        self.run = None

    def take(self, seen, at):
        """Take a look's figures; a process that became another program has another name."""
        self.last, self.parent = at, seen.parent
        self.user, self.system, self.children = seen.user, seen.system, seen.children
        self.threads = max(self.threads, seen.threads)
        if seen.comm != self.comm and seen.state not in "ZX":
            self.comm, self.name = seen.comm, watch_proc.name(self.pid, seen.comm)

    def count(self, states, passed):
        """Count a look: the first thread's state has a device, too."""
        self.seconds += passed
        self.main[states[0]] = self.main.get(states[0], 0) + 1
        for doing, _ in states[1:]:
            self.others[doing] = self.others.get(doing, 0) + 1

    def figures(self, resident, peak, inner, counts):
        """Take memory and bytes, where they may be read."""
        self.is_new = False
        self.inner, self.resident_kib = inner or self.inner, resident
        self.peak_kib = max(peak or 0, self.peak_kib or 0) or None
        self.bytes = counts or self.bytes

    def with_other(self, other):
        """Return this one as several of a name."""
        self.many += other.many
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        for field in ("user", "system", "children", "seconds"):
            setattr(self, field, getattr(self, field) + getattr(other, field))
        self.peak_kib = max(self.peak_kib or 0, other.peak_kib or 0) or None
        if self.queued is not None and other.queued is not None:
            self.queued += other.queued
        if self.bytes and other.bytes:
            self.bytes = [a + b for a, b in zip(self.bytes, other.bytes)]
        for mine, theirs in ((self.main, other.main), (self.others, other.others)):
            for doing, looks in theirs.items():
                mine[doing] = mine.get(doing, 0) + looks
        return self

    def body(self):
        """Return it as it is written."""
        return {
            "pid": self.pid,
            "inner_pid": self.inner,
            "begun": self.begun,
            "parent": self.parent,
            "name": self.name,
            "many": self.many,
            "first_s": self.first,
            "last_s": self.last,
            "user_s": self.user,
            "system_s": self.system,
            "children_s": self.children,
            "queued_s": self.queued,
            "peak_kib": self.peak_kib,
            "bytes": self.bytes,
            "threads": self.threads,
            "seconds": self.seconds,
            "main": [[*state, looks] for state, looks in self.main.items()],
            "others": self.others,
            "calls_closed": self.is_closed,
        }


class RowFile:
    """A file that grows by lines [pid, begun, rows], of each process those since the line before."""

    def __init__(self, path, most):
        self.path, self.most, self.pending = path, most, {}
        self.count = self.left_out = 0

    def put(self, record, row, weight=1):
        """Take a row; beyond a number they are counted alone, each as much as it stands for."""
        if self.count < self.most:
            self.pending.setdefault((record.pid, record.begun), []).append(row)
            self.count += 1
        else:
            self.left_out += weight

    def flush(self):
        """Write what is new; raises OSError, and what was not written is tried again."""
        if not self.pending:
            return
        text = "".join(
            json.dumps([*key, rows], separators=(",", ":")) + "\n"
            for key, rows in self.pending.items()
        )
        number = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            end, rest = os.fstat(number).st_size, text.encode()
            try:
                while rest:
                    rest = rest[os.write(number, rest) :]
            except OSError:
                os.ftruncate(number, end)
                raise
        finally:
            os.close(number)
        self.pending = {}


class RunLog(RowFile):
    """A file of runs: equal looks in a row are one."""

    def __init__(self, path):
        super().__init__(path, _MOST_RUNS)

    def add(self, record, at, doing, device):
        """Take what a process's first thread is at."""
        ms, run = round(1000 * at), record.run
        if run is not None and run[3:] == [doing, device]:
            run[1], run[2] = ms, run[2] + 1
            return
        self.close(record)
        record.run = [ms, ms, 1, doing, device]

    def close(self, record):
        """End a process's run."""
        if record.run is not None:
            self.put(record, record.run, weight=record.run[2])
        record.run = None


class FigureLog(RowFile):
    """A file of figures: ms, memory in KiB, processor time in ms (user, system), bytes."""

    def __init__(self, path):
        super().__init__(path, _MOST_FIGURES)

    def add(self, record, at):
        """Take the figures of a process that were just read."""
        if at < record.figures_due:
            return
        record.figures_due = at + _FIGURES_SHARE * (at - record.first)
        times = [round(1000 * seconds) for seconds in (record.user, record.system)]
        self.put(record, [round(1000 * at), record.resident_kib, *times, record.bytes])
