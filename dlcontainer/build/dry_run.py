"""A dry run: the commands of a build, in their order; nothing is run."""

from pathlib import Path

from dlcontainer.build import build_steps
from dlcontainer.build import context as shop
from dlcontainer.build.base import bootstrap, native_helpers, root_tree
from dlcontainer.build.context import Workshop
from dlcontainer.engines.base import StepSpec
from dlcontainer.packages.routing import Routed
from dlcontainer.planning.plan import Plan


def planned_commands(
    plan: Plan, workshop: Workshop, output: Path, scratch: Path
) -> list[list[str]]:
    """List the commands that a build would run (`--dry-run`); folders made for it are named so."""
    work = scratch / "BUILD"
    routed = Routed.nothing(work / "routing")
    commands = []
    if not plan.recipe.base.image:
        target = work / "rootfs.tar"
        trees = [root_tree.root_tree(plan)]
        if workshop.shortcuts and native_helpers.possible(plan, workshop.host):
            trees.append(root_tree.companion_tree(plan, workshop.host))
        for tree in trees:
            commands.append(bootstrap.mmdebstrap_argv(tree, routed, workshop.host, target))
    engine = workshop.engine
    image = plan.recipe.base.reference
    plain = image is not None and shop.way(plan, routed).is_plain(image.address)
    commands.append(
        engine.unpack_base_argv("setup.def", work / "tree", workshop.mode, plain_http=plain)
    )
    for step in build_steps.work(plan, work / "context", {}):
        argv = ("/bin/sh", f"{step.name}.sh")
        spec = StepSpec(tree=work / "tree", argv=argv, mode=workshop.step_mode, binds=routed.binds)
        commands.append([*workshop.step_prefix, *engine.step_argv(spec)])
    commands.append(engine.sif_new_argv(output / f"{plan.name}.sif"))
    return commands
