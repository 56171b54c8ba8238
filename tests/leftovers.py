"""What earlier runs left mounted in pytest's folders is unmounted before a run.

pytest removes the folders of all runs but the last three, and walks into what is mounted there: a
dead mount ends that in an error, and with it this run and each later one.
"""

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from dlcontainer.errors import BuildError
from dlcontainer.system.machine import mounts_below
from dlcontainer.system.process import ProcessRunner
from dlcontainer.system.workspace import unmount_below

# As pytest: a lock that is older is nobody's.
_LOCK_S = 3 * 24 * 3600.0


def unmount(environ: Mapping[str, str], basetemp: str | Path | None = None) -> None:
    """Unmount what is left in the folders of runs that have ended; raises pytest.UsageError."""
    ended = [Path(basetemp).resolve()] if basetemp else []
    temporary = environ.get("PYTEST_DEBUG_TEMPROOT") or tempfile.gettempdir()
    for root in Path(temporary).resolve().glob("pytest-of-*"):
        ended += [run for run in _with_mounts(root) if not _lives(run)]
    runner = ProcessRunner(environ=environ)
    for folder in ended:
        try:
            unmount_below(folder, runner)
        except BuildError as error:
            raise pytest.UsageError(f"an earlier run left a mount: {error}") from None


def _with_mounts(root: Path) -> set[Path]:
    """Name the folders of runs in which something is mounted; no mount is touched."""
    if root.is_symlink() or root.lstat().st_uid != os.getuid():
        return set()
    below = (mount.point.relative_to(root).parts for mount in mounts_below(root))
    return {root / parts[0] for parts in below if parts}


def _lives(run: Path) -> bool:
    """Tell whether a run goes on: pytest's lock in its folder names a process that is there."""
    lock = run / ".lock"
    try:
        age = time.time() - lock.stat().st_mtime
        return age < _LOCK_S and Path("/proc", str(int(lock.read_text()))).exists()
    except (OSError, ValueError):
        return False
