"""The command of a cell's launch: what is mounted once a node is mounted inside its time."""

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.bench.measure import native_tree, ranks, shared_mount
from dlcontainer.bench.measure.arms import ContainerArm, Native, Workload
from dlcontainer.bench.measure.declaration import common
from dlcontainer.bench.measure.launch import LaunchCommand, stamped
from dlcontainer.bench.measure.ranks import RankLaunch
from dlcontainer.bench.measure.shared_mount import Instance
from dlcontainer.bench.probes import import_
from dlcontainer.bench.scale.cells import PACKED, MatrixCell
from dlcontainer.bench.scale.matrix_context import ScaleContext
from dlcontainer.image import sif
from dlcontainer.lab.slowfs.mounting import helper
from dlcontainer.system.machine import find_program, mount_of
from dlcontainer.system.process import CommandFailedError, CommandNotFoundError, quote

# {begin} mounts, "$@" starts the ranks, {end} unmounts: whatever the ranks come to.
_AROUND = '{begin} >&2 || exit 1; "$@"; dlc_code=$?; {end} >&2; exit "$dlc_code"'


@dataclass(frozen=True, kw_only=True, slots=True)
class CellCommand:
    """A command to start, and where it mounts for the node."""

    launch: LaunchCommand
    point: Path | None = None


def ready(
    cell: MatrixCell,
    path: Path,
    gathering: RankLaunch,
    context: ScaleContext,
    kept: Path | None = None,
) -> CellCommand:
    """Return the command of a launch on a subject's bytes at `path`, or on a mount that is kept."""
    work = workload(cell, gathering, context)
    if kept is not None:
        return CellCommand(launch=_arm(cell, kept, context).launch(work))
    if cell.open in PACKED:
        point = gathering.folder.parent / f"mount-{gathering.folder.name}"
        point.mkdir()
        command = _arm(cell, point, context).launch(work)
        return CellCommand(
            launch=_around(command, *mounting(cell, path, point, context)), point=point
        )
    arm = _arm(cell, path, context)
    if cell.open == "engine" and cell.mount == "node":
        assert isinstance(arm, ContainerArm)  # noqa: S101 - trees have no engine, see cells.senseless
        return CellCommand(launch=_instance(arm, work, gathering, context))
    return CellCommand(launch=arm.launch(work))


def workload(cell: MatrixCell, gathering: RankLaunch, context: ScaleContext) -> Workload:
    """Return what every rank runs, the cores of a node shared among its ranks."""
    threads = max(1, context.execution.host.cores // cell.ranks)
    return Workload(
        probe=import_.IMPORT,
        cell=import_.cell(context.settings.module, threads),
        environment=common(context.source(cell).environment, threads, context.bench),
        gathering=gathering,
    )


def _arm(cell: MatrixCell, path: Path, context: ScaleContext) -> Native | ContainerArm:
    source = context.source(cell)
    if source.image is None:
        return Native(prefix=path, probe=context.probe, home=context.execution.host.home)
    return ContainerArm(context=context.bench, image=path, python=source.image.python)


def mounting(
    cell: MatrixCell, path: Path, point: Path, context: ScaleContext
) -> tuple[list[str], list[str]]:
    """Return the commands that mount a file's SquashFS at a folder, and unmount it."""
    image = context.source(cell).image
    # Of the original: to read what a launch is to read would warm it.
    offset = sif.tree(image.image).offset if image else 0
    environ = context.execution.host.environ
    if cell.open == "kernel":
        options = f"ro,nosuid,nodev,loop,offset={offset}"
        mount = [_found("mount", context), "-t", "squashfs", "-o", options]
        return [*mount, "--", str(path), str(point)], [_found("umount", context), "--", str(point)]
    argv = [_found(cell.open, context), "-o", f"auto_unmount,offset={offset}"]
    return [*argv, str(path), str(point)], [str(helper(environ)), "-u", "-z", "--", str(point)]


@contextmanager
def kept(cell: MatrixCell, path: Path, context: ScaleContext) -> Iterator[Path | None]:
    """Mount for a launch and the one that warms it, where a cell keeps its mount."""
    if cell.mount != "kept":
        yield None
        return
    point = Path(tempfile.mkdtemp(prefix="kept-", dir=context.bench.work))
    begin, end = mounting(cell, path, point, context)
    try:
        if cell.open != "kernel":
            with native_tree.held([begin[0], "-f", *begin[1:]], point, context.execution):
                yield point
            return
        native_tree.run(begin, context.runner, "a SquashFS can't be mounted")
        try:
            yield point
        finally:
            context.runner(end, check=False)
    finally:
        with suppress(OSError):
            point.rmdir()


def _found(name: str, context: ScaleContext) -> str:
    return str(find_program(name, context.execution.host.environ) or name)


def _around(launch: LaunchCommand, begin: list[str], end: list[str]) -> LaunchCommand:
    # Its own stamp is the launch's: mounting is inside the time.
    script = _AROUND.format(begin=quote(begin), end=quote(end))
    argv = stamped(["/bin/sh", "-c", script, "sh", *launch.argv])
    return replace(launch, argv=tuple(argv))


def _instance(
    arm: ContainerArm, work: Workload, gathering: RankLaunch, context: ScaleContext
) -> LaunchCommand:
    """Start an instance, let the ranks join it, stop it."""
    name = f"dlc-{uuid.uuid4().hex[:12]}"
    state = gathering.folder / "state"
    state.mkdir()
    bench, engine = context.bench, context.execution.engine
    spec = shared_mount.starting(bench, arm.image, ranks.binds(context.ranks_folder))
    launch = replace(arm, instance=Instance(name=name, state=state), mount="joiner").launch(work)
    environment = shared_mount.environment(bench, state)
    begin, end = engine.start_argv(spec, name), engine.stop_argv(name)
    return _around(replace(launch, environment={**launch.environment, **environment}), begin, end)


def leave(point: Path | None, cell: MatrixCell, context: ScaleContext) -> None:
    """Unmount what a launch that was ended has left."""
    if point is None:
        return
    if mount_of(point).point == point.resolve():
        argv = ["umount", "-l", "--", str(point)]
        if cell.open != "kernel":
            argv = [str(helper(context.execution.host.environ)), "-u", "-z", "--", str(point)]
        with suppress(CommandFailedError, CommandNotFoundError):
            context.runner(argv)
    with suppress(OSError):
        point.rmdir()
