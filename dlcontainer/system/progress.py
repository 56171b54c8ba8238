"""What a person sees of a long step."""

import re
import time
from dataclasses import dataclass, field
from typing import Protocol

_MARKER = re.compile(r"==> step (\d+)/(\d+) (\S+)")


class Progress(Protocol):
    """Whoever shows how far a build is."""

    def step(self, title: str) -> None:
        """Begin a step."""

    def line(self, text: str) -> None:
        """Take one line of a tool's output."""

    def note(self, text: str) -> None:
        """Say something worth knowing."""


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
            self.begin("pack", "pack the image")
        self.progress.line(text)
