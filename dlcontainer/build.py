"""Build: plan -> image, with its record and its log beside it. It appears whole or not at all."""

import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from dlcontainer import machine, record, rootfs, routing
from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import SQUASH, Apptainer
from dlcontainer.engines.base import Binds, BuildSpec
from dlcontainer.engines.trial import Trial
from dlcontainer.errors import BuildError
from dlcontainer.formats import context, texts
from dlcontainer.machine import Host
from dlcontainer.plan import Plan
from dlcontainer.rootfs import BaseMaker, BaseTree
from dlcontainer.routing import Routed
from dlcontainer.shell import CommandFailedError, Runner
from dlcontainer.workspace import settle, workspace

_MARKER = re.compile(r"==> step (\d+)/(\d+) (\S+)")
_LAST_LINES = 12
_LINE_WIDTH = 200
# What a build writes is of the order of the unpacked tree; the packed image is below half of it.
_PACKED_SHARE = 2
# A tree of many small files is unpacked 10 times as fast into memory (docs/measurements.md); it
# is used only where it leaves at least this many times the build's size free.
_MEMORY_SHARE = 4
_MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108  a private folder is made in it


class Progress(Protocol):
    """What a person sees of a long step."""

    def step(self, title: str) -> None:
        """Begin a step."""

    def line(self, text: str) -> None:
        """Take one line of a tool's output."""

    def note(self, text: str) -> None:
        """Say something worth knowing."""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """A finished image and what lies beside it; size in bytes, time in s."""

    path: Path
    record: Path
    log: Path
    sha256: str
    size: int
    seconds: float


@dataclass(slots=True)
class _Steps:
    """Follow the steps that an engine's output names, with their times (s)."""

    progress: Progress
    times: list[tuple[str, float]] = field(default_factory=list)
    current: str = ""
    began: float = field(default_factory=time.monotonic)

    def begin(self, name: str, title: str) -> None:
        self.end()
        self.current, self.began = name, time.monotonic()
        self.progress.step(title)

    def end(self) -> None:
        if self.current:
            self.times.append((self.current, round(time.monotonic() - self.began, 2)))
        self.current = ""

    def line(self, text: str) -> None:
        marker = _MARKER.match(text)
        if marker:
            self.begin(marker[3], f"step {marker[1]}/{marker[2]}: {marker[3]}")
        elif text.startswith("INFO:") and "Creating SIF" in text:
            self.begin("pack", "pack the image")
        self.progress.line(text)


def build(plan: Plan, workshop: Workshop, output: Path, tmpdir: Path | None) -> Image:
    """Build a plan's image into a folder; `tmpdir` holds the unpacked tree meanwhile.

    Raises BuildError with the failed step, its last lines and the log's path. Whatever ends it,
    no process, mount or half image is left; a killed build's leftovers go with the next one.
    """
    start = time.monotonic()
    scratch = choose_tmpdir(plan, workshop.host, tmpdir)
    _make_folder(output)
    check_space(plan, output, scratch, workshop.progress)
    runner, steps = workshop.runner, _Steps(workshop.progress)
    with workspace(output, runner) as near, workspace(scratch, runner) as work:
        log = near / "build.log"
        with _log_kept(log, output / f"{plan.name}.failed.log"):
            routed = _route(plan, workshop, work)
            base = _base(plan, workshop, routed, (work, log), steps)
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


def choose_tmpdir(plan: Plan, host: Host, asked: Path | None) -> Path:
    """Choose where the tree is unpacked: asked for, the site's, TMPDIR, roomy memory, /tmp."""
    if asked is not None:
        return asked
    site = plan.site.engine.tmpdir
    if site and Path(site).is_dir():
        return Path(site)
    if host.environ.get("TMPDIR"):
        return Path(host.environ["TMPDIR"])
    need = plan.recipe.space_mb * _MEMORY_SHARE
    limit = machine.cgroup_memory_mb()
    mount = machine.mount_of(_MEMORY_FOLDER)
    roomy = min(machine.free_mb(_MEMORY_FOLDER), machine.available_memory_mb()) >= need // 2
    if (
        mount.kind == "tmpfs"
        and "noexec" not in mount.options
        and roomy
        and host.memory_mb >= need
        and (limit is None or limit >= need)
    ):
        return _MEMORY_FOLDER
    return Path("/tmp")  # noqa: S108  a private folder is made in it


def check_space(plan: Plan, output: Path, scratch: Path, progress: Progress) -> None:
    """Refuse a build that can't end well: no space, programs may not run, not writable."""
    if not scratch.is_dir():
        raise BuildError(f"no folder {scratch}", next_step="give one that exists: --tmpdir")
    mount = machine.mount_of(scratch)
    if "noexec" in mount.options:
        raise BuildError(
            f"{scratch} is mounted noexec ({mount.point}, {mount.kind})",
            why="the build runs programs from the tree that it makes there",
            next_step="give another folder: --tmpdir",
        )
    if mount.is_network:
        progress.note(
            f"{scratch} lies on {mount.kind}: slow, and it may not take the ids of a build; "
            "a node-local --tmpdir is better"
        )
    need = plan.recipe.space_mb
    for folder, wanted, option in ((scratch, need, "--tmpdir"), (output, need // 2, "-o")):
        free = machine.free_mb(folder)
        if free < wanted:
            raise BuildError(
                f"{folder} has {free} MB free, the build needs about {wanted} MB",
                next_step=f"make room, or give another folder: {option}",
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
        commands.append(rootfs.mmdebstrap_argv(plan, routed, workshop.host, work, target))
    binds = (*routed.binds, (work / "inner-tmp", "/tmp"), (work / "inner-var-tmp", "/var/tmp"))  # noqa: S108
    spec = _spec(workshop.trial, binds, output / f"{plan.name}.sif")
    commands.append(workshop.engine.build_argv(spec))
    return commands


def _make_folder(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(
            f"can't make {output}: {error.strerror}", next_step="give another folder: -o"
        ) from None


def _route(plan: Plan, workshop: Workshop, work: Path) -> Routed:
    folder = work / "routing"
    folder.mkdir(mode=0o700)
    routed = routing.prepare(plan, workshop.host, workshop.runner, folder)
    for note in routed.notes:
        workshop.progress.note(note)
    return routed


def _base(
    plan: Plan, workshop: Workshop, routed: Routed, places: tuple[Path, Path], steps: _Steps
) -> BaseTree | None:
    base = plan.recipe.base
    if base.image:
        return None
    steps.begin("base", f"base: {base.distribution} {base.release}, minimal root tree")
    work, log = places
    maker = BaseMaker(
        host=workshop.host,
        runner=workshop.runner,
        cache=workshop.cache,
        on_line=workshop.progress.line,
    )
    tree = rootfs.prepare(plan, routed, maker, work, log)
    if tree.cached:
        workshop.progress.note(f"base of {tree.made} taken from the cache")
    return tree


def _text(plan: Plan, workshop: Workshop) -> str:
    return texts.text(plan, "apptainer", list(workshop.templates))


def _stage(plan: Plan, workshop: Workshop, base: BaseTree | None, folder: Path) -> None:
    context.stage(plan, folder)
    (folder / texts.FILE_NAMES["apptainer"]).write_text(_text(plan, workshop))
    if base is not None:
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


def _spec(trial: Trial, binds: Binds, image: Path) -> BuildSpec:
    return BuildSpec(
        definition=texts.FILE_NAMES["apptainer"],
        image=image,
        binds=binds,
        mode=trial.build_mode or "plain",
        squash=SQUASH if trial.takes_squash else (),
    )


def _engine_build(
    plan: Plan,
    workshop: Workshop,
    routed: Routed,
    places: tuple[Path, Path, Path],
    steps: _Steps,
) -> None:
    work, image, log = places
    tmp = work / "tmp"
    tmp.mkdir()
    env = apptainer.environment(workshop.host.environ, tmpdir=tmp) | _upper(routed.environment)
    steps.begin("unpack", "unpack the base")
    spec = _spec(workshop.trial, (*routed.binds, *_private_tmp(work)), image)
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
