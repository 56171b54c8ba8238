"""Build: plan -> image, with its record and its log beside it. It appears whole or not at all."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.build import (
    build_steps,
    prefetch,
    preflight,
    provenance,
    run_steps,
    step_errors,
    write_record,
)
from dlcontainer.build import context as shop
from dlcontainer.build.backends import oci_backend, select
from dlcontainer.build.backends.backend import Workbench
from dlcontainer.build.backends.oci_export import Delivered
from dlcontainer.build.base import root_tree
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.build.build_steps import StepWork
from dlcontainer.build.cache import explain as explaining
from dlcontainer.build.cache import previous
from dlcontainer.build.cache.explain import Reason
from dlcontainer.build.cache.oci_layers import OciStore
from dlcontainer.build.cache.previous import Places
from dlcontainer.build.context import Workshop
from dlcontainer.build.description import Description
from dlcontainer.build.prefetch import Supplies
from dlcontainer.build.run_steps import Done, Policy
from dlcontainer.build.step_errors import Failure
from dlcontainer.config.suggestions import suggest
from dlcontainer.engines.apptainer import squash
from dlcontainer.errors import BuildError, UsageError
from dlcontainer.formats import build_context
from dlcontainer.image.record import Record
from dlcontainer.packages.pip import pip_report
from dlcontainer.packages.routing import Routed
from dlcontainer.planning.plan import Plan
from dlcontainer.registry.base_image import BaseImage
from dlcontainer.system.atomic_files import flush
from dlcontainer.system.background import Beside, beside
from dlcontainer.system.progress import Steps
from dlcontainer.system.workspace import settle, settling, workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class Wishes:
    """What may be asked of one build.

    `fresh`: nothing is taken from the cache. `until`: end after this step, without an image.
    `on_failure` is called with the bench when a step has failed, while its tree still stands.
    """

    tmpdir: Path | None = None
    fresh: bool = False
    until: str | None = None
    on_failure: Callable[[Workbench, BuildError], None] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """A finished image and what lies beside it; size in bytes, time in s.

    `name` is what an engine's store knows it by, where it stays in one: then it is no file.
    `pushed` names it in a registry, by digest. `found`: nothing had changed, it was there already.
    """

    places: Places
    sha256: str
    size: int
    seconds: float
    name: str | None = None
    pushed: str | None = None
    found: bool = False


def build(plan: Plan, workshop: Workshop, output: Path, wishes: Wishes) -> Image | None:
    """Build a plan's image into a folder; None where it was to end after a step.

    Goes on from the last step whose result is kept. Raises BuildError with the failed step, its
    last lines and the log's path. Whatever ends it, no process, mount or half image is left; a
    killed build's leftovers go with the next one.
    """
    start = time.monotonic()
    preflight.check_architecture(plan, workshop.host)
    found = None if wishes.fresh or wishes.until else _found(plan, workshop, output, start)
    if found is not None:
        return found
    scratch = preflight.choose_tmpdir(plan, workshop.host, wishes.tmpdir)
    preflight.make_folder(output)
    preflight.check_space(plan, output, scratch, workshop.progress)
    runner, note = workshop.runner, workshop.progress.note
    failed = output / f"{plan.name}.failed.log"
    with (
        workspace(output, runner, note) as near,
        workspace(scratch, runner, note) as work,
        beside(runner) as aside,
        step_errors.log_kept(near / "build.log", failed),
    ):
        image = _make(plan, workshop, (output, near, work), (wishes, aside), start)
    if image is not None:
        failed.unlink(missing_ok=True)
        _make_room(plan, workshop)
    return image


def explain(plan: Plan, workshop: Workshop, scratch: Path) -> list[Reason]:
    """Say of each step whether the next build takes it from the cache, and why another is not."""
    image = plan.recipe.base.image
    base = None if image else root_tree.recall(plan, workshop.cache, workshop.bundle)
    root = shop.root(plan, workshop, base)
    if base is None and not image:
        root["base"] = "made again: none of today is kept"
    with workspace(scratch, workshop.runner, workshop.progress.note) as work:
        build_context.stage(plan, work / "context")
        todo = build_steps.work(plan, work / "context", root, workshop.pins)
    recall = select.recaller(plan, workshop)
    kept = [recall(step.key) for step in todo]
    return explaining.explain(todo, kept, root, previous.inputs(plan, workshop))


def _found(plan: Plan, workshop: Workshop, output: Path, start: float) -> Image | None:
    there = previous.places(plan, workshop, output)
    written = previous.found(plan, workshop, there)
    if written is None:
        return None
    image = _image(workshop, there, written, None, start)
    if there.image is None and workshop.oci:
        store = OciStore(client=workshop.oci, arch=plan.site.arch)
        return replace(image, name=oci_backend.image_name(plan, store), found=True)
    return replace(image, found=True)


def _image(
    workshop: Workshop,
    there: Places,
    written: Record,
    delivered: Delivered | None,
    start: float,
) -> Image:
    stays = delivered is not None and workshop.delivery.outcome == "image"
    return Image(
        places=there,
        sha256=written.image.sha256,
        size=written.image.size,
        seconds=time.monotonic() - start,
        name=delivered.name if delivered and stays else None,
        pushed=delivered.reference if delivered else None,
    )


def _make(
    plan: Plan,
    workshop: Workshop,
    places: tuple[Path, Path, Path],
    asked: tuple[Wishes, Beside],
    start: float,
) -> Image | None:
    (output, near, work), (wishes, aside) = places, asked
    log, image, progress = near / "build.log", near / "image.sif", Steps(workshop.progress)
    routed = shop.route(plan, workshop, work)
    staged = work / "context"
    build_context.stage(plan, staged)
    fetched = prefetch.begin(plan, workshop, routed, (staged, log), aside, fresh=wishes.fresh)
    base = shop.base(plan, workshop, routed, (work, log), progress)
    shop.add_shortcuts(plan, workshop, routed, (work, log), progress)
    todo = _todo(plan, workshop, work, base, wishes.until)
    said = shop.sources(plan, workshop, base, routed)
    known = aside.start(lambda runner: provenance.gather(plan, replace(said, runner=runner)))
    with select.opened(plan, workshop, (routed, base, aside), (work, log), progress) as bench:
        policy = _policy(plan, (workshop, output, wishes), routed, (aside, fetched))
        done = _grow(bench, todo, progress, policy, wishes)
        if wishes.until:
            return None
        with step_errors.packing(Failure(plan=plan, output=output), progress):
            described = shop.describe(plan, workshop, (bench, said, known), done, work)
            bench.finish(image, described.sbom)
        delivered = select.delivered(bench)
    progress.begin("record", "record")
    if image.exists():  # some images stay in an engine's store
        aside.start(lambda _: flush(image))
    made, course = (image, delivered), (done, progress)
    facts = _facts(plan, workshop, (routed, described, base), made, course, start)
    written = write_record.write(near / "record.json", facts)
    shutil.copyfile(described.sbom, near / "sbom.json")
    there = _settle(plan, workshop, output, near)
    return _image(workshop, there, written, delivered, start)


def _todo(
    plan: Plan,
    workshop: Workshop,
    work: Path,
    base: BaseTree | BaseImage,
    until: str | None,
) -> list[StepWork]:
    root = shop.root(plan, workshop, base if isinstance(base, BaseTree) else None)
    todo = build_steps.work(plan, work / "context", root, workshop.pins)
    previous.note_inputs(plan, workshop, explaining.inputs_of(todo, root))
    if until is None:
        return todo
    names = [step.name for step in todo]
    if until not in names:
        raise UsageError(
            f"--until: no step {until!r}{suggest(until, names)}", next_step=", ".join(names)
        )
    return todo[: names.index(until) + 1]


def _policy(
    plan: Plan,
    asked: tuple[Workshop, Path, Wishes],
    routed: Routed,
    beside_it: tuple[Beside, Supplies],
) -> Policy:
    workshop, output, wishes = asked
    aside, fetched = beside_it
    return Policy(
        failure=Failure(plan=plan, output=output),
        installed=lambda: pip_report.take_installed(routed),
        worth_keeping_s=workshop.worth_keeping_s,
        fresh=wishes.fresh,
        keep_last=wishes.until is not None,
        later=lambda keeping: aside.start(lambda _: keeping()),
        handed=fetched.handed,
    )


def _grow(
    bench: Workbench, todo: Sequence[StepWork], progress: Steps, policy: Policy, wishes: Wishes
) -> list[Done]:
    try:
        return run_steps.grow(bench, todo, progress, policy)
    except BuildError as error:
        if wishes.on_failure is not None:
            wishes.on_failure(bench, error)
        raise


def _settle(plan: Plan, workshop: Workshop, output: Path, near: Path) -> Places:
    there = previous.places(plan, workshop, output)
    with settling(output):
        settle(near / "build.log", there.log)
        settle(near / "sbom.json", there.sbom)
        settle(near / "record.json", there.record)
        # Last: who sees the image sees its record too.
        if there.image is not None:
            settle(near / "image.sif", there.image)
    return there


def _make_room(plan: Plan, workshop: Workshop) -> None:
    gone = shop.step_cache(plan, workshop).prune(plan.site.engine.cache_gb * 10**9)
    if gone:
        workshop.progress.note(
            f"{len(gone)} kept steps went, those used longest ago: engine.cache_gb is "
            f"{plan.site.engine.cache_gb}"
        )


def _facts(
    plan: Plan,
    workshop: Workshop,
    origin: tuple[Routed, Description, BaseTree | BaseImage],
    made: tuple[Path, Delivered | None],
    course: tuple[Sequence[Done], Steps],
    start: float,
) -> write_record.Facts:
    routed, described, base = origin
    done, progress = course
    image, delivered = made
    return write_record.Facts(
        plan=plan,
        host=workshop.host,
        trial=workshop.trial,
        image=image,
        base=base,
        lock=routed.bundle.lock.digest if routed.bundle else None,
        text=workshop.text(plan),
        provenance=described.provenance,
        packages=tuple(package for one in done for package in one.packages),
        done=tuple(done),
        steps=tuple(progress.times),
        seconds=time.monotonic() - start,
        squash=squash(workshop.level),
        order=workshop.order.digest if workshop.order else None,
        outcome=workshop.delivery.outcome,
        delivered=delivered,
    )
