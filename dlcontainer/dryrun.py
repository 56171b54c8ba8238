"""A dry run: the commands of a build, in their order; nothing is run."""

from pathlib import Path

from dlcontainer import basemaker, rootfs, shortcuts, stepwork
from dlcontainer import workshop as shop
from dlcontainer.engines.base import StepSpec
from dlcontainer.plan import Plan
from dlcontainer.routing import Routed
from dlcontainer.workshop import Workshop


def planned_commands(
    plan: Plan, workshop: Workshop, output: Path, scratch: Path
) -> list[list[str]]:
    """List the commands that a build would run (`--dry-run`); folders made for it are named so."""
    work = scratch / "BUILD"
    routed = Routed.nothing(work / "routing")
    commands = []
    if not plan.recipe.base.image:
        target = work / "rootfs.tar"
        trees = [rootfs.root_tree(plan)]
        if workshop.shortcuts and shortcuts.possible(plan, workshop.host):
            trees.append(rootfs.companion_tree(plan, workshop.host))
        for tree in trees:
            commands.append(basemaker.mmdebstrap_argv(tree, routed, workshop.host, target))
    engine = workshop.engine
    image = plan.recipe.base.reference
    plain = image is not None and shop.way(plan, routed).is_plain(image.address)
    commands.append(
        engine.unpack_base_argv("setup.def", work / "tree", workshop.mode, plain_http=plain)
    )
    for step in stepwork.work(plan, work / "context", {}):
        argv = ("/bin/sh", f"{step.name}.sh")
        spec = StepSpec(tree=work / "tree", argv=argv, mode=workshop.step_mode, binds=routed.binds)
        commands.append([*workshop.step_prefix, *engine.step_argv(spec)])
    commands.append(engine.sif_new_argv(output / f"{plan.name}.sif"))
    return commands
