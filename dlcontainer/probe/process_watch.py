"""What the processes below the clock of a rank use and wait for, by looking at them in /proc.

A look at all their threads comes some 20 times a second, each at a moment that is drawn within its
turn: a program that repeats itself can't keep in step with it. Figures (memory, bytes, positions
of open files) are read twice a second. A look that costs more than 1 % of a processor is rarer.

    FOLDER/NAME.watch    one JSON object, written again now and then and in the end
    FOLDER/NAME.runs     lines [pid, begun, [[begin, end, looks, doing, device], ...]]: what each
                         process's first thread was seen at, ms since the watch began
    FOLDER/NAME.figures  lines [pid, begun, [[at, KiB, user, system, bytes], ...]]: figures

Standard library only, Python >= 3.6.
"""

import contextlib
import json
import os
import random
import threading
import time

import watch_calls
import watch_proc
from watch_files import FileTally
from watch_record import FigureLog, ProcessRecord, RunLog

SCHEMA = "dlcontainer/watch/1"
_INTERVAL_S = 0.05
_SLOWEST_S = 1.0
_NEW_WEIGHT = 0.2
_FIGURES_S = 0.5
_MOST_SHARE = 0.01
# The first is written early: a rank may be killed soon. Then an interval grows with the file's age.
_WRITE_S = 3.0
_WRITE_SHARE = 0.05
_MOUNTS_S = 30.0
_MOST_ENDED = 500
_PATIENCE_S = 5.0
_SUBREAPER = 36
# What a trace runs by itself before the command: it and all below it are none of the job's.
_OURS = b"mpi_preload.sh"


def adopt():
    """Become the parent of processes whose own ended, so that none leaves; tell whether."""
    with contextlib.suppress(Exception):
        import ctypes

        return ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0) == 0
    return False


class Watch:
    """Looks at all descendants of this process, from a thread of its own."""

    def __init__(self, folder, place):
        self.path = os.path.join(folder, f"watch-{place}-{os.uname().nodename}-{os.getpid()}")
        self.place, self.command = place, 0
        self.calls = watch_calls.table(os.uname().machine)
        self.tally = FileTally()
        self.runs, self.series = RunLog(f"{self.path}.runs"), FigureLog(f"{self.path}.figures")
        self.alive, self.ended, self.folded = {}, [], {}
        self.looks, self.cpu_s, self.interval = 0, 0.0, _INTERVAL_S
        self.began, self.mono = time.time(), time.monotonic()
        self.last = self.figures_at = self.mounts_at = self.mono
        self.written_at, self.notes = self.mono, set()
        # Before anything below us is started, which may leave at once.
        self.is_adopting = adopt()
        self.lists_children = os.path.exists(f"/proc/self/task/{os.getpid()}/children")
        self._over, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self, command):
        """Begin to look, at a command that was started and all below it."""
        self.command = command
        self._thread.start()

    def last_look(self):
        """Look once more: the command has ended, and its figures stand until it is waited for."""
        if self._lock.acquire(timeout=_PATIENCE_S):
            try:
                self._safely(self._look)
            finally:
                self._lock.release()

    def end(self):
        """Stop, and write what was seen; a look that hangs in the kernel is not waited for."""
        self._over.set()
        self._thread.join(_PATIENCE_S)
        self._safely(lambda: self._write(is_over=True))

    def _safely(self, work):
        try:
            work()
        except Exception as error:
            self.notes.add(f"{type(error).__name__}: {error}"[:200])

    def _run(self):
        draw, turn, mean = random.Random(), time.monotonic(), None
        while not self._over.wait(max(0.0, turn + draw.random() * self.interval - time.monotonic())):
            turn = max(turn + self.interval, time.monotonic() - self.interval)
            begun = _spent()
            with self._lock:
                self._safely(self._look)
                self._safely(self._now_and_then)
            cost = _spent() - begun
            self.cpu_s += cost
            mean = cost if mean is None else mean + (cost - mean) * _NEW_WEIGHT
            self.interval = min(_SLOWEST_S, max(_INTERVAL_S, mean / _MOST_SHARE))

    def _now_and_then(self):
        now = time.monotonic()
        if now - self.mounts_at > _MOUNTS_S:
            self.mounts_at = now
            self.tally.mounts.forget()
        if now - self.written_at > max(_WRITE_S, _WRITE_SHARE * (now - self.mono)):
            self.written_at = now
            self._write(is_over=False)

    def _look(self):
        """Look at each thread of each process once."""
        now = time.monotonic()
        at = now - self.mono
        with_figures = now - self.figures_at >= _FIGURES_S or not self.looks
        if with_figures:
            self.figures_at = now
        self._discover(at, is_thorough=with_figures)
        self.looks += 1
        passed, self.last = now - self.last, now
        moments = {}
        for record in list(self.alive.values()):
            seen = watch_proc.stat(record.pid)
            if seen is None or seen.begun != record.begun:
                self._gone(record)
                continue
            if record.is_dead or record.is_ours:
                continue
            record.take(seen, at)
            if seen.state in "ZX":
                self._died(record)
                continue
            moments[record.pid] = self._threads(record, seen, with_figures)
            if with_figures or record.is_new:
                self.tally.figures(record)
                self.series.add(record, at)
        self._count(moments, at, passed)

    def _discover(self, at, *, is_thorough):
        """Add the processes that came."""
        if not self.lists_children:
            if is_thorough:
                self._add_below(at)
            return
        own = os.getpid()
        places = [own, *self.alive]
        while places:
            pid = places.pop()
            many = is_thorough or pid == own
            tids = watch_proc.threads(pid) if many else [pid]
            for child in (child for tid in tids for child in watch_proc.children(pid, tid)):
                if child not in self.alive and self._add(child, at):
                    places.append(child)

    def _add_below(self, at):
        parents = watch_proc.parents()
        below = {os.getpid()}
        grown = True
        while grown:
            grown = {pid for pid, parent in parents.items() if parent in below} - below
            below |= grown
        for pid in below - {os.getpid()} - set(self.alive):
            self._add(pid, at)

    def _add(self, pid, at):
        seen = watch_proc.stat(pid)
        if seen is not None:
            self.alive[pid] = record = ProcessRecord(pid, seen, at)
            above = self.alive.get(seen.parent)
            record.is_ours = watch_proc.script(pid) == _OURS or (above and above.is_ours)
        return seen is not None

    def _threads(self, record, seen, with_figures):
        """Return what each thread of a process is at, the first one first, each with a device."""
        tids = [record.pid]
        if seen.threads > 1:
            tids += [tid for tid in watch_proc.threads(record.pid) if tid != record.pid]
        states = []
        for tid in tids:
            text = watch_proc.line(f"/proc/{record.pid}/task/{tid}/syscall")
            if text is not None:
                call = watch_calls.call(text, self.calls)
                states.append(self.tally.placed(record, call))
            elif tid == record.pid:
                states.append((_by_state(seen.state), None))
                record.is_closed = True
        return states

    def _count(self, moments, at, passed):
        """Count a look: what each process is at, and on which file systems any of them waits."""
        waited, readers = {}, _readers(moments)
        for pid, states in moments.items():
            record = self.alive.get(pid)
            if record is None or not states:
                continue
            for doing, device in states:
                if doing in watch_calls.OF_FILES:
                    waited.setdefault((device, doing), []).append(pid)
            doing, device = states[0]
            if doing in watch_calls.FOR_OTHERS:
                device = self._behind(record, readers)
            record.count([(doing, device), *states[1:]], passed)
            self.runs.add(record, at, doing, device)
        self.tally.count(waited, passed)

    def _behind(self, record, readers):
        """Return the device that another thread or a child reads while the first thread waits."""
        below = (pid for pid in readers if pid == record.pid or self._parent(pid) == record.pid)
        return next((readers[pid] for pid in below), None)

    def _parent(self, pid):
        return self.alive[pid].parent if pid in self.alive else 0

    def _died(self, record):
        """Take the last figures of a process that nobody waited for yet; if that is for us, wait."""
        record.is_dead = True
        self.tally.last_bytes(record)
        self.runs.close(record)
        if record.pid != self.command and record.parent == os.getpid():
            with contextlib.suppress(OSError):
                os.waitpid(record.pid, os.WNOHANG)

    def _gone(self, record):
        self.alive.pop(record.pid, None)
        self.runs.close(record)
        self.tally.forget(record)
        if record.is_ours:
            return
        self.ended.append(record)
        if len(self.ended) > _MOST_ENDED:
            # The shortest are summed up by their names.
            self.ended.sort(key=lambda each: each.last - each.first)
            half = len(self.ended) // 2
            for each in self.ended[:half]:
                name = each.name if each.name in self.folded or len(self.folded) < half else "..."
                self.folded.setdefault(name, []).append(each)
                if len(self.folded[name]) > 1:
                    self.folded[name] = [self.folded[name][0].with_other(each)]
            del self.ended[:half]

    def _write(self, *, is_over):
        """Put all of it into its file, whole or not at all."""
        records = [*self.ended, *(each for each in self.alive.values() if not each.is_ours)]
        body = {
            "schema": SCHEMA,
            "node": os.environ.get("SLURMD_NODENAME") or os.uname().nodename,
            "boot": (watch_proc.line("/proc/sys/kernel/random/boot_id") or b"").decode().strip(),
            "rank": int(self.place) if self.place.isdigit() else 0,
            "command": self.command,
            "began": self.began,
            "seconds": self.last - self.mono,
            "looks": self.looks,
            "own_cpu_s": self.cpu_s,
            "is_over": is_over,
            "is_adopting": self.is_adopting,
            "calls_told": bool(self.calls),
            "runs_left_out": self.runs.left_out,
            "figures_left_out": self.series.left_out,
            "processes": [record.body() for record in records]
            + [record.body() for records in self.folded.values() for record in records],
            "file_systems": self.tally.body(),
            "notes": sorted(self.notes)[:8],
        }
        try:
            for record in self.alive.values():
                self.runs.close(record)
            self.runs.flush()
            self.series.flush()
            with open(f"{self.path}.part", "w") as file:
                file.write(json.dumps(body) + "\n")
            os.replace(f"{self.path}.part", f"{self.path}.watch")
        except OSError as error:
            self.notes.add(f"not written: {error.strerror}")
            with contextlib.suppress(OSError):
                os.unlink(f"{self.path}.part")


def _readers(moments):
    """Return a device that a thread of each process reads from, where any does."""
    return {
        pid: device
        for pid, states in moments.items()
        for doing, device in states
        if doing == watch_calls.READ and device is not None
    }


def _by_state(letter):
    """Return what is known of a thread whose calls are closed to us."""
    if letter == "R":
        return watch_calls.RUNNING
    return watch_calls.DISK if letter == "D" else watch_calls.WAITING


def _spent():
    """Return the processor time of this thread."""
    return time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)
