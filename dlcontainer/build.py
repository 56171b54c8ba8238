"""Build: plan -> image, with its record and its log beside it. It appears whole or not at all."""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dlcontainer import growing, preflight, record, rootfs, routing, steps
from dlcontainer.bundle import Bundle
from dlcontainer.engines.apptainer import SQUASH, Apptainer
from dlcontainer.engines.base import StepSpec
from dlcontainer.engines.trial import Trial
from dlcontainer.errors import BuildError
from dlcontainer.formats import context, texts
from dlcontainer.growing import Done
from dlcontainer.machine import Host
from dlcontainer.plan import Plan
from dlcontainer.progress import Progress, Steps
from dlcontainer.rootfs import BaseMaker, BaseTree
from dlcontainer.routing import Routed
from dlcontainer.sandbox import Sandbox, Tools
from dlcontainer.shell import CommandFailedError, Runner
from dlcontainer.stepcache import StepCache
from dlcontainer.steps import StepWork
from dlcontainer.workspace import settle, settling, workspace

_LAST_LINES = 12
_LINE_WIDTH = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Workshop:
    """Who builds, with what: the same for every image."""

    engine: Apptainer
    trial: Trial
    host: Host
    runner: Runner
    cache: Path
    templates: tuple[Path, ...]
    progress: Progress
    # Where all packages come from, and nowhere else (--locked, --offline).
    bundle: Bundle | None = None
    worth_keeping_s: float = growing.WORTH_KEEPING_S


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """A finished image and what lies beside it; size in bytes, time in s."""

    path: Path
    record: Path
    log: Path
    sha256: str
    size: int
    seconds: float
    # Nothing had changed: it was there already.
    found: bool = False


def build(plan: Plan, workshop: Workshop, output: Path, tmpdir: Path | None) -> Image:
    """Build a plan's image into a folder; `tmpdir` holds the unpacked tree meanwhile.

    Goes on from the last step whose result is kept. Raises BuildError with the failed step, its
    last lines and the log's path. Whatever ends it, no process, mount or half image is left; a
    killed build's leftovers go with the next one.
    """
    start = time.monotonic()
    preflight.check_architecture(plan, workshop.host)
    if workshop.bundle is not None:
        workshop.bundle.lock.require(plan, str(workshop.bundle.folder))
    scratch = preflight.choose_tmpdir(plan, workshop.host, tmpdir)
    preflight.make_folder(output)
    preflight.check_space(plan, output, scratch, workshop.progress)
    runner, progress = workshop.runner, Steps(workshop.progress)
    with workspace(output, runner) as near, workspace(scratch, runner) as work:
        log, image = near / "build.log", near / "image.sif"
        with _log_kept(log, output / f"{plan.name}.failed.log"):
            routed = _route(plan, workshop, work)
            base = _base(plan, workshop, routed, (work, log), progress)
            context.stage(plan, work / "context")
            todo = steps.work(plan, work / "context", _root(plan, base), _pins(workshop))
            bench = _bench(plan, workshop, (routed, base), (work, log), progress)
            failure = _Failure(plan=plan, log=output / f"{plan.name}.failed.log")
            done = growing.grow(
                bench,
                todo,
                progress,
                failure,
                lambda: routing.take_installed(routed),
                workshop.worth_keeping_s,
            )
            progress.begin("pack", "pack the image")
            try:
                bench.finish(image)
            except CommandFailedError as error:
                raise failure("pack", error) from None
        progress.begin("record", "record")
        facts = _facts(plan, workshop, (routed, base), image, (done, progress), start)
        written = record.write(near / "record.json", facts)
        paths = _settle(plan, output, near)
    (output / f"{plan.name}.failed.log").unlink(missing_ok=True)
    return Image(
        path=paths[".sif"],
        record=paths[".json"],
        log=paths[".log"],
        sha256=written.sha256,
        size=written.size,
        seconds=time.monotonic() - start,
    )


def _settle(plan: Plan, output: Path, near: Path) -> dict[str, Path]:
    paths = {suffix: output / f"{plan.name}{suffix}" for suffix in (".log", ".json", ".sif")}
    with settling(output):
        settle(near / "build.log", paths[".log"])
        settle(near / "record.json", paths[".json"])
        # Last: who sees the image sees its record too.
        settle(near / "image.sif", paths[".sif"])
    return paths


def planned_commands(
    plan: Plan, workshop: Workshop, output: Path, scratch: Path
) -> list[list[str]]:
    """List the commands that a build would run (`--dry-run`); folders made for it are named so."""
    work = scratch / "BUILD"
    routed = Routed.nothing(work / "routing")
    commands = []
    if not plan.recipe.base.image:
        target = work / "rootfs.tar"
        commands.append(rootfs.mmdebstrap_argv(plan, routed, workshop.host, target))
    engine, mode = workshop.engine, workshop.trial.build_mode or "plain"
    commands.append(engine.unpack_base_argv("setup.def", work / "tree", mode))
    for step in steps.work(plan, work / "context", ""):
        argv = ("/bin/sh", f"{step.name}.sh")
        spec = StepSpec(tree=work / "tree", argv=argv, mode=mode, binds=routed.binds)
        commands.append(engine.step_argv(spec))
    commands.append(engine.sif_new_argv(output / f"{plan.name}.sif"))
    return commands


def _route(plan: Plan, workshop: Workshop, work: Path) -> Routed:
    folder = work / "routing"
    folder.mkdir(mode=0o700)
    routed = routing.prepare(plan, workshop.host, workshop.runner, folder, workshop.bundle)
    for note in routed.notes:
        workshop.progress.note(note)
    return routed


def _base(
    plan: Plan, workshop: Workshop, routed: Routed, places: tuple[Path, Path], progress: Steps
) -> BaseTree | None:
    base = plan.recipe.base
    if base.image:
        return None
    progress.begin("base", f"base: {base.distribution} {base.release}, minimal root tree")
    work, log = places
    maker = BaseMaker(
        host=workshop.host,
        runner=workshop.runner,
        cache=workshop.cache,
        on_line=workshop.progress.line,
        on_wait=workshop.progress.note,
    )
    tree = rootfs.prepare(plan, routed, maker, work, log)
    if tree.cached:
        workshop.progress.note(f"base of {tree.made} taken from the cache")
    return tree


def _pins(workshop: Workshop) -> Mapping[str, str]:
    return workshop.bundle.lock.step_keys() if workshop.bundle else {}


def _root(plan: Plan, base: BaseTree | None) -> str:
    digest = base.sha256 if base else str(plan.recipe.base.image)
    return steps.root_key(digest, plan.site.arch, "apptainer")


def _bench(
    plan: Plan,
    workshop: Workshop,
    origin: tuple[Routed, BaseTree | None],
    places: tuple[Path, Path],
    progress: Steps,
) -> Sandbox:
    work, log = places
    routed, base = origin
    trial = workshop.trial
    if base is not None:
        # A link, not a copy: the definition names a file beside it.
        (work / base.path.name).symlink_to(base.path)
        head = f"Bootstrap: localimage\nFrom: {base.path.name}\n"
    else:
        image = str(plan.recipe.base.image).removeprefix("docker://")
        head = f"Bootstrap: docker\nFrom: {image}\n"
    proxies = {**routed.environment, **{k.upper(): v for k, v in routed.environment.items()}}
    return Sandbox(
        plan=plan,
        tools=Tools(
            engine=workshop.engine,
            mode=trial.build_mode or "plain",
            version=trial.version.rpartition(" ")[2],
            environ={**workshop.host.environ, **proxies},
            runner=workshop.runner,
            on_line=progress.line,
            log=log,
        ),
        cache=StepCache(
            folder=workshop.cache / "steps",
            builders=plan.site.engine.builders,
            on_note=workshop.progress.note,
        ),
        work=work,
        origin=head,
        routing=routed.binds,
        text=texts.text(plan, "apptainer", list(workshop.templates)),
        squash=SQUASH,
    )


def _facts(
    plan: Plan,
    workshop: Workshop,
    origin: tuple[Routed, BaseTree | None],
    image: Path,
    course: tuple[Sequence[Done], Steps],
    start: float,
) -> record.Facts:
    routed, base = origin
    done, progress = course
    return record.Facts(
        plan=plan,
        host=workshop.host,
        trial=workshop.trial,
        image=image,
        base=base,
        lock=routed.bundle.lock.digest if routed.bundle else None,
        text=texts.text(plan, "apptainer", list(workshop.templates)),
        packages=tuple(package for one in done for package in one.packages),
        done=tuple(done),
        steps=tuple(progress.times),
        seconds=time.monotonic() - start,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Failure:
    """Make the error of a step that failed."""

    plan: Plan
    log: Path

    def __call__(self, step: StepWork | str, error: CommandFailedError) -> BuildError:
        name = step if isinstance(step, str) else step.name
        return BuildError(
            f"{self.plan.name}: the build failed in step '{name}'",
            why="\n" + _last_lines(error.completed.stdout),
            next_step=f"read {self.log}; the next build goes on from the step before",
        )


def _last_lines(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(f"    {line[:_LINE_WIDTH]}" for line in lines[-_LAST_LINES:])


@contextmanager
def _log_kept(log: Path, target: Path) -> Iterator[None]:
    try:
        yield
    except BuildError:
        if log.exists():
            shutil.move(log, target)
        raise
