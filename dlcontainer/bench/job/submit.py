"""A job from its submission to its end, whoever runs it; and directly on this node."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dlcontainer.schedulers.scheduler import Cause
from dlcontainer.system.process import CommandTimeoutError, Runner


@dataclass(frozen=True, kw_only=True, slots=True)
class JobEnding:
    """How a job ended: its number, its state in the scheduler's words, whose doing that is."""

    job: str
    submitted: float
    state: str
    cause: Cause

    @property
    def good(self) -> bool:
        """Whether it ended well."""
        return self.cause == "none"

    @property
    def outside(self) -> bool:
        """Whether nothing in the job is to blame."""
        return self.cause == "outside"


class Submitter(Protocol):
    """Run one job to its end; an interruption leaves none behind."""

    def run(self, frame: Path, log: Path) -> JobEnding:
        """Submit a frame, wait for its end; raises BenchDataError where it is refused."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalSubmitter:
    """A shell on this node: its supervisor ends all that an interruption leaves."""

    runner: Runner
    limit_s: float | None

    def run(self, frame: Path, log: Path) -> JobEnding:
        """Run a frame."""
        submitted = time.time()
        try:
            done = self.runner(["bash", str(frame)], log=log, timeout=self.limit_s, check=False)
        except CommandTimeoutError:
            return JobEnding(job="", submitted=submitted, state="TIMEOUT", cause="limit")
        code = done.returncode
        state = "COMPLETED" if code == 0 else f"FAILED (exit code {code})"
        return JobEnding(job="", submitted=submitted, state=state, cause="job" if code else "none")
