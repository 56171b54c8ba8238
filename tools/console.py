"""What the set-up scripts tell the user: progress with times, errors with a next step."""

import sys
import time

_START = time.monotonic()


class SetupError(Exception):
    """Say what failed, why, and what to do next."""

    def __init__(self, what: str, *, why: str | None = None, next_step: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.next_step = next_step

    def __str__(self) -> str:
        lines = [self.what]
        if self.why:
            lines.append(f"  why: {self.why}")
        if self.next_step:
            lines.append(f"  next: {self.next_step}")
        return "\n".join(lines)


def say(message: str) -> None:
    """Print one progress line with the seconds since the start."""
    print(f"[{time.monotonic() - _START:6.1f} s] {message}", flush=True)


def note(message: str) -> None:
    """Print something the user may want to act on."""
    print(f"  note: {message}", flush=True)


def report_error(error: SetupError) -> int:
    """Print the error to stderr and return the exit code."""
    sys.stdout.flush()
    print(f"error: {error}", file=sys.stderr, flush=True)
    return 1
