"""What a person sees: of a long step, and of texts that others wrote."""

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

_MARKER = re.compile(r"==> step (\d+)/(\d+) (\S+)")
_TELL_EACH_S = 0.5

# The last phase of a build: not `pack`, which is the step that packs modules.
IMAGE_STEP, IMAGE_TITLE = "pack-image", "pack the image"

# What a terminal obeys, or shows in another order than it stands: control characters (C0, C1),
# marks of direction, line ends of Unicode's own, halves of pairs. Images, sessions and YAML files
# of others hold whatever their authors like.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Show what is no visible character as its code; line ends and tabs stay."""
    return _UNSEEN.sub(code, text)


def code(match: re.Match[str]) -> str:
    """Give the code of one character that was matched, as JSON writes it: JSON stays JSON."""
    number = ord(match[0])
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


class Progress(Protocol):
    """Whoever shows how far a build is."""

    def step(self, title: str) -> None:
        """Begin a step."""

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
    told: float = 0.0

    def at(self, done: int) -> None:
        """Tell that so many bytes are done; not more often than a reader can follow."""
        now = time.monotonic()
        if now - self.told >= _TELL_EACH_S:
            self.told = now
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
    """Tell how a folder grows while another program fills it."""
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
    for path in folder.rglob("*"):
        # What another program renames or removes meanwhile counts as it likes.
        with contextlib.suppress(OSError):
            total += path.lstat().st_size
    return total


@dataclass(slots=True)
class Steps:
    """Follow the steps that an engine's output names, with their times (s)."""

    progress: Progress
    times: list[tuple[str, float]] = field(default_factory=list)
    current: str = ""
    began: float = field(default_factory=time.monotonic)

    def begin(self, name: str, title: str) -> None:
        """Begin a step, ending the one before."""
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
        if marker and marker[3] != self.current:
            self.begin(marker[3], f"step {marker[1]}/{marker[2]}: {marker[3]}")
        elif text.startswith("INFO:") and "Creating SIF" in text:
            self.begin(IMAGE_STEP, IMAGE_TITLE)
        self.progress.line(text)
