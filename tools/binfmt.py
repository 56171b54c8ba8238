"""Programs of other architectures on this machine: binfmt_misc mounted, qemu registered."""

from collections.abc import Sequence
from pathlib import Path

from dlcontainer.engine_setup.commands import run
from dlcontainer.errors import EngineError

FOLDER = Path("/proc/sys/fs/binfmt_misc")
ENTRIES = ("qemu-aarch64", "qemu-ppc64le")
MOUNT = ("mount", "-t", "binfmt_misc", "binfmt_misc", str(FOLDER))
ENABLE = ("update-binfmts", "--enable")


def missing(folder: Path = FOLDER) -> list[tuple[str, ...]]:
    """Return the commands, of root, that are still to be run; the packages are there."""
    commands: list[tuple[str, ...]] = []
    if not (folder / "status").exists():
        commands.append(MOUNT)
    if not all((folder / name).exists() for name in ENTRIES):
        commands.append(ENABLE)
    return commands


def register(root: Sequence[str]) -> EngineError | None:
    """Run them; return the error where the kernel or a container's limits refuse."""
    try:
        for command in missing():
            run([*root, *command])
    except EngineError as error:
        return error
    return None
