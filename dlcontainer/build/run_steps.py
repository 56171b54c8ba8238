"""An image grows: from the last step whose result is kept, step by step, each kept in turn."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from dlcontainer.build import error_patterns
from dlcontainer.build.backends.backend import BuildBackend, DamagedError, SaveTask
from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.cache.cached_step import CachedStep, Packages
from dlcontainer.errors import BuildError
from dlcontainer.system.process import CommandFailedError
from dlcontainer.system.progress import StepProgress, step_title

# What is done sooner than this (s) is done again rather than kept: packing a tree takes as long.
WORTH_KEEPING_S = 2.0

# What failed: a step, or a phase around them by its name.
Failure = Callable[[BuildStep | str, CommandFailedError], BuildError]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepPolicy:
    """How an image is to grow.

    `failure` makes the error of a step that failed; `installed` tells what the step that just ran
    has installed; `fresh`: nothing kept is taken; `keep_last`: the last step's result is kept too;
    `later` does what of keeping needs the tree no more, beside the next step; `handed` lets a step
    find what was fetched for it; `checked` refuses what a step left, given its name and its
    beginning (ns since 1970), before the result is kept.
    """

    failure: Failure
    installed: Callable[[], Packages]
    worth_keeping_s: float = WORTH_KEEPING_S
    fresh: bool = False
    keep_last: bool = False
    later: Callable[[SaveTask], object] = lambda keeping: keeping()
    handed: Callable[[BuildStep], AbstractContextManager[None]] = lambda _: nullcontext()
    checked: Callable[[str, int], None] = lambda _name, _began: None


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """A step that is done: run here in so many s, or part of the kept result `kept`."""

    step: BuildStep
    seconds: float | None
    kept: CachedStep | None
    packages: Packages


def reached(
    recall: Callable[[str], CachedStep | None], todo: Sequence[BuildStep]
) -> tuple[int, CachedStep | None]:
    """Find how many steps are done already, and the kept result that holds them."""
    for number in range(len(todo), 0, -1):
        kept = recall(todo[number - 1].key)
        if kept is not None:
            return number, kept
    return 0, None


def grow(
    backend: BuildBackend, todo: Sequence[BuildStep], progress: StepProgress, policy: StepPolicy
) -> list[StepResult]:
    """Run the steps that no kept result holds; keep the results of those that took a while.

    Raises the policy's error of a step that failed.
    """
    try:
        done = _begin(backend, [] if policy.fresh else todo, progress, len(todo))
    except CommandFailedError as error:
        raise policy.failure("unpack", error) from None
    for step in todo[len(done) :]:
        progress.begin(step.name, step_title(step.name))
        began, began_ns = time.monotonic(), time.time_ns()
        try:
            with policy.handed(step):
                backend.run(step)
                seconds = time.monotonic() - began
                packages = policy.installed()
        except CommandFailedError as error:
            raise policy.failure(step, error) from None
        policy.checked(step.name, began_ns)
        # The last one describes the image to itself: another with each plan, and quick.
        worth = seconds >= policy.worth_keeping_s and step.number < step.total
        if policy.keep_last and step is todo[-1]:
            backend.keep(step, packages)()
        elif worth:
            _keep(backend, step, packages, progress, policy.later)
        done.append(StepResult(step=step, seconds=round(seconds, 2), kept=None, packages=packages))
    progress.end()
    return done


def _keep(
    backend: BuildBackend,
    step: BuildStep,
    packages: Packages,
    progress: StepProgress,
    later: Callable[[SaveTask], object],
) -> None:
    with _noting(step, progress):
        progress.progress.phase("keep the result")
        keeping = backend.keep(step, packages)

        def rest() -> None:
            with _noting(step, progress):
                keeping()

        later(rest)


@contextlib.contextmanager
def _noting(step: BuildStep, progress: StepProgress) -> Iterator[None]:
    """Note what keeps a result from being kept: it costs time later, and nothing now."""
    try:
        yield
    except (CommandFailedError, BuildError, OSError) as error:
        stdout = error.completed.stdout if isinstance(error, CommandFailedError) else str(error)
        cause = error_patterns.explain(stdout, 1)
        why = cause.cause if cause else stdout.strip().rpartition("\n")[2]
        progress.progress.note(f"not keeping the result of '{step.name}' in the cache: {why}")


def _begin(
    backend: BuildBackend, todo: Sequence[BuildStep], progress: StepProgress, total: int
) -> list[StepResult]:
    """Start from the last kept result that is there, or the base; return the steps in it.

    With `total` steps there are that many to run, but those in it.
    """
    while True:
        number, parent = reached(backend.recall, todo)
        progress.expect(1 + total - number + progress.after)
        if parent is None:
            progress.begin("unpack", "unpack the base")
        else:
            which = f"steps 1 to {number}" if number > 1 else "step 1"
            title = f"unpack {which} of {len(todo)} from the cache"
            progress.begin("unpack", f"{title} ('{parent.name}', {parent.made_at})")
        done = [_taken(step, parent, backend.recall(step.key)) for step in todo[:number]]
        try:
            backend.begin(parent)
        except DamagedError:
            progress.end()
            continue  # it is not given again: an earlier one, or the base
        return done


def _taken(step: BuildStep, parent: CachedStep | None, cached: CachedStep | None) -> StepResult:
    # The bytes are the parent's, so its maker is named, whoever kept this very step as well.
    return StepResult(
        step=step, seconds=None, kept=parent, packages=cached.packages if cached else ()
    )
