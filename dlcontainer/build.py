"""Build: plan -> image, with its record and its log beside it. It appears whole or not at all."""

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dlcontainer import pinning, preflight, record, rootfs, routing, shortcuts
from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import SQUASH, Apptainer
from dlcontainer.engines.base import Binds, BuildSpec
from dlcontainer.engines.trial import Trial
from dlcontainer.errors import BuildError
from dlcontainer.fields import OCI_ARCH
from dlcontainer.formats import context, texts
from dlcontainer.machine import Host
from dlcontainer.plan import Plan
from dlcontainer.progress import Progress, Steps
from dlcontainer.reference import Reference
from dlcontainer.registry import check as registry
from dlcontainer.registry.check import BaseImage
from dlcontainer.registry.client import Way
from dlcontainer.rootfs import BaseMaker, BaseTree
from dlcontainer.routing import Routed
from dlcontainer.shell import CommandFailedError, Runner
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
    # Native programs help an emulated build; without them the image is the same, later.
    shortcuts: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """A finished image and what lies beside it; size in bytes, time in s."""

    path: Path
    record: Path
    log: Path
    sha256: str
    size: int
    seconds: float


def build(plan: Plan, workshop: Workshop, output: Path, tmpdir: Path | None) -> Image:
    """Build a plan's image into a folder; `tmpdir` holds the unpacked tree meanwhile.

    Raises BuildError with the failed step, its last lines and the log's path. Whatever ends it,
    no process, mount or half image is left; a killed build's leftovers go with the next one.
    """
    start = time.monotonic()
    preflight.check_architecture(plan, workshop.host)
    scratch = preflight.choose_tmpdir(plan, workshop.host, tmpdir)
    preflight.make_folder(output)
    preflight.check_space(plan, output, scratch, workshop.progress)
    runner, steps = workshop.runner, Steps(workshop.progress)
    with workspace(output, runner) as near, workspace(scratch, runner) as work:
        log = near / "build.log"
        with _log_kept(log, output / f"{plan.name}.failed.log"):
            routed = _route(plan, workshop, work)
            base = _base(plan, workshop, routed, (work, log), steps)
            if workshop.shortcuts and shortcuts.possible(plan, workshop.host):
                _add_shortcuts(plan, workshop, routed, (work, log), steps)
            _stage(plan, workshop, base, work / "context")
            image = near / "image.sif"
            _engine_build(plan, workshop, routed, (work, image, log), steps)
        steps.begin("record", "record")
        written = record.write(
            near / "record.json",
            record.Facts(
                plan=plan,
                host=workshop.host,
                trial=workshop.trial,
                image=image,
                base=base,
                text=_text(plan, workshop),
                packages=routing.installed(routed),
                steps=tuple(steps.times),
                seconds=time.monotonic() - start,
            ),
        )
        paths = {suffix: output / f"{plan.name}{suffix}" for suffix in (".log", ".json", ".sif")}
        with settling(output):
            settle(log, paths[".log"])
            settle(near / "record.json", paths[".json"])
            # Last: who sees the image sees its record too.
            settle(image, paths[".sif"])
    (output / f"{plan.name}.failed.log").unlink(missing_ok=True)
    return Image(
        path=paths[".sif"],
        record=paths[".json"],
        log=paths[".log"],
        sha256=written.sha256,
        size=written.size,
        seconds=time.monotonic() - start,
    )


def planned_commands(
    plan: Plan, workshop: Workshop, output: Path, scratch: Path
) -> list[list[str]]:
    """List the commands that a build would run (`--dry-run`); folders made for it are named so."""
    work = scratch / "BUILD"
    routed = Routed.nothing(work / "routing")
    commands = []
    if not plan.recipe.base.image:
        target = work / "rootfs.tar"
        tree = rootfs.root_tree(plan)
        commands.append(rootfs.mmdebstrap_argv(tree, routed, workshop.host, target))
    if workshop.shortcuts and shortcuts.possible(plan, workshop.host):
        tree = rootfs.companion_tree(plan, workshop.host)
        commands.append(rootfs.mmdebstrap_argv(tree, routed, workshop.host, work / "rootfs.tar"))
    binds = (*routed.binds, (work / "inner-tmp", "/tmp"), (work / "inner-var-tmp", "/var/tmp"))  # noqa: S108
    spec = _spec(plan, workshop, _way(plan, routed), binds, output / f"{plan.name}.sif")
    commands.append(workshop.engine.build_argv(spec))
    return commands


def _route(plan: Plan, workshop: Workshop, work: Path) -> Routed:
    folder = work / "routing"
    folder.mkdir(mode=0o700)
    routed = routing.prepare(plan, workshop.host, workshop.runner, folder)
    for note in routed.notes:
        workshop.progress.note(note)
    return routed


def _base(
    plan: Plan, workshop: Workshop, routed: Routed, places: tuple[Path, Path], steps: Steps
) -> BaseTree | BaseImage:
    base = plan.recipe.base
    steps.begin("base", f"base: {base.title}")
    image = base.reference
    if image is not None:
        return _base_image(plan, image, _way(plan, routed), workshop.progress)
    work, log = places
    tree = rootfs.prepare(plan, routed, _maker(workshop), work, log)
    if tree.cached:
        workshop.progress.note(f"base of {tree.made} taken from the cache")
    return tree


def _maker(workshop: Workshop) -> BaseMaker:
    return BaseMaker(
        host=workshop.host,
        runner=workshop.runner,
        cache=workshop.cache,
        on_line=workshop.progress.line,
        on_wait=workshop.progress.note,
    )


def _add_shortcuts(
    plan: Plan, workshop: Workshop, routed: Routed, places: tuple[Path, Path], steps: Steps
) -> None:
    host = workshop.host
    steps.begin("shortcuts", f"{host.arch} programs that help the emulated build")
    work, log = places
    tree = rootfs.prepare_companion(plan, routed, _maker(workshop), work, log)
    shortcuts.unpack(tree.path, work / "companion", host, workshop.runner)
    shortcuts.add(plan, host, work / "companion", routed.folder)
    shutil.rmtree(work / "companion")


def _way(plan: Plan, routed: Routed) -> Way:
    plain = plan.site.routing.plain_http
    return Way(proxies=routed.environment, ca=routed.ca, plain_http=plain)


def _base_image(plan: Plan, image: Reference, way: Way, progress: Progress) -> BaseImage:
    if image.digest is None:
        raise pinning.refusal(plan, image, way)
    checked = registry.check(image, plan.site.arch, way)
    for note in checked.notes:
        progress.note(note)
    return checked


def _text(plan: Plan, workshop: Workshop) -> str:
    return texts.text(plan, "apptainer", list(workshop.templates))


def _stage(plan: Plan, workshop: Workshop, base: BaseTree | BaseImage, folder: Path) -> None:
    context.stage(plan, folder)
    (folder / texts.FILE_NAMES["apptainer"]).write_text(_text(plan, workshop))
    if isinstance(base, BaseTree):
        # A link, not a copy: the definition names a file beside it.
        (folder / base.path.name).symlink_to(base.path)


def _private_tmp(work: Path) -> list[tuple[Path, str]]:
    # Apptainer binds the host's /tmp and /var/tmp into %post: a recipe's snippet could read and
    # remove what others have there. Empty folders of the build's own stand there instead.
    binds = []
    for name, target in (("inner-tmp", "/tmp"), ("inner-var-tmp", "/var/tmp")):  # noqa: S108
        (work / name).mkdir(exist_ok=True)
        (work / name).chmod(0o1777)
        binds.append((work / name, target))
    return binds


def _spec(plan: Plan, workshop: Workshop, way: Way, binds: Binds, image: Path) -> BuildSpec:
    base, trial, arch = plan.recipe.base.reference, workshop.trial, plan.site.arch
    return BuildSpec(
        definition=texts.FILE_NAMES["apptainer"],
        image=image,
        binds=binds,
        mode=trial.build_mode or "plain",
        squash=SQUASH if trial.takes_squash else (),
        plain_http=base is not None and way.is_plain(base.address),
        arch=None if arch == workshop.host.arch else OCI_ARCH[arch],
    )


def _engine_build(
    plan: Plan,
    workshop: Workshop,
    routed: Routed,
    places: tuple[Path, Path, Path],
    steps: Steps,
) -> None:
    work, image, log = places
    tmp = work / "tmp"
    tmp.mkdir()
    env = apptainer.environment(workshop.host.environ, tmpdir=tmp) | _upper(routed.environment)
    steps.begin("unpack", "unpack the base")
    if routed.ca is not None and plan.recipe.base.image:
        # The engine itself goes out: it pulls the base.
        env["SSL_CERT_FILE"] = str(routed.ca)
    binds = (*routed.binds, *_private_tmp(work))
    spec = _spec(plan, workshop, _way(plan, routed), binds, image)
    argv = workshop.engine.build_argv(spec)
    try:
        workshop.runner(argv, env=env, cwd=work / "context", on_line=steps.line, log=log)
    except CommandFailedError as error:
        raise BuildError(
            f"{plan.name}: the build failed in step '{steps.current}'",
            why="\n" + _last_lines(error.completed.stdout),
            next_step=f"read {log.parent.parent / f'{plan.name}.failed.log'}",
        ) from None
    steps.end()


def _upper(proxies: Mapping[str, str]) -> dict[str, str]:
    return {**proxies, **{name.upper(): value for name, value in proxies.items()}}


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
