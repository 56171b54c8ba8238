"""What the set-up and the demo tell: numbered steps on one clock, errors with a next step.

There is one `CONSOLE`. It is begun once, with all steps of the run, and a command that is one of
them is handed its clock and its place. What the tools print goes into the log, and is shown with
`verbose` or when a tool fails.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from dlcontainer.engine_setup import surroundings
from dlcontainer.engine_setup.surroundings import Session
from dlcontainer.errors import EngineError
from dlcontainer.system.run_clock import HANDED

_BEAT_S = 30.0
_CLOCK = len("[    0 s] ")


@dataclass(slots=True)
class Console:
    """The progress of one run: its clock, which starts once, its steps, and its log."""

    now: Callable[[], float] = time.monotonic
    began: float = field(init=False)
    verbose: bool = False
    log: Path | None = None
    titles: tuple[str, ...] = ()
    number: int = 0
    # Notes that were said: none is said twice.
    said: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.began = self.now()

    def begin(self, titles: Sequence[str], *, verbose: bool, log: Path | None) -> None:
        """Settle the steps of this run, and where the tools' lines go."""
        self.titles, self.number, self.verbose, self.log = tuple(titles), 0, verbose, log
        if log is not None:
            with contextlib.suppress(OSError):
                log.parent.mkdir(parents=True, exist_ok=True)
                log.write_text("", encoding="utf-8")

    @property
    def place(self) -> str:
        """The running step: `3/12 Apptainer`."""
        return f"{self.number}/{len(self.titles)} {self.titles[self.number - 1]}"

    def step(self, title: str, waits: str = "") -> None:
        """Begin one of the steps, and say what it waits for."""
        self.number = self.titles.index(title) + 1
        self.print(f"{self.place}{': ' if waits else ''}{waits}")

    def print(self, text: str) -> None:
        """Print a line with the time since the run began."""
        print(f"[{self.now() - self.began:5.0f} s] {text}", flush=True)

    def say(self, text: str) -> None:
        """Print what the running step does."""
        self.print(f"  {text}")

    def note(self, text: str) -> None:
        """Print something the user may want to act on, once."""
        if text not in self.said:
            self.said.add(text)
            # Further lines stand below the first, behind its clock.
            self.print(f"  note: {text}".replace("\n", f"\n{' ' * _CLOCK}"))

    def tool(self, line: str) -> None:
        """Take a tool's line: into the log, and to the user who asks for all."""
        if self.log is not None:
            # A disk that is full is what the tool itself will say.
            with contextlib.suppress(OSError), self.log.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
        if self.verbose:
            print(f"    {line}", flush=True)

    def environment(self) -> dict[str, str]:
        """Return what a command of dlcontainer's needs to go on with this run's clock."""
        place = f" {self.place}" if self.titles and self.number else ""
        return {HANDED: f"{self.began:.3f}{place}"}

    @contextlib.contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Say once in a while that a tool still works."""
        ended, since = threading.Event(), self.now()

        def beat() -> None:
            while not ended.wait(_BEAT_S):
                self.print(f"  … {what}, {self.now() - since:.0f} s so far")

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


CONSOLE = Console()
# The scripts tell all by it.
surroundings.begin(
    Session(
        environ=os.environ,
        teller=CONSOLE,
        elsewhere="clone the repository into a folder of your own, on a disk with room",
    )
)


def report_error(error: EngineError) -> int:
    """Print the error to stderr, with the step and the log, and return the exit code."""
    sys.stdout.flush()
    step = f"{CONSOLE.place}: " if CONSOLE.titles and CONSOLE.number else ""
    print(f"error: {step}{error}", file=sys.stderr, flush=True)
    log = CONSOLE.log
    with contextlib.suppress(OSError):
        if log is not None and log.stat().st_size:
            print(f"  all that the tools said: {log}", file=sys.stderr, flush=True)
    return 1


class Interrupted(KeyboardInterrupt):
    """A signal that ends the run: Ctrl-C, a batch system's limit, a lost connection."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def heed_signals() -> None:
    """Let signals that end the run end what it has started, too; ignored ones stay ignored."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise Interrupted(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, interrupt)


def run_steps(work: Callable[[], int]) -> int:
    """Do a run's work; return its exit code, or that of an error, a signal or a full disk."""
    heed_signals()
    try:
        return work()
    except EngineError as error:
        return report_error(error)
    except KeyboardInterrupt as error:
        number = error.number if isinstance(error, Interrupted) else signal.SIGINT
        step = f" in step {CONSOLE.place}" if CONSOLE.titles and CONSOLE.number else ""
        sys.stdout.flush()
        print(f"interrupted{step}", file=sys.stderr, flush=True)
        return 128 + number


def verbose_by(environ: Mapping[str, str]) -> bool:
    """Return whether `make V=1` asked for all that the tools say."""
    return environ.get("V", "") not in ("", "0")
