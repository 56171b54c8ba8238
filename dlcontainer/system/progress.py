"""What a person sees of a long step."""

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

_MARKER = re.compile(r"==> step (\d+)/(\d+) (\S+)")
_PHASE = "==> phase "
# Lines of known tools that say what begins -> the phase; all other lines say nothing of the kind.
_TOLD = (
    (re.compile(rf"{_PHASE}(.+)"), "{}"),
    (re.compile(r"I: ([a-z].*?)\.\.\.$"), "mmdebstrap: {}"),
    (re.compile(r"\s*Downloading (?:\S*/)?([^\s/]+) \([\d.]+ [kMG]B\)"), "pip downloads {}"),
    (re.compile(r"(Installing) collected packages: "), "pip installs the packages"),
    # The last word of `pip check`: `formats.step_commands` compiles next.
    (re.compile(r"(No broken requirements found)"), "compile byte code"),
    (re.compile(r"==> step (\d+/\d+ \S+)"), "step {}"),
    (re.compile(r"Get:\d+ \S+ \S+ \S+ ([a-z0-9]\S*)"), "apt-get downloads {}"),
    (re.compile(r"Unpacking (\S+)"), "dpkg unpacks {}"),
    (re.compile(r"Setting up (\S+)"), "dpkg sets up {}"),
    (re.compile(r"INFO: +(Creating SIF)"), "make the SIF"),
)
_TELL_EACH_S = 0.5

# The last phase of a build: not `pack`, which is the step that packs modules.
IMAGE_STEP, IMAGE_TITLE = "pack-image", "pack the image"


def told(line: str) -> str | None:
    """Return the phase that a tool's line says begins; None for all other lines."""
    for pattern, phase in _TOLD:
        match = pattern.match(line)
        if match:
            return phase.format(match[1].rstrip("."))
    return None


def phase_line(phase: str) -> str:
    """Return the line by which a script of ours says that a phase begins."""
    return f"{_PHASE}{phase}"


class Progress(Protocol):
    """Whoever shows how far a build is."""

    def expect(self, count: int) -> None:
        """Count the steps: so many come after those that have begun."""

    def step(self, title: str) -> None:
        """Begin a step."""

    def phase(self, title: str) -> None:
        """Say what of the step runs now, or how far it is."""

    def line(self, text: str) -> None:
        """Take one line of a tool's output."""

    def note(self, text: str) -> None:
        """Say something worth knowing."""


@dataclass(kw_only=True, slots=True)
class Meter:
    """Say how far something is whose end is known: percent and the time left, else the amount."""

    tell: Callable[[str], None]
    title: str
    total: int | None = None
    began: float = field(default_factory=time.monotonic)
    last_report: float = 0.0

    def at(self, done: int) -> None:
        """Tell that so many bytes are done; not more often than a reader can follow."""
        now = time.monotonic()
        if now - self.last_report >= _TELL_EACH_S:
            self.last_report = now
            self.tell(self._text(done, now - self.began))

    def _text(self, done: int, spent: float) -> str:
        amount = f"{done / 1e6:.0f}"
        if not self.total:
            return f"{self.title}: {amount} MB"
        share = min(done / self.total, 1.0)
        text = f"{self.title}: {amount} of {self.total / 1e6:.0f} MB, {share:.0%}"
        # The first moments say nothing about the rest.
        if spent < 1 or not 0.01 <= share < 1:
            return text
        return f"{text}, about {spent / share - spent:.0f} s left"


@contextlib.contextmanager
def watching(folder: Path, meter: Meter) -> Iterator[None]:
    """Yield how a folder grows while another program fills it."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_TELL_EACH_S):
            meter.at(_size(folder))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _size(folder: Path) -> int:
    total = 0
    # Another program renames and removes below: os.walk passes over what is gone, rglob raises.
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with contextlib.suppress(OSError):
                total += Path(parent, name).lstat().st_size
    return total


def step_title(name: str) -> str:
    """Name a step of a recipe, as its line of progress does."""
    return f"step {name}"


@dataclass(slots=True)
class StepProgress:
    """Follow the steps that an engine's output names, with their times (s)."""

    progress: Progress
    # Of the steps that are to come, those that the engine's output does not name.
    after: int = 0
    times: list[tuple[str, float]] = field(default_factory=list)
    current: str = ""
    began: float = field(default_factory=time.monotonic)

    def expect(self, count: int) -> None:
        """Count the steps: so many come after those that have begun."""
        self.progress.expect(count)

    def begin(self, name: str, title: str) -> None:
        """Begin a step, ending the one before; the one that runs is not begun again."""
        if name == self.current:
            return
        self.end()
        self.current, self.began = name, time.monotonic()
        self.progress.step(title)

    def end(self) -> None:
        """End the running step, if there is one."""
        if self.current:
            self.times.append((self.current, round(time.monotonic() - self.began, 2)))
        self.current = ""

    def line(self, text: str) -> None:
        """Take a line of the engine's output; some begin a step."""
        marker = _MARKER.match(text)
        if marker:
            self.begin(marker[3], step_title(marker[3]))
            return
        if text.startswith("INFO:") and "Creating SIF" in text:
            self.begin(IMAGE_STEP, IMAGE_TITLE)
        self.progress.line(text)
