"""The next build in words: the commands that it would run, and the steps that it would take."""

from pathlib import Path

from dlcontainer.build import build_steps, preparation, run_steps
from dlcontainer.build.backends import select
from dlcontainer.build.base import bootstrap, native_helpers, root_tree
from dlcontainer.build.cache import explain, previous
from dlcontainer.build.cache.explain import CacheReason
from dlcontainer.build.context import BuildContext, speaks_plain_http
from dlcontainer.engines.engine import StepSpec
from dlcontainer.formats import build_context
from dlcontainer.packages.routing import PreparedRouting
from dlcontainer.planning.plan import Plan
from dlcontainer.system.workspace import workspace


def planned_commands(
    plan: Plan, context: BuildContext, output: Path, scratch: Path
) -> list[list[str]]:
    """List the commands that a build would run (`--dry-run`); folders made for it are named so."""
    work, execution = scratch / "BUILD", context.execution
    host, engine = execution.host, execution.engine
    routed = PreparedRouting.nothing(work / "routing")
    commands = []
    if not plan.recipe.base.image and preparation.given_base(context) is None:
        target = work / "rootfs.tar"
        trees = [root_tree.root_tree(plan)]
        if context.shortcuts and native_helpers.possible(plan, host):
            trees.append(root_tree.companion_tree(plan, host))
        for tree in trees:
            commands.append(bootstrap.mmdebstrap_argv(tree, routed, host, target))
    plain = speaks_plain_http(plan, routed)
    commands.append(
        engine.unpack_base_argv("setup.def", work / "tree", execution.build_mode, plain_http=plain)
    )
    for step in build_steps.work(plan, work / "context", {}):
        argv = ("/bin/sh", f"{step.name}.sh")
        spec = StepSpec(tree=work / "tree", argv=argv, mode=context.step_mode, binds=routed.binds)
        commands.append([*context.step_prefix, *engine.step_argv(spec)])
    commands.append(engine.sif_new_argv(output / f"{plan.name}.sif"))
    return commands


def coming(plan: Plan, context: BuildContext, staged: Path, *, fresh: bool) -> list[str]:
    """Name the steps that a build will run once it has its base: none that the cache holds.

    Where there is no base yet, all of them.
    """
    base, image = preparation.kept_base(plan, context), plan.recipe.base.image
    root = preparation.root(plan, context.kind, base)
    todo = build_steps.work(plan, staged, root, context.pins)
    if fresh or (base is None and not image):
        return [step.name for step in todo]
    number = run_steps.reached(select.recaller(plan, context, quiet=True), todo)[0]
    return [step.name for step in todo[number:]]


def reasons(plan: Plan, context: BuildContext, scratch: Path) -> list[CacheReason]:
    """Return for each step whether the next build takes it from the cache, or why it does not."""
    execution, image = context.execution, plan.recipe.base.image
    base = preparation.kept_base(plan, context)
    root = preparation.root(plan, context.kind, base)
    if base is None and not image:
        root["base"] = "made again: the cache has none of today"
    with workspace(scratch, execution.runner, execution.progress.note) as work:
        build_context.stage(plan, work / "context")
        todo = build_steps.work(plan, work / "context", root, context.pins)
    recall = select.recaller(plan, context)
    kept = [recall(step.key) for step in todo]
    return explain.explain(todo, kept, root, previous.inputs(plan, context))
