"""The clock of `bench job`, run by path on compute nodes: it starts one rank's command, and stamps.

    rank_clock.py mark FILE [CODE]                           a stamp of this node's clocks
    rank_clock.py rank FOLDER MARK FIRST STEP -- COMMAND...  one rank, its output passed on
    rank_clock.py traced FOLDER ...                          the same, all its processes watched

FIRST is a pattern of the line that ends the start-up, STEP one of the lines that end a step; both
may be empty. Lines of steps become a file of events, as `probe/event_stamps.py` writes them.
`traced` takes the watch from FOLDER/watch: `probe/process_watch.py`.

Standard library only, Python >= 3.6: it runs with the nodes' own python3, without the package.
Lengths are those of the node's monotonic clock; its real-time clock is read once, as an anchor.
"""

import contextlib
import importlib
import json
import os
import re
import select
import signal
import sys
import time
import typing

_LAST_LINES = 12
# Where a launcher tells a rank how many CPUs the job asked for it.
CPUS_ASKED = ("SLURM_CPUS_PER_TASK",)
_LONGEST_LINE = 65536
_LINE_END = re.compile(b"[\r\n]")
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def stamp() -> "dict[str, object]":
    """Read this node's clocks, and which node and boot they are of."""
    now, mono = time.time(), time.monotonic()
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123 - small and old
            boot = file.read().strip()
    except OSError:
        boot = ""
    node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    return {"at": now, "mono": mono, "boot": boot, "node": node}


class Stream:
    """One of the command's outputs: passed on as it comes, and looked at line by line."""

    def __init__(self, target: int, watch: "RankWatch") -> None:
        self.target, self.watch = target, watch
        self.held = b""
        self.shown = 0  # bytes of `held` that were passed on

    def feed(self, chunk: bytes, now: float) -> None:
        """Take what was read at a moment."""
        self.held += chunk
        end = _LINE_END.search(self.held)
        while end is not None or len(self.held) > _LONGEST_LINE:
            self._line(end.end() if end else len(self.held), now)
            end = _LINE_END.search(self.held)
        # A prompt or a progress bar is shown at once; a mark never.
        if self.held and not self.watch.may_be_mark(self.held):
            self._pass_on(self.held)
            self.shown = len(self.held)

    def _line(self, end: int, now: float) -> None:
        line, self.held = self.held[:end], self.held[end:]
        if not self.watch.look(line.strip(), now):
            self._pass_on(line)
        self.shown = 0

    def _pass_on(self, data: bytes) -> None:
        rest = data[self.shown :]
        while rest:
            try:
                rest = rest[os.write(self.target, rest) :]
            except OSError:
                return  # nobody reads it any more; the command is not to blame


class RankWatch:
    """The moments of one rank: its own process, and the first and last line that match."""

    def __init__(self, mark: bytes, first: str, step: str = "") -> None:
        self.mark = mark
        self.pattern = re.compile(first.encode()) if first else None
        self.step = re.compile(step.encode()) if step else None
        self.steps = []  # type: list[float]
        self.process = None  # type: float | None
        self.first = None  # type: float | None
        self.last = None  # type: float | None
        self.matches = 0
        self.lines = []  # type: list[str]

    def may_be_mark(self, begin: bytes) -> bool:
        """Return whether a line may still become the mark."""
        return self.process is None and self.mark.startswith(begin)

    def look(self, line: bytes, now: float) -> bool:
        """Stamp a line; tell whether it was the mark."""
        if self.process is None and line == self.mark:
            self.process = now
            return True
        if line:
            self.lines = [*self.lines[1 - _LAST_LINES :], line[:300].decode("utf-8", "replace")]
            if self.pattern is not None and self.pattern.search(line):
                self.first = now if self.first is None else self.first
                self.last = now
                self.matches += 1
            if self.step is not None and self.step.search(line):
                self.steps.append(now)
        return False


def rank(folder: str, watch: RankWatch, command: "list[str]", looks: "typing.Any" = None) -> int:
    """Run a rank's command to its end, write its moments into a folder, return its exit code."""
    begun = stamp()
    cpus = len(os.sched_getaffinity(0))
    counts = [int(text) for text in map(os.environ.get, CPUS_ASKED) if text and text.isdigit()]
    place = _place()
    out, err = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        _become(command, out[1], err[1])
    os.close(out[1])
    os.close(err[1])
    for number in _PASSED_ON:
        signal.signal(number, lambda got, _frame: _send(child, got))
    if looks is not None:
        looks.start(child)
    streams = {out[0]: Stream(1, watch), err[0]: Stream(2, watch)}
    status, ended = _follow(child, streams, looks)
    if looks is not None:
        looks.end()
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
    begin = float(str(begun["mono"]))
    now = stamp()
    moments = {
        "process_s": watch.process,
        "first_s": watch.first,
        "last_s": watch.last,
        "ended_s": ended,
    }
    body = dict(begun)
    body.update({name: None if at is None else at - begin for name, at in moments.items()})
    body.update(
        rank=int(place) if place.isdigit() else 0,
        ranks=os.environ.get("WORLD_SIZE", ""),
        matches=watch.matches,
        cpus=cpus,
        cpus_asked=next(iter(counts), None),
        code=code,
        # Where the real-time clock was set meanwhile, the anchor is worth nothing.
        clock_set_s=float(str(now["at"]))
        - float(str(begun["at"]))
        - float(str(now["mono"]))
        + begin,
        lines=watch.lines,
    )
    if watch.steps:
        head = {name: body[name] for name in ("node", "mono", "rank")}
        head.update(schema="dlcontainer/events/1", pid=os.getpid())
        steps = ["%.9f mark" % (at - begin) for at in watch.steps]
        name = "events/%s-%d.events" % (os.uname().nodename, os.getpid())  # noqa: UP031
        _write(os.path.join(folder, name), head, *steps)  # noqa: PTH118
    _write(os.path.join(folder, "rank-%s-%d.json" % (place, os.getpid())), body)  # noqa: PTH118, UP031
    return code


def _become(command: "list[str]", out: int, err: int) -> None:
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.execvp(command[0], command)  # noqa: S606 - no shell is meant
    except OSError as error:
        os.write(2, ("%s: %s\n" % (command[0], error.strerror)).encode())  # noqa: UP031
    finally:
        os._exit(127)


def _send(child: int, number: int) -> None:
    with contextlib.suppress(OSError):  # it is gone
        os.kill(child, number)


def _place() -> str:
    return os.environ.get("RANK") or os.environ.get("PET_NODE_RANK") or "0"


def _looks(folder: str) -> "typing.Any":
    """Return a watch of the processes below this one; None where that can't be: the rank runs."""
    try:
        sys.path.insert(0, os.path.join(folder, "watch"))  # noqa: PTH118
        return importlib.import_module("process_watch").Watch(folder + "/trace", _place())
    except Exception as error:  # noqa: BLE001 - a node's Python may miss anything
        text = "the processes of this rank are not watched: %r\n" % error  # noqa: UP031
        os.write(2, text.encode())
        return None


def _ended(child: int, looks: "typing.Any", *, wait: bool) -> "int | None":
    """Return the status of a command that ended; before that, its last figures are looked at."""
    how = os.WEXITED | os.WNOWAIT | (0 if wait else os.WNOHANG)
    if looks is not None and os.waitid(os.P_PID, child, how) is not None:
        looks.last_look()
    gone, got = os.waitpid(child, 0 if wait else os.WNOHANG)
    return got if gone else None


def _follow(child: int, streams: "dict[int, Stream]", looks: "typing.Any") -> "tuple[int, float]":
    """Pass a command's output on until it ended; return its status, and when that was."""
    status, ended = None, 0.0
    while streams:
        ready = select.select(list(streams), [], [], 0.2)[0]
        now = time.monotonic()
        for number in ready:
            chunk = os.read(number, 65536)
            # The end of a last line that has none.
            streams[number].feed(chunk or b"\n" * bool(streams[number].held), now)
            if not chunk:
                del streams[number]
                os.close(number)
        if status is None:
            status, ended = _ended(child, looks, wait=False), now
        elif not ready:
            break  # something that outlives the command holds its output
    if status is None:
        status, ended = _ended(child, looks, wait=True), time.monotonic()
    return status or 0, ended


def _write(path: str, body: "dict[str, object]", *lines: str) -> None:
    # In one call, under its own name: a reader takes no file whose text is cut.
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        rest = "\n".join([json.dumps(body), *lines, ""]).encode()
        while rest:
            rest = rest[os.write(number, rest) :]
        os.fsync(number)
    finally:
        os.close(number)


def main(argv: "list[str]") -> int:
    """Do what the command line says; see the module's text."""
    if argv[0] == "mark":
        _write(argv[1], dict(stamp(), code=int(argv[2]) if argv[2:] else 0))
        return 0
    verb, folder, mark, first, step, _, *command = argv
    looks = _looks(folder) if verb == "traced" else None
    return rank(folder, RankWatch(mark.encode(), first, step), command, looks)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
