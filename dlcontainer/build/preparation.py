"""Before the first step: routing, base and native programs, made ready."""

import shutil
from dataclasses import replace
from pathlib import Path

from dlcontainer.build import build_steps
from dlcontainer.build.base import carried_base, native_helpers, pinning, root_tree
from dlcontainer.build.base.bootstrap import BaseMaker
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.build.context import BuildContext, BuildRun, registry_access
from dlcontainer.build.provenance import BuildSources
from dlcontainer.config.image_names import ImageReference
from dlcontainer.engines.execution import Execution
from dlcontainer.packages import bundle_copy, routing
from dlcontainer.packages.routing import PreparedRouting
from dlcontainer.planning.plan import Plan
from dlcontainer.registry import base_image as registry
from dlcontainer.registry import oci_layout
from dlcontainer.registry.base_image import BaseImage
from dlcontainer.registry.connection import RegistryAccess
from dlcontainer.registry.oci_layout import OciLayout
from dlcontainer.system.progress import Progress

# An image that a bundle carries, in a build's private folder.
_CARRIED = "base-image"


def secured(context: BuildContext, work: Path) -> BuildContext:
    """Return the context with a bundle that others can't change while the build reads it."""
    if context.bundle is None:
        return context
    bundle = bundle_copy.secured(context.bundle, work / "bundle")
    return replace(context, bundle=bundle, base=given_base(context))


def route(plan: Plan, context: BuildContext, work: Path) -> PreparedRouting:
    """Write the routing of a build below `work`; say what it leaves out."""
    execution, bundle = context.execution, context.bundle
    if bundle is not None:
        bundle.lock.require(plan, str(bundle.folder))
    folder = work / "routing"
    folder.mkdir(mode=0o700)
    routed = routing.prepare(plan, execution.host, execution.runner, folder, bundle)
    for note in routed.notes:
        execution.progress.note(note)
    return routed


def base(
    plan: Plan, context: BuildContext, routed: PreparedRouting, run: BuildRun
) -> BaseTree | BaseImage:
    """Return the base of a plan: a tree from the cache or made now, or a checked image."""
    base, progress = plan.recipe.base, context.execution.progress
    run.steps.begin("base", f"base: {base.title}")
    image = base.reference
    if image is not None:
        if context.bundle is not None and context.bundle.image is not None:
            return _carried_image(image, context.bundle.image, run.folders.work)
        return _base_image(plan, image, registry_access(plan, routed), progress)
    file = given_base(context)
    if file is not None:
        carried = carried_base.take(plan, file, run.folders.work, context.bundle)
        progress.note(f"using the base of {carried.made_at} from {file}")
        return carried
    maker = replace(_maker(context.execution), since=context.base_since)
    tree = root_tree.prepare(plan, routed, maker, run.folders.work, run.folders.log)
    if tree.cached:
        progress.note(f"using the base of {tree.made_at} from the cache")
    return tree


def has_base(plan: Plan, context: BuildContext) -> bool:
    """Return whether the base needs no making: it is an image, given, or in the cache."""
    return bool(plan.recipe.base.image) or kept_base(plan, context) is not None


def kept_base(plan: Plan, context: BuildContext) -> BaseTree | None:
    """Return which root tree a build would begin with, if it needs no making."""
    if plan.recipe.base.image:
        return None
    file = given_base(context)
    if file is not None:
        return carried_base.peek(plan, file, context.bundle)
    return root_tree.recall(plan, context.execution.cache, context.bundle, context.base_since)


def given_base(context: BuildContext) -> Path | None:
    """Return the finished base that a build was handed: by --base, or in its bundle."""
    if context.base is not None:
        return context.base
    return context.bundle.base if context.bundle else None


def _maker(execution: Execution) -> BaseMaker:
    return BaseMaker(
        host=execution.host,
        runner=execution.runner,
        cache=execution.cache,
        on_line=execution.progress.line,
        on_wait=execution.progress.note,
    )


def _carried_image(image: ImageReference, carried: OciLayout, work: Path) -> BaseImage:
    """Return the image that a bundle carries; its blobs were checked as it was opened."""
    folder = work / _CARRIED
    oci_layout.lay(carried, folder)
    return BaseImage(
        name=image.name,
        tag=image.tag,
        digest=str(image.digest),
        platform_digest=carried.manifest,
        layout=folder,
    )


def _base_image(
    plan: Plan, image: ImageReference, how: RegistryAccess, progress: Progress
) -> BaseImage:
    if image.digest is None:
        raise pinning.refusal(plan, image, how)
    checked = registry.check(image, plan.site.arch, how)
    for note in checked.notes:
        progress.note(note)
    return checked


def before_steps(plan: Plan, context: BuildContext) -> int:
    """Count the steps of progress that a build takes for its base and what lies beside it."""
    return 1 + _has_shortcuts(plan, context)


def _has_shortcuts(plan: Plan, context: BuildContext) -> bool:
    # A lock has no packages for this host's architecture: a locked build takes its time.
    uses_shortcuts = context.shortcuts and context.bundle is None and context.base is None
    return uses_shortcuts and native_helpers.possible(plan, context.execution.host)


def add_shortcuts(
    plan: Plan, context: BuildContext, routed: PreparedRouting, run: BuildRun
) -> None:
    """Lay native programs beside the routing, where they help an emulated build."""
    execution, folders = context.execution, run.folders
    host = execution.host
    if not _has_shortcuts(plan, context):
        return
    run.steps.begin("shortcuts", f"{host.arch} programs that help the emulated build")
    maker, companion = _maker(execution), folders.work / "companion"
    tree = root_tree.prepare_companion(plan, routed, maker, folders.work, folders.log)
    native_helpers.unpack(tree.path, companion, host, execution.runner)
    native_helpers.add(plan, host, companion, routed.folder)
    shutil.rmtree(companion)


def root(plan: Plan, kind: str, tree: BaseTree | BaseImage | None) -> dict[str, str]:
    """Name what the first step starts from, for the steps' keys; `kind` is the engine's."""
    digest = tree.sha256 if isinstance(tree, BaseTree) else str(plan.recipe.base.reference)
    return build_steps.root(digest, plan.site.arch, kind)


def sources(plan: Plan, context: BuildContext, made_of: BaseTree | BaseImage) -> BuildSources:
    """Return what an image is made of beside its plan."""
    return BuildSources(
        text=context.text(plan),
        base=made_of.sha256 if isinstance(made_of, BaseTree) else None,
        engine=context.version,
        lock=context.lock,
        runner=context.execution.runner,
        environ=context.execution.host.environ,
    )
