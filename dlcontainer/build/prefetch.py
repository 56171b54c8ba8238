"""Wheels are fetched while the base is made: a step that needs them finds them beside its routing.

The host's pip fetches, as it does for a lock, by the way that the routing says, and checks what it
gets; what it got over a network it keeps, so that the next build does not fetch it again. Nothing
here can fail a build: a step whose wheels did not come fetches them itself.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.build import build_steps, preparation, run_steps
from dlcontainer.build.backends import select
from dlcontainer.build.base import root_tree
from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.context import BuildContext, BuildRun
from dlcontainer.engines.execution import Execution
from dlcontainer.image.layout import ROUTING_FOLDER
from dlcontainer.packages import routing
from dlcontainer.packages.pip.kept_wheels import WheelFetcher
from dlcontainer.packages.routing import PreparedRouting
from dlcontainer.planning.plan import Plan
from dlcontainer.recipes.steps import Step
from dlcontainer.system.background import BackgroundTask
from dlcontainer.system.process import (
    CommandEndedError,
    CommandFailedError,
    CommandNotFoundError,
)

# In the routing's folder: a folder of wheels for each step.
_WHEELS = "wheels"


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchedSupplies:
    """What is fetched for the steps of one build."""

    folder: Path
    coming: dict[str, BackgroundTask[None]]
    log: Path
    on_note: Callable[[str], None]

    @contextlib.contextmanager
    def handed(self, step: BuildStep) -> Iterator[None]:
        """Let a step find its wheels, and look nowhere else, if all of them came."""
        wheels, config = self.folder / _WHEELS / step.name, self.folder / routing.PIP_CONFIG
        if not self._came(step.name):
            yield
            return
        usual = config.read_text()
        config.write_text(
            "[global]\nno-index = true\ndisable-pip-version-check = true\n"
            f"find-links = {ROUTING_FOLDER}/{_WHEELS}/{step.name}\n"
        )
        try:
            yield
        finally:
            config.write_text(usual)
            shutil.rmtree(wheels, ignore_errors=True)

    def _came(self, name: str) -> bool:
        if name not in self.coming:
            return False
        if self.coming[name].runs:
            self.on_note(f"waiting for the wheels of '{name}'")
        wheels = self.folder / _WHEELS / name
        try:
            self.coming[name].result()
        except (CommandFailedError, CommandEndedError, CommandNotFoundError, OSError):
            # pip in the step says what is wrong, or finds that it is not any more.
            shutil.rmtree(wheels, ignore_errors=True)
            return False
        # Names alone: a log is published, and where they came from is the host's business.
        names = ", ".join(sorted(path.name for path in wheels.iterdir()))
        with self.log.open("a", encoding="utf-8") as file:
            file.write(f"wheels of '{name}', fetched in advance: {names}\n")
        return True


def begin(
    plan: Plan, context: BuildContext, routed: PreparedRouting, run: BuildRun, *, fresh: bool
) -> FetchedSupplies:
    """Begin to fetch the wheels of the steps that will be run."""
    log, on_note = run.folders.log, context.execution.progress.note
    supplies = FetchedSupplies(folder=routed.folder, coming={}, log=log, on_note=on_note)
    for step in _wanted(plan, context, run.folders.context, fresh=fresh):
        (routed.folder / _WHEELS / step.name).mkdir(parents=True)
        supplies.coming[step.name] = run.background.start(
            lambda runner, step=step: _fetch(  # type: ignore[misc]
                plan, replace(context.execution, runner=runner), routed, step
            )
        )
    return supplies


def _wanted(plan: Plan, context: BuildContext, staged: Path, *, fresh: bool) -> list[Step]:
    steps = [step for step in plan.recipe.steps if step.python_packages]
    # Only a distribution's own Python is surely the one that it is taken for.
    if not steps or context.bundle or plan.recipe.base.image or _has_other_python(plan):
        return []
    base = root_tree.recall(plan, context.execution.cache, since=context.base_since)
    if fresh or base is None:
        return steps
    root = preparation.root(plan, context.kind, base)
    todo = build_steps.work(plan, staged, root, context.pins)
    names = _not_kept(todo, plan, context)
    return [step for step in steps if step.name in names]


def _has_other_python(plan: Plan) -> bool:
    usual: str = type(plan.recipe).model_fields["interpreter"].default
    return str(plan.recipe.interpreter) != usual


def _not_kept(todo: Sequence[BuildStep], plan: Plan, context: BuildContext) -> set[str]:
    recall = select.recaller(plan, context, quiet=True)
    number = run_steps.reached(recall, todo)[0]
    return {step.name for step in todo[number:]}


def _fetch(plan: Plan, execution: Execution, routed: PreparedRouting, step: Step) -> None:
    fetcher = WheelFetcher(
        host=execution.host,
        runner=execution.runner,
        cache=execution.cache,
        proxies=routed.environment,
        ca=routed.ca,
        on_line=lambda _: None,
    )
    pip, packages = fetcher.pip(plan), step.python_packages
    if packages is None or pip is None:
        return
    folder = routed.folder / _WHEELS / step.name
    pip.fetch(packages.packages, routed.upstreams.get(packages.upstream or "", ""), folder)
