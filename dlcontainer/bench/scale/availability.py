"""The parts of a matrix that are not available to this user here, each with the reason."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlcontainer.bench.scale.cells import PACKED, MatrixCell
from dlcontainer.bench.scale.commands import mounting
from dlcontainer.bench.scale.matrix_context import ScaleContext
from dlcontainer.bench.scale.staging import MEMORY
from dlcontainer.errors import ChecksFailedError
from dlcontainer.lab.slowfs.mounting import helper
from dlcontainer.system.machine import find_program, free_mb, mount_of
from dlcontainer.system.process import CommandFailedError, CommandNotFoundError, CommandTimeoutError

_TRY_S = 30.0
_SPARE_MB = 500


@dataclass(slots=True)
class CellAvailability:
    """Asks once for each thing that cells need; `no_native` says why there is no native tree.

    `no_rank_group` is why there are no ranks of some numbers.
    """

    context: ScaleContext
    no_native: str = ""
    no_rank_group: dict[tuple[int, int, str], str] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)

    def lacks(self, cell: MatrixCell) -> str:
        """Return why a cell can't be measured here; empty where it can."""
        problem = self.no_rank_group.get((cell.nodes, cell.ranks, cell.start), "")
        if cell.subject not in self.context.sources:
            return self.no_native
        if cell.where == "tmpfs":
            problem = problem or self._once("tmpfs", self._memory)
        if cell.where == "shared" and self.context.settings.matrix.stand_in is not None:
            problem = problem or self._once("fuse", self._fuse)
        if cell.open in PACKED:
            problem = problem or self._packed(cell)
        return problem

    def _once(self, name: str, ask: Callable[[], str]) -> str:
        if name not in self._known:
            self._known[name] = ask()
        return self._known[name]

    def _memory(self) -> str:
        mount = mount_of(MEMORY)
        if mount.kind != "tmpfs":
            return f"{MEMORY} is not a tmpfs"
        if "noexec" in mount.options:
            return f"{MEMORY} is mounted noexec: no library can be loaded from it"
        if not os.access(MEMORY, os.W_OK):
            return f"{MEMORY} can't be written"
        biggest = max(_mb(source.original) for source in self.context.sources.values())
        if free_mb(MEMORY) < biggest + _SPARE_MB:
            return f"{MEMORY} has {free_mb(MEMORY)} MB left, and {biggest + _SPARE_MB} are needed"
        return ""

    def _fuse(self) -> str:
        try:
            helper(self.context.execution.host.environ)
        except ChecksFailedError as error:
            return error.what
        return ""

    def _packed(self, cell: MatrixCell) -> str:
        environ = self.context.execution.host.environ
        if self.context.source(cell).image is None and find_program("mksquashfs", environ) is None:
            return "no mksquashfs here (package squashfs-tools): a tree can't be packed"
        if cell.open == "kernel":
            return self._once("kernel", lambda: self._tried(cell))
        if find_program(cell.open, environ) is None:
            return f"no {cell.open} here (package squashfuse)"
        return self._once("fuse", self._fuse) or self._once(cell.open, lambda: self._tried(cell))

    def _tried(self, cell: MatrixCell) -> str:
        """Mount an image for a moment: that alone tells whether this user may."""
        images = [source for source in self.context.sources.values() if source.image]
        if cell.open == "kernel" and os.geteuid() != 0:
            return "the kernel mounts a SquashFS for root alone"
        if not images:
            return ""
        point = Path(tempfile.mkdtemp(prefix="try-", dir=self.context.bench.work))
        trial = replace(cell, subject=images[0].name)
        begin, end = mounting(trial, images[0].original, point, self.context)
        try:
            self.context.runner(begin, timeout=_TRY_S)
        except CommandFailedError as error:
            stderr = " ".join(error.completed.stderr.split())[-200:]
            return f"tried, and {cell.open} does not mount here: {stderr or error}"
        except (CommandNotFoundError, CommandTimeoutError) as error:
            return f"tried, and {cell.open} does not mount here: {error}"
        finally:
            # A FUSE mount ends with the process that serves it; the kernel's must be told.
            self.context.runner(end, check=False)
            point.rmdir()
        return ""


def _mb(path: Path) -> int:
    """Return the size of a file or of all files below a folder, MB."""
    if not path.is_dir():
        return path.stat().st_size // 1_000_000
    total = 0
    for root, _, names in os.walk(path):
        total += sum(Path(root, name).lstat().st_size for name in names)
    return total // 1_000_000
