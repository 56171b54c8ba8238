"""Bring a subject's bytes to where a cell wants them, cold or warm, and say what it took."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dlcontainer.bench.measure import arms, native_tree
from dlcontainer.bench.scale import page_cache
from dlcontainer.bench.scale.cells import PACKED, MatrixCell
from dlcontainer.bench.scale.matrix_context import ScaleContext
from dlcontainer.bench.scale.matrix_records import ColdState
from dlcontainer.engines.apptainer import SQUASH
from dlcontainer.errors import ChecksFailedError
from dlcontainer.lab.slowfs.cache_profiles import PROFILES
from dlcontainer.lab.slowfs.counters import Counters
from dlcontainer.lab.slowfs.passthrough import Delay
from dlcontainer.lab.slowfs.server import StandIn
from dlcontainer.lab.slowfs.server_queue import ServerRates
from dlcontainer.system import digests
from dlcontainer.system.machine import find_program
from dlcontainer.system.workspace import remove

MEMORY = Path("/dev/shm")  # noqa: S108 - a private folder is made in it
WARMED = "a launch of one rank just before"


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedBody:
    """Bytes where they are wanted; `seconds` went by until they were there."""

    path: Path
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class MountedBody:
    """A body as a launch sees it."""

    path: Path
    body: StagedBody
    before: ColdState
    counters: Counters | None = None


@dataclass(slots=True)
class StagingArea:
    """Keeps what was brought somewhere once; left, it removes it."""

    context: ScaleContext
    stack: ExitStack
    _bodies: dict[tuple[str, str, str], StagedBody] = field(default_factory=dict)
    _folders: dict[Path, Path] = field(default_factory=dict)
    _count: int = 0

    def body(self, cell: MatrixCell) -> StagedBody:
        """Bring a cell's bytes to their place, once."""
        form = _form(cell)
        key = (cell.subject, form, cell.where)
        if key not in self._bodies:
            self._bodies[key] = self._brought(cell, self._made(cell, form))
        return self._bodies[key]

    def _made(self, cell: MatrixCell, form: str) -> StagedBody:
        """Return the subject in the form that is wanted: as it is, packed or unpacked."""
        key = (cell.subject, form, "")
        if key in self._bodies:
            return self._bodies[key]
        source, bench, began = self.context.source(cell), self.context.bench, time.monotonic()
        body = StagedBody(path=source.original)
        if source.image is not None and form == "tree":
            folder = arms.unpacked(bench, source.image, f"unpacked-{len(self._bodies)}").image
            body = StagedBody(path=folder, seconds=time.monotonic() - began)
        elif source.image is None and form == "file":
            body = StagedBody(path=self._pack(source.original), seconds=time.monotonic() - began)
        self._bodies[key] = body
        return body

    def _pack(self, prefix: Path) -> Path:
        bench = self.context.bench
        image = self._fresh(bench.work) / "tree.squashfs"
        packer = find_program("mksquashfs", bench.execution.host.environ)
        bench.execution.progress.step("pack a Python tree into one SquashFS")
        argv = [str(packer), str(prefix.resolve()), str(image), "-quiet", "-no-progress", *SQUASH]
        native_tree.run(argv, bench.execution.runner, "a tree can't be packed")
        return image

    def _brought(self, cell: MatrixCell, body: StagedBody) -> StagedBody:
        context = self.context
        parent = context.bench.work
        if cell.where == "tmpfs":
            parent = self._private(MEMORY)
        elif cell.where == "shared" and context.settings.shared is not None:
            parent = self._private(context.settings.shared)
        elif cell.where == "local" and body.path.is_relative_to(parent):
            return body  # it was made here
        elif cell.where == "shared" and (context.settings.matrix.stand_in is None or
                                         body.path.is_dir()):  # fmt: skip
            return body
        context.execution.progress.step(f"copy {cell.subject} to {cell.where} storage")
        began = time.monotonic()
        copy = self._copy(body.path, parent)
        seconds = body.seconds + time.monotonic() - began
        image = context.source(cell).image
        if image is not None and copy.is_file() and digests.of_file(copy) != image.sha256:
            raise ChecksFailedError(
                f"{copy} has not the SHA-256 of its record, which is copied from {image.image}",
                why=f"the record has the SHA-256 {image.sha256[:12]}…",
                next_step="copy image and record again, and leave both unchanged while you measure",
            )
        return StagedBody(path=copy, seconds=seconds)

    def _private(self, parent: Path) -> Path:
        if parent not in self._folders:
            folder = Path(tempfile.mkdtemp(prefix="dlcontainer-scale-", dir=parent))
            self.stack.callback(remove, folder, self.context.runner)
            self._folders[parent] = folder
        return self._folders[parent]

    def _fresh(self, parent: Path) -> Path:
        self._count += 1
        folder = parent / f"bytes-{self._count}"
        folder.mkdir()
        return folder

    def _copy(self, path: Path, parent: Path) -> Path:
        target = self._fresh(parent) / path.name
        argv = ["cp", "-a", "-T", "--", str(path.resolve()), str(target)]
        native_tree.run(argv, self.context.runner, f"{path.name} can't be copied")
        return target

    @contextmanager
    def shown(self, cell: MatrixCell) -> Iterator[MountedBody]:
        """Show a cell's bytes to one launch, cold where they are to be; gone at the end."""
        body = self.body(cell)
        layered = cell.where == "shared" and self.context.settings.matrix.stand_in is not None
        if layered:
            with self._through(body, cell) as shown:
                yield shown
        elif cell.state == "warm":
            # What is in memory is looked at once it was warmed.
            before = ColdState(method=WARMED, resident=None, data=None, names=None)
            yield MountedBody(path=body.path, body=body, before=before)
        elif page_cache.can_drop_caches():
            yield MountedBody(path=body.path, body=body, before=page_cache.emptied(body.path))
        else:
            copy = self._copy(body.path, self._beside(cell))
            try:
                yield MountedBody(path=copy, body=body, before=page_cache.emptied(copy))
            finally:
                remove(copy.parent, self.context.runner)

    def _beside(self, cell: MatrixCell) -> Path:
        """Return a folder of ours on the file system that the cell's bytes are on."""
        shared = self.context.settings.shared
        if cell.where == "shared" and shared is not None:
            return self._private(shared)
        return self.context.bench.work

    @contextmanager
    def _through(self, body: StagedBody, cell: MatrixCell) -> Iterator[MountedBody]:
        layer = self.context.settings.matrix.stand_in
        assert layer is not None  # noqa: S101 - asked by who calls
        whole = body.path.is_dir()
        shown = StandIn(
            source=body.path if whole else body.path.parent,
            profile=PROFILES[layer.profile],
            delay=Delay(operation_s=layer.latency_ms / 1000, read_s=layer.read_latency_ms / 1000),
            speed=ServerRates(rate=layer.rate, bandwidth=layer.bandwidth_mb_s * 1e6),
        )
        point = self._fresh(self.context.bench.work)
        # To look at what is in memory through the mount would be to fetch its names: a mount that
        # nobody has used has nothing there.
        is_cold = cell.state == "cold"
        before = ColdState(
            method="a fresh mount of the stand-in" if is_cold else WARMED,
            resident=0.0 if is_cold else None,
            data=True if is_cold else None,
            names=True if is_cold else None,
        )
        with shown.mounted(point, self.context.runner):
            path = point if whole else point / body.path.name
            yield MountedBody(path=path, body=body, before=before, counters=shown.counters)
        os.rmdir(point)  # noqa: PTH106 - it must be empty: nothing of ours is removed blindly


def _form(cell: MatrixCell) -> str:
    return "file" if cell.open == "engine" or cell.open in PACKED else "tree"
