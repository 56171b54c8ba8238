"""The error of a step that failed: what it said last, and what that means; its log stays."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dlcontainer.build import error_patterns
from dlcontainer.build.build_steps import BuildStep
from dlcontainer.errors import BuildError, EngineError
from dlcontainer.planning.plan import Plan
from dlcontainer.system import machine
from dlcontainer.system.process import CommandFailedError
from dlcontainer.system.progress import IMAGE_STEP, IMAGE_TITLE, StepProgress

_LAST_LINES = 12
_LINE_WIDTH = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFailure:
    """Make the error of a step that failed: what it said last, and what that means."""

    plan: Plan
    output: Path
    # how often the kernel had ended something for want of memory before this build
    oom_kills: int = field(default_factory=machine.cgroup_oom_kills)

    def __call__(self, step: BuildStep | str, error: CommandFailedError) -> BuildError:
        """Make it, of a step or of a phase by its name."""
        name = step if isinstance(step, str) else step.name
        done = error.completed
        log = self.output / f"{self.plan.name}.failed.log"
        kills = machine.cgroup_oom_kills() - self.oom_kills
        cause = error_patterns.explain(done.stdout, done.returncode, kills)
        read = f"read {log}; the next build goes on from the last step that is kept"
        return BuildError(
            f"{self.plan.name}: the build failed in step '{name}'"
            + (f": {cause.cause}" if cause else ""),
            why="\n" + _last_lines(done.stdout) + (f"\n    => {cause.line}" if cause else ""),
            next_step=f"{cause.next_step}; {read}" if cause else read,
        )


def _last_lines(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(f"    {line[:_LINE_WIDTH]}" for line in lines[-_LAST_LINES:])


@contextmanager
def log_kept(log: Path, target: Path) -> Iterator[None]:
    """Keep the log of a build that fails; a disk that is full is no bug."""
    try:
        with _full_disk_explained(target.parent):
            yield
    except (BuildError, EngineError):
        if log.exists():
            shutil.move(log, target)
        raise


@contextmanager
def _full_disk_explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise BuildError(
            f"{folder}: {error.strerror}",
            why="dlcontainer writes the image, its log and its record there",
            next_step="free space, or name another folder with -o",
        ) from None


@contextmanager
def packing(failure: StepFailure, progress: StepProgress) -> Iterator[None]:
    """Name the last phase, and what fails in it."""
    progress.begin(IMAGE_STEP, IMAGE_TITLE)
    try:
        yield
    except CommandFailedError as error:
        raise failure(IMAGE_STEP, error) from None
