"""A job from its submission to its end: by the site's scheduler, or directly on this node."""

import re
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dlcontainer.errors import BenchDataError
from dlcontainer.schedulers.base import Queue
from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    Runner,
    quote,
)

# A scheduler's controller may be away for a while; a cancelled job takes its KillWait and more.
_PATIENCE_S, _CANCEL_S = 300.0, 90.0
_UNKNOWN = "UNKNOWN"
_ASK_S, _MOST_ASK_S = 0.5, 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """How a job ended: its number, its state in the scheduler's words, whose fault that is."""

    job: str
    submitted: float
    state: str
    good: bool
    outside: bool = False


class Submitter(Protocol):
    """Run one job to its end; an interruption leaves none behind."""

    def run(self, frame: Path, log: Path) -> Done:
        """Submit a frame, wait for its end; raises BenchDataError where it is refused."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Direct:
    """A shell on this node: its supervisor ends all that an interruption leaves."""

    runner: Runner
    limit_s: float | None

    def run(self, frame: Path, log: Path) -> Done:
        """Run a frame."""
        submitted = time.time()
        try:
            done = self.runner(["bash", str(frame)], log=log, timeout=self.limit_s, check=False)
        except CommandTimeoutError:
            return Done(job="", submitted=submitted, state="TIMEOUT", good=False)
        code = done.returncode
        state = "COMPLETED" if code == 0 else f"FAILED (exit code {code})"
        return Done(job="", submitted=submitted, state=state, good=code == 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Queued:
    """A job of the site's scheduler; the times come from its ranks, never from asking."""

    runner: Runner
    queue: Queue

    def run(self, frame: Path, log: Path) -> Done:
        """Submit a frame and follow it by a name that no other job has."""
        name = f"dlc-{uuid.uuid4().hex[:12]}"
        submitted = time.time()
        try:
            job = self._submitted(frame, log, name)
            try:
                self._followed(name)
            except BenchDataError:
                self._cancelled(name)
                raise
        except BenchDataError:
            raise  # refused, or cancelled above
        except BaseException:
            # Ctrl-C, in the middle of a submission too: by its name the job is found all the same.
            self._cancelled(name)
            raise
        state = self._ending(job)
        return Done(
            job=job,
            submitted=submitted,
            state=state,
            # One that is forgotten already has its ranks' stamps to speak for it.
            good=state in (self.queue.good, _UNKNOWN),
            outside=state in self.queue.outside,
        )

    def _submitted(self, frame: Path, log: Path, name: str) -> str:
        argv = [*_filled(self.queue.submit, name=name, log=str(log)), str(frame)]
        try:
            said = self.runner(argv).stdout
        except CommandNotFoundError as error:
            raise BenchDataError(
                f"no {argv[0]} here",
                why=str(error),
                next_step="run this where jobs are submitted, or load the scheduler's module",
            ) from None
        except CommandFailedError as error:
            raise BenchDataError(
                "the scheduler refused the job",
                why=_words(error),
                next_step="--account, --partition, --time, --nodes; the site's lines: "
                "dlcontainer render --format job",
            ) from None
        return said.strip().partition(";")[0].rpartition("\n")[2]

    def _followed(self, name: str) -> None:
        """Wait until the job is gone; raises BenchDataError where nobody says so for long."""
        argv = _filled(self.queue.states, name=name)
        pause, known = _ASK_S, time.monotonic()
        while True:
            time.sleep(pause)
            pause = min(_MOST_ASK_S, pause * 1.1)
            try:
                if not self.runner(argv).stdout.strip():
                    return
                known = time.monotonic()
            except (CommandFailedError, CommandNotFoundError) as error:
                if time.monotonic() - known > _PATIENCE_S:
                    words = _words(error) if isinstance(error, CommandFailedError) else str(error)
                    raise BenchDataError(
                        f"`{quote(argv)}` has failed for {_PATIENCE_S:.0f} s", why=words
                    ) from None

    def _cancelled(self, name: str) -> None:
        """Cancel the job, and see it gone: it may be known a moment after its submission ended."""
        deadline = time.monotonic() + _CANCEL_S
        gone = 0
        while gone < 2 and time.monotonic() < deadline:
            with suppress(CommandFailedError, CommandNotFoundError):
                self.runner(_filled(self.queue.cancel, name=name), check=False)
                left = self.runner(_filled(self.queue.states, name=name)).stdout
                gone = 0 if left.strip() else gone + 1
            time.sleep(_ASK_S)

    def _ending(self, job: str) -> str:
        try:
            said = self.runner(_filled(self.queue.ended, job=job)).stdout
        except (CommandFailedError, CommandNotFoundError):
            return _UNKNOWN
        state = re.search(self.queue.ending, said)
        return state["state"] if state else _UNKNOWN


def _filled(words: Sequence[str], **values: str) -> list[str]:
    return [word.format(**values) for word in words]


def _words(error: CommandFailedError) -> str:
    said = (error.completed.stderr or error.completed.stdout).strip()
    return said or str(error)
