"""How the native tree is shown to an import: where it is, copied node-local, or in one SquashFS.

Staging and packing happen once, before the first launch: their seconds are kept beside the
session's samples, and the report says after how many launches they are paid back.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.bench.samples.vocabulary import NativeAs
from dlcontainer.config import resources
from dlcontainer.engines.apptainer import SQUASH
from dlcontainer.engines.execution import Execution
from dlcontainer.errors import BenchDataError, ChecksFailedError
from dlcontainer.lab.slowfs.mounting import helper
from dlcontainer.system.machine import find_program
from dlcontainer.system.process import CommandFailedError, CommandNotFoundError, Runner

_MOUNT_S = 60.0
_END_S = 30.0
_PACKAGES = {"mksquashfs": "squashfs-tools", "squashfuse": "squashfuse"}


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedTree:
    """A tree that is ready for launches; `seconds` went by until it was, None where it lay there.

    `what` was done in that time.
    """

    prefix: Path
    seconds: float | None = None
    what: str = ""


@contextmanager
def shown(
    form: NativeAs, prefix: Path, module: str, context: BenchContext
) -> Iterator[PreparedTree]:
    """Show a Python prefix in one of the forms; what was made is gone at the end.

    `module` is the one that is imported: a pack is made of what it loads.
    Raises ChecksFailedError without the programs or FUSE, BenchDataError where it fails.
    """
    if form == "tree":
        yield PreparedTree(prefix=prefix)
    elif form == "staged":
        yield _staged(prefix, context)
    elif form == "packed":
        yield _packed(prefix, module, context)
    else:
        with _mounted(prefix, context) as prepared:
            yield prepared


def _staged(prefix: Path, context: BenchContext) -> PreparedTree:
    context.execution.progress.step("stage the native tree: copy it to this node")
    folder, began = context.work / "staged", time.monotonic()
    argv = ["cp", "-a", str(prefix.resolve()), str(folder)]
    run(argv, context.execution.runner, "the native tree can't be copied")
    return PreparedTree(prefix=folder, seconds=time.monotonic() - began, what="staging")


def _packed(prefix: Path, module: str, context: BenchContext) -> PreparedTree:
    """Pack a copy: the tree itself is somebody's, and no pack belongs in what is written to."""
    began = time.monotonic()
    tree = _staged(prefix, context).prefix
    context.execution.progress.step("pack the Python modules of the copy")
    writer = resources.PROBE / "pack_modules.py"
    argv = [str(tree / "bin/python"), "-IB", str(writer), "--everywhere"]
    argv += ["--report", str(context.work / "pack.json"), module]
    run(argv, context.execution.runner, "the native tree's modules can't be packed")
    return PreparedTree(prefix=tree, seconds=time.monotonic() - began, what="staging and packing")


@dataclass(slots=True)
class _MountServer:
    """The process that serves the mount, in a thread of its own: it lives as long as that."""

    runner: Runner
    argv: list[str]
    ended: threading.Event = field(default_factory=threading.Event)
    why: str = ""

    def run(self) -> None:
        try:
            self.runner(self.argv)
        except (CommandFailedError, CommandNotFoundError, OSError) as error:
            self.why = str(error)
        finally:
            self.ended.set()


@contextmanager
def _mounted(prefix: Path, context: BenchContext) -> Iterator[PreparedTree]:
    packer, server = (_program(name, context.execution.host.environ) for name in _PACKAGES)
    image, point = context.work / "native.squashfs", context.work / "native"
    point.mkdir()
    context.execution.progress.step("pack the native tree into one SquashFS and mount it")
    began = time.monotonic()
    # As images are packed, so that what differs is not the compression.
    argv = [packer, str(prefix.resolve()), str(image), "-quiet", "-no-progress", *SQUASH]
    run(argv, context.execution.runner, "the native tree can't be packed")
    options = ["-f", "-o", "auto_unmount"]
    with held([server, *options, str(image), str(point)], point, context.execution):
        yield PreparedTree(
            prefix=point, seconds=time.monotonic() - began, what="packing and mounting"
        )


@contextmanager
def held(argv: list[str], point: Path, execution: Execution) -> Iterator[None]:
    """Let a FUSE server in the foreground serve a folder; raises BenchDataError where it fails."""
    unmount = helper(execution.host.environ)
    holder = _MountServer(execution.runner, argv)
    thread = threading.Thread(target=holder.run, name="dlcontainer-squashfuse")
    thread.start()
    try:
        _await(point, holder)
        yield
    finally:
        execution.runner([str(unmount), "-u", "-z", str(point)], check=False)
        thread.join(_END_S)


def _await(point: Path, holder: _MountServer) -> None:
    until = time.monotonic() + _MOUNT_S
    while not point.is_mount():
        if holder.ended.wait(0.02) or time.monotonic() > until:
            raise BenchDataError(
                "a SquashFS can't be mounted",
                why=holder.why or f"no mount within {_MOUNT_S:.0f} s",
                next_step="measure without SquashFS: --native-as tree, or a matrix without "
                "SquashFS cells",
            )


def _program(name: str, environ: Mapping[str, str]) -> str:
    program = find_program(name, environ)
    if program is None:
        raise ChecksFailedError(
            f"no {name} on PATH",
            why="--native-as squashfs uses it to pack or mount the tree",
            next_step=f"install the package {_PACKAGES[name]}",
        )
    return str(program)


def run(argv: list[str], runner: Runner, failed: str) -> None:
    """Run a command that copies or packs; raises BenchDataError with what it said."""
    try:
        runner(argv)
    except CommandFailedError as error:
        stderr = " ".join(error.completed.stderr.split())[-400:]
        raise BenchDataError(
            failed,
            why=stderr or str(error),
            next_step="free space in TMPDIR, or use --native-as tree",
        ) from None
