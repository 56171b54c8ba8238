"""A finished base for other machines: made here as a build makes it, and written to a file."""

from dataclasses import dataclass
from pathlib import Path

from dlcontainer.build import preflight
from dlcontainer.build.base import carried_base, root_tree
from dlcontainer.build.base.bootstrap import BaseMaker
from dlcontainer.build.base.carried_base import BaseRecord
from dlcontainer.errors import ConfigError
from dlcontainer.packages import routing
from dlcontainer.packages.bundle import Bundle
from dlcontainer.planning.plan import Plan
from dlcontainer.system.machine import Host
from dlcontainer.system.process import Runner
from dlcontainer.system.progress import Progress
from dlcontainer.system.workspace import workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class Finisher:
    """Who makes finished bases: this user, here, with this cache. It takes no engine."""

    host: Host
    runner: Runner
    cache: Path
    scratch: Path
    progress: Progress


def make(plan: Plan, bundle: Bundle | None, finisher: Finisher, target: Path) -> BaseRecord:
    """Make the base of a plan, of a lock's packages where there is a bundle, and write it.

    Raises ConfigError for a base that is an image, BuildError where it can't be made here.
    """
    if plan.recipe.base.image:
        raise ConfigError(
            f"the base of {plan.name} is an image: {plan.recipe.base.title}",
            why="a registry has it, and there is nothing to make",
            next_step=f"dlcontainer base pin {plan.recipe.name} --site {plan.site.name}",
        )
    host, runner, progress = finisher.host, finisher.runner, finisher.progress
    wanted = root_tree.root_tree(plan, bundle)
    kept = root_tree.recall(plan, finisher.cache, bundle)
    if kept is None:
        preflight.check_architecture(plan, host)
        preflight.check_base(plan, host)
        with workspace(finisher.scratch, runner, progress.note) as work:
            progress.step(f"base: {plan.recipe.base.title}")
            folder = work / "routing"
            folder.mkdir(mode=0o700)
            routed = routing.prepare(plan, host, runner, folder, bundle)
            for note in routed.notes:
                progress.note(note)
            maker = BaseMaker(
                host=host,
                runner=runner,
                cache=finisher.cache,
                on_line=progress.line,
                on_wait=progress.note,
            )
            kept = root_tree.prepare(plan, routed, maker, work, work / "base.log")
    return carried_base.write(wanted, kept, target)
