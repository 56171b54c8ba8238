"""A finished base for other machines: made here as a build makes it, and written to a file."""

import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.build import preflight, step_errors
from dlcontainer.build.base import carried_base, oci_base, root_tree
from dlcontainer.build.base.bootstrap import BaseMaker
from dlcontainer.build.base.carried_base import BaseRecord
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.errors import ConfigError
from dlcontainer.formats.apptainer import BASE_FILE
from dlcontainer.formats.dockerfile import ROOT_TREE
from dlcontainer.packages import routing
from dlcontainer.packages.bundle import Bundle
from dlcontainer.planning.plan import Plan
from dlcontainer.system.environ import proxies
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.process import Runner
from dlcontainer.system.progress import Progress
from dlcontainer.system.workspace import workspace

_LOG = "base.log"


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseFinisher:
    """Who makes finished bases: this user, here, with this cache. It takes no engine."""

    host: HostMachine
    runner: Runner
    cache: Path
    scratch: Path
    progress: Progress


def make(plan: Plan, bundle: Bundle | None, finisher: BaseFinisher, target: Path) -> BaseRecord:
    """Make the base of a plan, of a lock's packages where there is a bundle, and write it.

    Raises ConfigError for a base that is an image, BuildError where it can't be made here.
    """
    if plan.recipe.base.image:
        raise ConfigError(
            f"the base of {plan.name} is an image: {plan.recipe.base.title}",
            why="builds pull it from a registry, so there is nothing to make",
            next_step=f"dlcontainer base pin {plan.recipe.name} --site {plan.site.name}",
        )
    kept = root_tree.recall(plan, finisher.cache, bundle)
    if kept is None:
        _require_makeable(plan, finisher)
        with workspace(finisher.scratch, finisher.runner, finisher.progress.note) as work:
            kept = _made(plan, bundle, finisher, work)
    return carried_base.write(root_tree.root_tree(plan, bundle), kept, target)


def lay(
    plan: Plan, finisher: BaseFinisher, names: Collection[str], folder: Path, log: Path
) -> None:
    """Put a plan's base beside a rendered text, as files of these names: SquashFS, tar, or both.

    It is the base that a build of today begins with: from the cache, or made now. `log` is written
    where that fails. Raises BuildError.
    """
    kept = root_tree.recall(plan, finisher.cache)
    if kept is None:
        _require_makeable(plan, finisher)
    with (
        workspace(finisher.scratch, finisher.runner, finisher.progress.note) as work,
        step_errors.log_kept(work / _LOG, log),
    ):
        tree = kept or _made(plan, None, finisher, work)
        if BASE_FILE in names:
            shutil.copyfile(tree.path, folder / BASE_FILE)
        if ROOT_TREE in names:
            tar = oci_base.tar(tree.path, work, finisher.host, finisher.runner)
            shutil.copyfile(tar, folder / ROOT_TREE)


def _require_makeable(plan: Plan, finisher: BaseFinisher) -> None:
    preflight.check_architecture(plan, finisher.host)
    preflight.check_base(plan, finisher.host)


def _made(plan: Plan, bundle: Bundle | None, finisher: BaseFinisher, work: Path) -> BaseTree:
    """Make a base in a private folder, through the same mirrors as a build's."""
    progress = finisher.progress
    progress.step(f"base: {plan.recipe.base.title}")
    folder = work / "routing"
    folder.mkdir(mode=0o700)
    routed = routing.prepare(plan, finisher.host, finisher.runner, folder, bundle)
    for note in routed.notes:
        progress.note(note)
    maker = BaseMaker(
        host=finisher.host,
        runner=finisher.runner,
        cache=finisher.cache,
        on_line=progress.line,
        on_wait=progress.note,
    )
    with proxies.naming_faults(routed.environment):
        return root_tree.prepare(plan, routed, maker, work, work / _LOG)
