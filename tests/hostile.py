"""What another user can do in a folder: plant links, FIFOs and files, and own them."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# An ordinary user of every system.
NOBODY = 65534


@contextmanager
def open_place() -> Iterator[Path]:
    """Give a folder that other users can enter: pytest's own are closed to them."""
    with tempfile.TemporaryDirectory(prefix="dlcontainer-open-") as name:
        place = Path(name).resolve()
        place.chmod(0o755)
        yield place


def make_foreign(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another user own a file: root gives it away, everybody else becomes another."""
    if os.getuid() == 0:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    else:
        mine = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: mine + 1)


def plant(kind: str, path: Path, victim: Path) -> None:
    """Put something that is no regular file at a path; `victim` is what a link leads to."""
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "dangling link":
        path.symlink_to(victim.with_name("nothing is there"))
    elif kind == "FIFO":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        raise ValueError(kind)


KINDS = ("link", "dangling link", "FIFO", "folder")
