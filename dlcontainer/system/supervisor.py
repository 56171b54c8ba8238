"""Run one command and leave no process of it behind, whatever happens to whom.

Run by path, not imported: `python -I -S supervisor.py LIFELINE STATUS MORE PROGRAM
[ARGUMENT...]`, in a session of its own. LIFELINE is the read end of a pipe whose write end only
`process.py` has: first comes the command's environment, then nothing until it closes, which it
does even when its owner is killed with SIGKILL. STATUS takes `exit CODE MICROSECONDS`, of the
processor by the command and all that came from it, or `error ERRNO`. MORE is how much longer than
others the command may take to end (s).

There are two supervisors, outer > inner > command. Each is a subreaper (prctl(2)): daemons and
other orphans below it become its children, so none can run away. If someone kills one of the two
with SIGKILL, the other one cleans up.
"""

import ctypes
import os
import select
import signal
import sys
import time
from contextlib import suppress

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

# Seconds. The command has COMMAND_GRACE to end after SIGTERM, what it left behind STRAY_GRACE;
# after INNER_LIMIT the inner supervisor gives up (a process in state D cannot be killed) and the
# outer one has until OUTER_LIMIT. process.py waits a little longer than that.
COMMAND_GRACE = 1.5
STRAY_GRACE = 1.0
INNER_LIMIT = 3.0
INNER_GRACE = 3.2
OUTER_LIMIT = 4.7

# Grows when a signal asks us to end; the handlers add, the waiting loops look.
asked_to_end: list[int] = []


def prctl(option: int, value: int) -> None:
    """Set one attribute of this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    if libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero):
        raise OSError(ctypes.get_errno(), "prctl")


def receive(lifeline: int) -> dict[bytes, bytes] | None:
    """Read the command's environment; None when the sender died before its end."""
    with os.fdopen(os.dup(lifeline), "rb") as stream:
        size = stream.read(8)
        expected = int.from_bytes(size, "big")
        payload = stream.read(expected)
    if len(size) < 8 or len(payload) < expected:
        return None
    variables = (item.partition(b"=") for item in payload.split(b"\0") if item)
    return {name: value for name, _, value in variables}


def report(status: int, word: str, *numbers: int) -> None:
    """Tell process.py how it went, if it still listens."""
    with suppress(BrokenPipeError):
        os.write(status, " ".join([word, *map(str, numbers)]).encode() + b"\n")


def processor_us() -> int:
    """Return the processor time of all processes that were reaped, user's and system's."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((used.ru_utime + used.ru_stime) * 1e6)


def listen() -> None:
    """Turn the signals that ask a process to end into entries of `asked_to_end`."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # nohup and shell background jobs hand down an ignored SIGHUP or SIGINT: that stays so.
        if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda got, _: asked_to_end.append(got))
    signal.signal(signal.SIGCHLD, lambda *_: None)


def follow(parent: int, number: int) -> None:
    """Get signal `number` when `parent` dies; end now if it is dead already."""
    prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)


def processes() -> dict[int, list[int]]:
    """Map each process to its children (/proc/PID/task/TID/children is not in every kernel)."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stream:
                    # The name stands in parentheses and may hold any byte: count from its end.
                    parent = int(stream.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    return children


def signal_descendants(number: int) -> None:
    """Send a signal to every process below this one."""
    children = processes()
    pending = children.get(os.getpid(), [])
    while pending:
        pid = pending.pop()
        pending += children.get(pid, [])
        with suppress(OSError):
            os.kill(pid, number)


class Guard:
    """One child and all that comes from it, until none of it is left."""

    def __init__(self, child: int, lifeline: int) -> None:
        self.child = child
        self.code: int | None = None
        self.wake, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        # Each signal writes a byte here, so none is lost between a look and a sleep.
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        self.signals, self.events = select.poll(), select.poll()
        self.signals.register(self.wake, select.POLLIN)
        self.events.register(self.wake, select.POLLIN)
        self.events.register(lifeline, select.POLLIN)

    def anyone(self) -> bool:
        """Reap who has ended; tell whether a process is left below this one.

        No child means no descendant: an orphan below a subreaper becomes its child.
        """
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.child:
                self.code = os.waitstatus_to_exitcode(status)

    def doze(self, seconds: float) -> None:
        """Sleep until a signal comes, at most so long."""
        if self.signals.poll(max(0.0, seconds) * 1000):
            os.read(self.wake, 4096)

    def watch(self) -> None:
        """Wait until the child has ended or is no longer wanted."""
        while self.anyone() and self.code is None and not asked_to_end:
            for descriptor, _ in self.events.poll():
                if descriptor != self.wake:
                    return
                os.read(self.wake, 4096)

    def end(self, grace: float, limit: float) -> None:
        """End the child's process group politely, then all the rest by force."""
        start = time.monotonic()
        if self.anyone() and self.code is None:
            with suppress(OSError):
                os.killpg(self.child, signal.SIGTERM)
            while self.anyone() and self.code is None and time.monotonic() < start + grace:
                self.doze(start + grace - time.monotonic())
        if self.anyone():
            signal_descendants(signal.SIGTERM)
            until = min(time.monotonic() + STRAY_GRACE, start + limit - 0.3)
            while self.anyone() and time.monotonic() < until:
                self.doze(until - time.monotonic())
        while self.anyone() and time.monotonic() < start + limit:
            signal_descendants(signal.SIGKILL)
            self.doze(0.02)


def execute(command: list[str], environ: dict[bytes, bytes], inner: int) -> None:
    """Become the command, as a fresh process would start it."""
    for number in (signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    follow(inner, signal.SIGKILL)
    if asked_to_end:
        # The request came between fork and here, where the handler still took it.
        os._exit(1)
    os.execvpe(command[0], command, environ)  # noqa: S606 - no shell is what we want


def fork() -> int:
    """Fork; the child leads a process group of its own, on both sides before going on."""
    pid = os.fork()
    with suppress(OSError):  # the child was quicker, and has executed or ended already
        os.setpgid(pid, pid)
    return pid


def supervise(lifeline: int, status: int, more: float, command: list[str]) -> None:
    """Be the outer supervisor, then the inner one, then the command."""
    environ = receive(lifeline)
    if environ is None:
        return
    listen()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    outer = os.getpid()
    child = fork()
    if child:
        guard = Guard(child, lifeline)
        guard.watch()
        guard.end(INNER_GRACE + more, OUTER_LIMIT + more)
        return
    follow(outer, signal.SIGTERM)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    inner = os.getpid()
    child = fork()
    if child:
        guard = Guard(child, lifeline)
        guard.watch()
        guard.end(COMMAND_GRACE + more, INNER_LIMIT + more)
        code = -signal.SIGKILL if guard.code is None else guard.code
        report(status, "exit", code, processor_us())
        return
    execute(command, environ, inner)


def main() -> None:
    """Read the command line, supervise, report what could not be started."""
    lifeline, status = int(sys.argv[1]), int(sys.argv[2])
    for descriptor in (lifeline, status):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - it takes no keyword
    # The lifeline says the same, unless a fork of our parent holds its write end too.
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    try:
        supervise(lifeline, status, float(sys.argv[3]), sys.argv[4:])
    except OSError as error:
        report(status, "error", error.errno or 0)
        os._exit(127)
    os._exit(0)


if __name__ == "__main__":
    main()
