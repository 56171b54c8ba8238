"""The transaction: whatever a user can see works, whoever publishes, whenever they are killed."""

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import PublishError
from tests.publishing import BOTH, hidden, image_of, put, seen


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda number: None)  # the disk is shared


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "new" / "it's a (root)"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return image_of(tmp_path / "images")


class Faults:
    """Makes the Nth change to a file system an error, or the end of the process."""

    names = (
        "mkdir",
        "chmod",
        "chown",
        "fchmod",
        "fchown",
        "rename",
        "symlink",
        "fsync",
        "open",
        "unlink",
    )

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, act: Callable[[], None]) -> None:
        self.left, self.act = at, act
        self.removing = False
        for name in self.names:
            monkeypatch.setattr(os, name, self._wrapped(getattr(os, name)))
        # What it leaves is removed by a command, and a unit test starts none.
        monkeypatch.setattr(shutil, "rmtree", self._removing(shutil.rmtree))

    def _wrapped(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*args: Any, **kwargs: Any) -> Any:
            self.left -= not self.removing
            if self.left == 0 and not self.removing:
                self.act()
            return real(*args, **kwargs)

        return changed

    def _removing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def removed(*args: Any, **kwargs: Any) -> Any:
            self.removing = True
            try:
                return real(*args, **kwargs)
            finally:
                self.removing = False

        return removed


def disk_full() -> None:
    raise OSError(28, "No space left on device")


def test_an_error_at_each_step(image: Path, root: Path) -> None:
    """Whichever change fails: all or nothing is seen, nothing hidden stays."""
    for at in range(1, 500):
        with pytest.MonkeyPatch.context() as monkeypatch:
            faults = Faults(monkeypatch, at, disk_full)
            with contextlib.suppress(PublishError):
                put(image, root)
        visible = seen(root) if root.exists() else []
        assert visible in ([], BOTH), at
        assert hidden(root) == [], at
        if faults.left > 0:
            break
    assert 40 < at < 499
    assert seen(root) == BOTH


def test_killed_at_each_step(tmp_path: Path) -> None:
    """Whichever change is the last of a killed publisher: the next one succeeds, and cleans up."""
    image = image_of(tmp_path / "images")
    other = image_of(tmp_path / "other", b"another image")
    for at in range(1, 500):
        root = tmp_path / f"root {at}"
        root.mkdir()
        child = os.fork()
        if child == 0:
            try:
                with pytest.MonkeyPatch.context() as monkeypatch:
                    faults = Faults(monkeypatch, at, lambda: os._exit(9))
                    put(image, root)
                    os._exit(0 if faults.left > 0 else 1)
            finally:  # never back into pytest
                os._exit(2)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code in (0, 9)
        visible = seen(root)
        assert visible in ([], BOTH), at
        # Nothing is visible: then a half-made version hinders nobody, whatever they publish.
        put(image if visible else other, root)
        assert seen(root) == BOTH
        leftovers = [path for path in hidden(root) if (path / "lock").exists()]
        assert leftovers == [], at
        if code == 0:
            break
    assert 40 < at < 499


def test_two_at_once(image: Path, root: Path, tmp_path: Path) -> None:
    """One of many wins; the others see that it is there, or that it is another image."""
    other = image_of(tmp_path / "other", b"another image")
    root.mkdir(parents=True)
    children = []
    for number in range(8):
        child = os.fork()
        if child == 0:
            try:
                new = put(other if number % 2 else image, root).new
                os._exit(10 if new else 11)
            except PublishError as error:
                os._exit(12 if "is already published" in str(error) else 13)
            finally:
                os._exit(2)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert sorted(codes) == [10, 11, 11, 11, 12, 12, 12, 12]
    assert (seen(root), hidden(root)) == (BOTH, [])
