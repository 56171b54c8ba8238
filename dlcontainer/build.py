"""Build: plan -> image, with its record and its log beside it. It appears whole or not at all."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer import (
    benches,
    earlier,
    failing,
    growing,
    pipreport,
    prefetch,
    preflight,
    provenance,
    record,
    rootfs,
    sbom,
    shortcuts,
    stepwork,
)
from dlcontainer import explain as explaining
from dlcontainer import workshop as shop
from dlcontainer.beside import Beside, beside
from dlcontainer.describing import Description
from dlcontainer.engines.apptainer import squash
from dlcontainer.engines.base import StepSpec
from dlcontainer.errors import BuildError, UsageError
from dlcontainer.explain import Reason
from dlcontainer.failing import Failure
from dlcontainer.formats import context
from dlcontainer.growing import Done, Policy
from dlcontainer.hints import suggest
from dlcontainer.plan import Plan
from dlcontainer.prefetch import Supplies
from dlcontainer.progress import Steps
from dlcontainer.registry.check import BaseImage
from dlcontainer.rootfs import BaseTree
from dlcontainer.routing import Routed
from dlcontainer.stepwork import StepWork
from dlcontainer.workbench import Workbench
from dlcontainer.workshop import Workshop
from dlcontainer.workspace import flush, settle, settling, workspace


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

    `found`: nothing had changed, it was there already.
    """

    path: Path
    record: Path
    log: Path
    sbom: Path
    sha256: str
    size: int
    seconds: float
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
    runner, progress = workshop.runner, Steps(workshop.progress)
    with (
        workspace(output, runner) as near,
        workspace(scratch, runner) as work,
        beside(runner) as aside,
    ):
        log, image = near / "build.log", near / "image.sif"
        with failing.log_kept(log, output / f"{plan.name}.failed.log"):
            routed = shop.route(plan, workshop, work)
            context.stage(plan, work / "context")
            fetched = prefetch.begin(
                plan, workshop, routed, work / "context", aside, fresh=wishes.fresh
            )
            base = shop.base(plan, workshop, routed, (work, log), progress)
            shop.add_shortcuts(plan, workshop, routed, (work, log), progress)
            todo = _todo(plan, workshop, work, base, wishes.until)
            said = shop.sources(plan, workshop, base, routed)
            made = aside.start(lambda runner: provenance.gather(plan, replace(said, runner=runner)))
            origin = (routed, base, aside)
            with benches.opened(plan, workshop, origin, (work, log), progress) as bench:
                policy = _policy(plan, (workshop, output, wishes), routed, (aside, fetched))
                done = _grow(bench, todo, progress, policy, wishes)
                if wishes.until:
                    return None
                with failing.packing(Failure(plan=plan, output=output), progress):
                    described = shop.describe(plan, workshop, (bench, said, made), done, work)
                    bench.finish(image, described.sbom)
        progress.begin("record", "record")
        aside.start(lambda _: flush(image))
        facts = _facts(plan, workshop, (routed, described, base), image, (done, progress), start)
        written = record.write(near / "record.json", facts)
        shutil.copyfile(described.sbom, near / "sbom.json")
        paths = _settle(plan, output, near)
    (output / f"{plan.name}.failed.log").unlink(missing_ok=True)
    _make_room(plan, workshop)
    return Image(
        path=paths[".sif"],
        record=paths[".json"],
        log=paths[".log"],
        sbom=paths[sbom.SUFFIX],
        sha256=written.sha256,
        size=written.size,
        seconds=time.monotonic() - start,
    )


def explain(plan: Plan, workshop: Workshop, scratch: Path) -> list[Reason]:
    """Say of each step whether the next build takes it from the cache, and why another is not."""
    image = plan.recipe.base.image
    base = None if image else rootfs.recall(plan, workshop.cache, workshop.bundle)
    root = shop.root(plan, workshop, base)
    if base is None and not image:
        root["base"] = "made anew: none of today is kept"
    with workspace(scratch, workshop.runner) as work:
        context.stage(plan, work / "context")
        todo = stepwork.work(plan, work / "context", root, workshop.pins)
    recall = benches.recaller(plan, workshop)
    kept = [recall(step.key) for step in todo]
    return explaining.explain(todo, kept, root, earlier.inputs(plan, workshop))


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
            commands.append(rootfs.mmdebstrap_argv(tree, routed, workshop.host, target))
    engine = workshop.engine
    image = plan.recipe.base.reference
    plain = image is not None and shop.way(plan, routed).is_plain(image.address)
    commands.append(
        engine.unpack_base_argv("setup.def", work / "tree", workshop.mode, plain_http=plain)
    )
    for step in stepwork.work(plan, work / "context", {}):
        argv = ("/bin/sh", f"{step.name}.sh")
        spec = StepSpec(tree=work / "tree", argv=argv, mode=workshop.step_mode, binds=routed.binds)
        commands.append(engine.step_argv(spec))
    commands.append(engine.sif_new_argv(output / f"{plan.name}.sif"))
    return commands


def _found(plan: Plan, workshop: Workshop, output: Path, start: float) -> Image | None:
    paths = earlier.paths(plan, output)
    written = earlier.found(plan, workshop, paths)
    if written is None:
        return None
    return Image(
        path=paths[".sif"],
        record=paths[".json"],
        log=paths[".log"],
        sbom=paths[sbom.SUFFIX],
        sha256=written.sha256,
        size=written.size,
        seconds=time.monotonic() - start,
        found=True,
    )


def _todo(
    plan: Plan,
    workshop: Workshop,
    work: Path,
    base: BaseTree | BaseImage,
    until: str | None,
) -> list[StepWork]:
    root = shop.root(plan, workshop, base if isinstance(base, BaseTree) else None)
    todo = stepwork.work(plan, work / "context", root, workshop.pins)
    earlier.note_inputs(plan, workshop, explaining.inputs_of(todo, root))
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
        installed=lambda: pipreport.take_installed(routed),
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
        return growing.grow(bench, todo, progress, policy)
    except BuildError as error:
        if wishes.on_failure is not None:
            wishes.on_failure(bench, error)
        raise


def _settle(plan: Plan, output: Path, near: Path) -> dict[str, Path]:
    paths = earlier.paths(plan, output)
    with settling(output):
        settle(near / "build.log", paths[".log"])
        settle(near / "sbom.json", paths[sbom.SUFFIX])
        settle(near / "record.json", paths[".json"])
        # Last: who sees the image sees its record too.
        settle(near / "image.sif", paths[".sif"])
    return paths


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
    image: Path,
    course: tuple[Sequence[Done], Steps],
    start: float,
) -> record.Facts:
    routed, described, base = origin
    done, progress = course
    return record.Facts(
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
    )
