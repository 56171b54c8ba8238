"""The base's root tree as a tar, which Docker and Podman import."""

from pathlib import Path

from dlcontainer import installation
from dlcontainer.errors import BuildError
from dlcontainer.system.machine import HostMachine, find_program
from dlcontainer.system.process import CommandFailedError, Runner

# Unpacked by root of a user namespace where we are no root: else owners and setuid bits are lost.
# In a fixed order: two imports of one base are one layer.
_SCRIPT = """\
set -eu
"$1" -no-progress -quiet -no-xattrs -dest "$3/base" "$2"
tar --create --directory "$3/base" --sort=name --numeric-owner --file "$3/base.tar" .
rm -rf "$3/base"
"""


def tar(squash: Path, folder: Path, host: HostMachine, runner: Runner) -> Path:
    """Write a base (SquashFS) as a tar into a private folder; raises BuildError."""
    program = find_program("unsquashfs", host.environ)
    if program is None:
        raise BuildError(
            "no unsquashfs on PATH",
            why="it unpacks the base",
            next_step=installation.helper(host.environ, "squashfs-tools"),
        )
    mapped = [] if host.uid == 0 else ["unshare", "--map-root-user"]
    script = ["/bin/sh", "-c", _SCRIPT, "sh", str(program), str(squash), str(folder)]
    try:
        runner([*mapped, *script])
    except CommandFailedError as error:
        raise BuildError(
            "cannot unpack the base for the engine",
            why=error.completed.stderr.strip(),
            next_step="run `dlcontainer doctor`: it checks user namespaces and free space",
        ) from None
    return folder / "base.tar"
