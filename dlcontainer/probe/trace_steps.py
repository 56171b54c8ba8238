"""Trace some steps of a program's PyTorch, between as many without a profiler. Python >= 3.6.

step_hook.py hands over each step where trace.json lies beside it:

folder      where each process leaves its files
step_at     optimizer, or forward: then forward_steps.py tells what a step is
operations  whether Kineto has PyTorch's operations, or collectives, annotations and kernels alone
warm_up     steps before the first block
steps       steps of a block: one without a profiler, one with Kineto, one without again

So a drift of the program's speed is no overhead. Kineto is started once a process: PyTorch writes
into freed memory where a range that is open as one profile ends is closed in the next. A process
leaves NAME.trace, JSON lines: the process, its blocks and steps, why the trace ended; a Kineto
file; and of two more steps a Chakra file. Each appears whole as its block ends. Steps are those of
the first optimizer that steps, or of the model. `at` is of CLOCK_REALTIME, as Kineto's times are;
lengths are of the monotonic clock, and both of the device's where one is in use (step_marks.py).
No program fails for its trace: what goes wrong ends the trace.
"""

import atexit
import json
import os
import sys
import time

import step_marks

SCHEMA = "dlcontainer/trace-process/1"
PLAN, SUFFIX = "trace.json", ".trace"
KINETO, CHAKRA = "kineto", "chakra"
FORWARD = "forward"
_CHAKRA_STEPS = 2
_SETTLE_S = 0.5


def blocks(plan):
    """Give (kind, steps) of each block in its order; kind None is without a profiler."""
    steps = plan["steps"]
    return [(None, steps), (KINETO, steps), (None, steps), (CHAKRA, _CHAKRA_STEPS)]


class Tracer(object):
    """The trace of this process; `step` is called after each step of an optimizer or a model."""

    def __init__(self, plan, profilers):
        self._plan, self._profilers = plan, profilers
        self.is_of_forwards = plan["step_at"] == FORWARD
        self._begin()
        atexit.register(self._at_exit)

    def _begin(self):
        self._pid, self._stepping, self._steps, self._out = os.getpid(), None, 0, None
        self._left, self._block, self._until = blocks(self._plan), -1, self._plan["warm_up"]
        self._kind, self._running, self._over = None, None, False
        self._marks = step_marks.StepMarks(self._profilers.device)
        self._file, self._name, self._held = None, "", []

    def step(self, stepping):
        """Take down a step; where a block ends with it, close that and begin the next one."""
        entered, at = time.monotonic(), time.time()
        if self._pid != os.getpid():  # a fork: the profiler is its parent's
            self._begin()
        if self._stepping is None:
            self._stepping = id(stepping)
        if self._over or id(stepping) != self._stepping or self._marks.are_refused():
            return
        self._marks.step()
        self._steps += 1
        length = None if self._out is None else entered - self._out
        self._held.append({"step": self._steps, "block": self._block, "at": at, "s": length})
        if self._steps == self._until:
            self._guarded(self._turn)
        self._out = time.monotonic()

    def _at_exit(self):
        self.end("the program ended")
        # A thread of gloo's that drops its last work waits for Python's lock. It gets it here: in
        # the interpreter's finalization it ends the program by an abort, traced or not.
        if "torch.distributed" in sys.modules:
            try:
                time.sleep(_SETTLE_S)
            except OSError:
                pass  # a library that moves the clock (libfaketime) breaks sleep

    def end(self, reason):
        """Close what runs, and write why the trace ended."""
        if self._over or self._pid != os.getpid() or not self._steps:
            return
        self._over = True
        self._guarded(self._close, reason)

    def _guarded(self, act, *words):
        try:
            act(*words)
        except Exception as error:
            self._over, self._running, self._held = True, None, []
            try:
                self._write([{"end": "%s: %s" % (type(error).__name__, str(error)[:300])}])
            except OSError:
                pass  # the disk is full: what is there stays

    def _turn(self):
        if not self._left:
            self.end("complete")
            return
        self._close()
        self._kind, steps = self._left.pop(0)
        self._block, self._until = self._block + 1, self._steps + steps
        if self._kind is not None:
            if self._profilers.are_taken():
                self.end(self._profilers.TAKEN)
                return
            path = os.path.join(self._plan["folder"], "%s.%s.json" % (self._name, self._kind))
            self._running = self._profilers.KINDS[self._kind](path, self._plan["operations"])
            self._profilers.start(self._running, self)
        self._marks.begin()

    def _close(self, reason=None):
        """Write the block that ends, with its steps."""
        running, self._running = self._running, None
        lines, self._held = self._held, []
        for line, (at, length) in zip(lines, self._marks.ends() or ()):
            line["at"], line["s"] = at, length
        began = time.monotonic()
        if running is not None:
            running.stop()
            lines.append({"file": os.path.basename(running.path), "kind": self._kind,
                          "block": self._block, "write_s": time.monotonic() - began})  # fmt: skip
        self._write(lines + ([] if reason is None else [{"end": reason}]))

    def _write(self, lines):
        if self._file is None:
            head = self._head()
            rank = "none" if head["rank"] is None else "%05d" % head["rank"]
            # Ranks in namespaces of their own may have the same number.
            self._name = "rank-%s-%s-%d-%d" % (
                rank, os.uname()[1], self._pid, int(1e9 * time.monotonic()))  # fmt: skip
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            path = os.path.join(self._plan["folder"], self._name + SUFFIX)
            self._file = os.open(path, flags, 0o644)
            lines = [head] + lines
        rest = "".join(json.dumps(line) + "\n" for line in lines).encode("utf-8")
        while rest:
            rest = rest[os.write(self._file, rest) :]

    def _head(self):
        rank, ranks = self._profilers.place()
        return {
            "schema": SCHEMA,
            "node": os.environ.get("SLURMD_NODENAME") or os.uname()[1],
            "boot": _boot(),
            "pid": self._pid,
            "rank": rank,
            "ranks": ranks,
            "step_at": self._plan["step_at"],
            "operations": self._plan["operations"],
            "torch": str(sys.modules["torch"].__version__),
        }


def _boot():
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def planned(folder, profilers):
    """Give the tracer of the plan that lies in a folder."""
    with open(os.path.join(folder, PLAN)) as file:
        return Tracer(json.load(file), profilers)
