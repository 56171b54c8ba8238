"""Run commands by the zygote, below strace: a trace, SIGKILL at a call, an error of a call."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.calls import CHANGING, Call, parsed
from tests.faults.zygote import ASKED, TRACED
from tests.processes import MARK, marked, new_mark, poll
from tests.values import ROOT

KILLED = -9
_READY = f"inject={ASKED}:retval={TRACED}:when=1"


class DriftError(Exception):
    """A fault met another call than it was meant for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """A command's end: its exit code, negative for a signal, and its stderr."""

    code: int
    log: str


@dataclass(kw_only=True)
class Launcher:
    """A zygote, and where its commands say something; everything of it lies in `folder`."""

    process: "subprocess.Popen[bytes]"
    folder: Path
    mark: str
    strace: str
    # Imported once by the zygote; a command adds its own in its first run.
    modules: list[str] = field(default_factory=list)

    def run(
        self, entry: str, argv: Sequence[str], folder: Path, strace: Sequence[str] = ()
    ) -> Done:
        """Run a command in a folder to its end, below strace with these options if there are."""
        stdout, log, learned = (self.folder / name for name in ("stdout", "stderr", "modules"))
        stdout.write_text("")
        log.write_text("")
        order = {
            "entry": entry,
            "argv": list(argv),
            "folder": str(folder),
            "stdout": str(stdout),
            "log": str(log),
            "traced": bool(strace),
            "modules": self.modules,
            "learn": "" if strace else str(learned),
        }
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()
        self.modules = []
        pid = self._number()
        if strace:
            self._trace(pid, strace)
        code = self._number()
        if not strace and learned.exists():
            self.modules = learned.read_text().split()
            learned.unlink()
        return Done(code=code, log=log.read_text(errors="replace"))

    def _trace(self, pid: int, options: Sequence[str]) -> None:
        told = [self.strace, "-qq", "-y", "-s", "0", "-e", _READY, *options, "-p", str(pid)]
        done = subprocess.run(told, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr

    def _number(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def trace(
        self,
        entry: str,
        argv: Sequence[str],
        folder: Path,
        names: Sequence[str] = CHANGING,
    ) -> list[Call]:
        """Run a command that nothing stops, which works; give its calls."""
        log = self.folder / "trace"
        options = ("-o", str(log), "-e", f"trace={ASKED},{','.join(names)}")
        done = self.run(entry, argv, folder, options)
        assert done.code == 0, done.log
        return parsed(log.read_text(), folder)

    def with_fault(
        self, entry: str, argv: Sequence[str], folder: Path, call: Call, fault: str
    ) -> Done:
        """Run a command with a fault at one call: `signal=SIGKILL`, `error=ENOSPC`.

        Raises DriftError where that was another call than in the trace: the counts of two runs
        differ as soon as one looks up a module more.
        """
        log = self.folder / "fault"
        inject = f"inject={call.name}:{fault}:when={call.at}"
        # Above the number of a call, strace names no other.
        options = ("-o", str(log), "-e", f"trace={ASKED},{call.name}", "-e", inject)
        done = self.run(entry, argv, folder, options)
        met = [other for other in parsed(log.read_text(), folder) if other.at == call.at]
        if [other.kind for other in met] != [call.kind]:
            raise DriftError(f"{call}: {[str(other) for other in met]} {done}")
        return done

    def trace_children(
        self, entry: str, argv: Sequence[str], folder: Path, names: Sequence[str]
    ) -> list[Call]:
        """Run a command that nothing stops; give the calls of its children about its files."""
        log = self.folder / "trace"
        options = ("-ff", "-o", str(log), "-e", f"trace={ASKED},{','.join(names)}")
        done = self.run(entry, argv, folder, options)
        assert done.code == 0, done.log
        calls = []
        for path in sorted(self.folder.glob("trace.*")):
            text = path.read_text(errors="replace")
            # The command itself is told by what no child of it is told.
            if str(TRACED) not in text:
                calls += parsed(text, folder)
            path.unlink()
        return calls

    def with_fault_in_children(
        self, entry: str, argv: Sequence[str], folder: Path, call: Call, fault: str
    ) -> Done:
        """Run a command with a fault in each of its processes that comes so far."""
        inject = f"inject={call.name}:{fault}:when={call.at}"
        options = ("-f", "-o", os.devnull, "-e", f"trace={ASKED},{call.name}", "-e", inject)
        return self.run(entry, argv, folder, options)

    def left(self) -> dict[int, int]:
        """Give the processes that a command left, after a while; the zygote stays."""

        def others() -> dict[int, int]:
            found = marked(self.mark)
            return {pid: above for pid, above in found.items() if pid != self.process.pid}

        poll(lambda: not others(), 60)
        return others()


@contextmanager
def launching(folder: Path, environ: Mapping[str, str], strace: str) -> Iterator[Launcher]:
    """Start a zygote with an environment."""
    folder.mkdir()
    mark = new_mark()
    kept = {**environ, MARK: mark, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-B", "-m", "tests.faults.zygote"]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=kept, cwd=ROOT, bufsize=0
    ) as process:
        try:
            yield Launcher(process=process, folder=folder, mark=mark, strace=strace)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                process.wait(10)
            for pid in marked(mark):
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)
