"""A step's result while it is made: in a private folder, which nobody takes for an entry."""

import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.system import digests, guarded_files

# The packed tree in its private folder.
PACKED = "tree.sqfs"

_MAKING = ".new-"


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedResult:
    """Where a result is made: a private folder in the maker's own, and the file to pack into.

    That file lies in the folder, unless it is to be copied there.
    """

    name: str
    packed: Path
    is_copied: bool


def begin(folder: Path, mine: int, work: Path) -> StagedResult:
    """Make room for a result in this user's own folder, which is open as `mine`."""
    name = _make(mine)
    # mksquashfs opens its file by name. Where others could exchange a folder on the way, it
    # would write into whatever they put there: it packs elsewhere, and that is copied.
    if guarded_files.is_private(folder):
        return StagedResult(name=name, packed=folder / name / PACKED, is_copied=False)
    elsewhere = Path(tempfile.mkdtemp(prefix="kept-", dir=work))
    return StagedResult(name=name, packed=elsewhere / PACKED, is_copied=True)


def _make(mine: int) -> str:
    """Make a private folder in this user's own; return its name."""
    _reap(mine)
    name = f"{_MAKING}{os.uname().nodename}-{os.getpid()}-{secrets.token_hex(4)}"
    os.mkdir(name, 0o700, dir_fd=mine)
    return name


def _reap(mine: int) -> None:
    """Remove what this user's killed builds of this host left."""
    ours = f"{_MAKING}{os.uname().nodename}-"
    for name in guarded_files.names(mine):
        number = name.removeprefix(ours).partition("-")[0]
        if name.startswith(ours) and number.isdigit() and not Path("/proc", number).exists():
            remove(mine, name)


def remove(mine: int, name: str) -> None:
    """Remove the private folder of a result."""
    shutil.rmtree(name, ignore_errors=True, dir_fd=mine)


def complete(result: StagedResult, handle: int) -> tuple[int, str]:
    """Bring a packed tree into the open folder `handle`; return its size and its SHA-256."""
    if not result.is_copied:
        with guarded_files.file(PACKED, handle) as tree:
            os.fchmod(tree, 0o644)  # where a group shares the folder, its other members read it
            os.fsync(tree)
            return os.fstat(tree).st_size, digests.of_open(tree)
    with (
        guarded_files.file(result.packed) as tree,
        guarded_files.created(PACKED, handle, 0o644) as target,
    ):
        sha256 = guarded_files.copy(tree, target)
        os.fsync(target)
        return os.fstat(target).st_size, sha256
