"""The side that the container is held against: a native installation, or the unpacked image."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from dlcontainer.bench.measure import arms, native_tree, native_twin
from dlcontainer.bench.measure.arms import Arm, Native
from dlcontainer.bench.measure.bare import arm as bare_arm
from dlcontainer.bench.measure.bench_image import BenchImage
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.bench.measure.declaration import SessionSettings
from dlcontainer.bench.measure.native_twin import ImageBuilds
from dlcontainer.errors import BenchDataError
from dlcontainer.planning.plan import Plan, native_twin_reason
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.system.machine import HostMachine


def choose(
    settings: SessionSettings, plan: Plan, subject: BenchImage, context: BenchContext
) -> tuple[Arm, str]:
    """Choose the side that the container is held against, and say why it is this one."""
    if settings.schedule.arms[:1] == ("unpacked",):
        return arms.unpacked(context, subject), "asked for by --arms"
    if settings.schedule.arms[:1] == ("bare",):
        return bare_arm.bare(context, subject), "asked for by --arms"
    probe = arms.probe_copy(settings.probe_files, context.work)
    if settings.native is not None:
        return Native(
            prefix=settings.native, probe=probe, home=context.execution.host.home
        ), "given by --native"
    builds = _builds(settings, plan.recipe, subject)
    no_twin = _no_twin(builds, plan, subject, context.execution.host)
    if no_twin and settings.schedule.arms:
        raise BenchDataError(
            "no native side is available on this machine",
            why=f"no native twin: {no_twin}",
            next_step="give a native installation with --native FOLDER, or use --arms "
            "unpacked,container",
        )
    if no_twin:
        context.execution.progress.note(
            f"no native twin: {no_twin}; measuring the unpacked image instead"
        )
        return arms.unpacked(context, subject), f"no native twin: {no_twin}"
    if plan.digest != subject.digest:
        context.execution.progress.note(
            "recipe, site or templates differ from those of the image's build; the stacks that "
            "both sides attest decide whether the sides are comparable"
        )
    prefix = native_twin.prepare(plan, context, builds)
    reason = "same recipe, same wheels"
    if builds:
        reason += f", the image's own build of {' and '.join(builds.names)}"
        context.execution.progress.note(f"native side: {reason}")
    return Native(prefix=prefix, probe=probe, home=context.execution.host.home), reason


def _no_twin(
    builds: ImageBuilds | None, plan: Plan, subject: BenchImage, host: HostMachine
) -> str | None:
    """Return why there is no native twin of the image here; None where there is one."""
    twin = builds.plan(plan) if builds else plan
    reason = native_twin_reason(twin.recipe, plan.site, host)
    if not reason and builds and subject.is_contained:
        return f"it would take the image's build to this host, and the image {subject.came}"
    if reason or not builds or plan.digest == subject.digest:
        return reason
    return (
        f"{' and '.join(builds.names)} is compiled where it stands, so that a twin takes the "
        "image's build; and the image was built from another recipe, site or templates"
    )


def _builds(settings: SessionSettings, recipe: Recipe, subject: BenchImage) -> ImageBuilds | None:
    """Name what the session loads and steps compile: builds in two places have other bits."""
    loaded = {str(value).partition(".")[0] for value in settings.values.values()}
    names = tuple(step.name for step in recipe.steps if step.native and step.name in loaded)
    if not names or settings.question != "overhead":
        return None
    return ImageBuilds(names=names, subject=subject)


@contextmanager
def shown(
    reference: Arm, settings: SessionSettings, context: BenchContext
) -> Iterator[tuple[Arm, Mapping[str, float]]]:
    """Show the native tree as it was asked for; with what that took."""
    if settings.native_as == "tree":
        yield reference, {}
        return
    if not isinstance(reference, Native):
        raise BenchDataError(
            f"--native-as {settings.native_as} needs a native tree, and none is available",
            why="the unpacked image is measured here instead of a native tree",
            next_step="give a native side with --native FOLDER, or leave --native-as out",
        )
    module = str(settings.values["module"])
    with native_tree.shown(settings.native_as, reference.prefix, module, context) as tree:
        times = {} if tree.seconds is None else {"native_ready_s": round(tree.seconds, 3)}
        yield replace(reference, prefix=tree.prefix), times
