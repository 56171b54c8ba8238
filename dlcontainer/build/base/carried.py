"""The base as files beside a rendered text, which builds elsewhere, without dlcontainer."""

import shutil
from collections.abc import Collection
from pathlib import Path

from dlcontainer.build import preflight, step_errors
from dlcontainer.build.base import oci_base, root_tree
from dlcontainer.build.base.bootstrap import BaseMaker
from dlcontainer.formats.apptainer import BASE_FILE
from dlcontainer.formats.dockerfile import ROOT_TREE
from dlcontainer.packages import routing
from dlcontainer.planning.plan import Plan
from dlcontainer.system import workspace


def lay(plan: Plan, maker: BaseMaker, names: Collection[str], folder: Path, log: Path) -> None:
    """Put a plan's base into a folder, as the files of these names: a SquashFS, a tar, or both.

    It is the base that a build of today begins with: from the cache, or made now. `log` is written
    where that fails. Raises BuildError.
    """
    preflight.check_architecture(plan, maker.host)
    if root_tree.recall(plan, maker.cache, None) is None:
        preflight.check_base(plan, maker.host)
    scratch = preflight.choose_tmpdir(plan, maker.host, None)
    with (
        workspace.workspace(scratch, maker.runner, maker.on_wait) as work,
        step_errors.log_kept(work / "base.log", log),
    ):
        way = work / "routing"
        way.mkdir(mode=0o700)
        routed = routing.prepare(plan, maker.host, maker.runner, way, None)
        for note in routed.notes:
            maker.on_wait(note)
        tree = root_tree.prepare(plan, routed, maker, work, work / "base.log")
        if BASE_FILE in names:
            shutil.copyfile(tree.path, folder / BASE_FILE)
        if ROOT_TREE in names:
            tar = oci_base.tar(tree.path, work, maker.host, maker.runner)
            shutil.copyfile(tar, folder / ROOT_TREE)
