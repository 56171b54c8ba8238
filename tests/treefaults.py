"""Changes of a tree with a fault at each call that changes a file system, and the oracle.

For errors in one process; SIGKILL at each system call is in tests/faults.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.publish.tree import audit, changes, collection, promotion
from dlcontainer.publish.tree.collection import RetentionPolicy
from dlcontainer.publish.tree.generation import Deprecation
from tests.trees import DAY, Clock, act, hand, hidden, image_file, put, put_release, seen

CHANGING = (
    *("mkdir", "link", "symlink", "rename", "unlink", "rmdir", "open", "write"),
    *("fsync", "fchmod", "fchown", "chmod", "chown"),
)


class Faults:
    """Lets something happen before the Nth call that changes a file system; nothing is synced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, fault: Callable[[], None]) -> None:
        self.left, self.fault = at, fault
        for name in CHANGING:
            monkeypatch.setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*args: Any, **kwargs: Any) -> Any:
            # What is opened to read changes nothing.
            if name != "open" or args[1] & os.O_CREAT:
                self.left -= 1
                if self.left == 0:
                    self.fault()
            return None if name == "fsync" else real(*args, **kwargs)

        return changed


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """A change, and the tree before it; `images` is a folder with images."""

    prepare: Callable[[Path, Path], object]
    change: Callable[[Path, Path], object]
    # It can be done twice.
    again: bool = True


def _image(images: Path, data: bytes = b"an image") -> Path:
    return image_file(images, data)


def _two(root: Path, images: Path) -> None:
    put(root, _image(images))
    put(root, _image(images, b"another"), "2.0")


def _releases(root: Path, images: Path) -> None:
    put_release(root, _image(images))
    put_release(root, _image(images, b"another"))


def _act(change: Callable[..., object]) -> Callable[[Path, Path], object]:
    return lambda root, images: act(root, change, by=hand(strict=False))


def _promote(root: Path, images: Path) -> None:
    act(root, lambda tree: promotion.promote(tree, images / "test", "demo/1.0"), hand(strict=False))


def _prepared_promotion(root: Path, images: Path) -> None:
    (images / "test").mkdir(parents=True)
    put(images / "test", _image(images))
    put(root, _image(images, b"another"), "2.0")


def _outdated(root: Path, images: Path) -> None:
    _two(root, images)
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0"))


def _collect(root: Path, images: Path) -> None:
    import time

    later = Clock(max(time.time(), Clock().now) + 100 * DAY)
    policy = RetentionPolicy(keep_s=30 * DAY)
    act(root, lambda tree: collection.collect(tree, policy), hand(later, strict=False))


WARNING = Deprecation(message="use 2.0", removal="2027-01-31")
SCENARIOS: Mapping[str, Scenario] = {
    "first": Scenario(
        prepare=lambda root, images: None,
        change=lambda root, images: put(root, _image(images), by=hand(strict=False)),
    ),
    "second": Scenario(
        prepare=lambda root, images: put(root, _image(images)),
        change=lambda root, images: put(
            root, _image(images, b"another"), "2.0", by=hand(strict=False)
        ),
    ),
    "facts": Scenario(
        prepare=lambda root, images: put(root, _image(images)),
        change=lambda root, images: put(root, _image(images), facts="new", by=hand(strict=False)),
    ),
    "release": Scenario(
        prepare=lambda root, images: put_release(root, _image(images)),
        change=lambda root, images: put_release(
            root, _image(images, b"another"), by=hand(strict=False)
        ),
    ),
    "release back": Scenario(
        prepare=_releases,
        change=_act(lambda tree: changes.unpublish(tree, "demo/1.0-2")),
        again=False,
    ),
    "rollback": Scenario(prepare=_two, change=_act(lambda tree: changes.rollback(tree, 1))),
    "unpublish": Scenario(
        prepare=_two, change=_act(lambda tree: changes.unpublish(tree, "demo/1.0")), again=False
    ),
    "default": Scenario(
        prepare=_two, change=_act(lambda tree: changes.set_default(tree, "demo/1.0"))
    ),
    "deprecate": Scenario(
        prepare=_two, change=_act(lambda tree: changes.deprecate(tree, "demo/1.0", WARNING))
    ),
    "promote": Scenario(prepare=_prepared_promotion, change=_promote),
    "collect": Scenario(prepare=_outdated, change=_collect),
}


class Stage:
    """A tree that each round begins with again, at the same path."""

    def __init__(self, folder: Path, scenario: Scenario) -> None:
        self.root, self.images = folder / "root", folder / "images"
        self.scenario, self._kept = scenario, folder / "kept"
        self.root.mkdir()
        self.images.mkdir()
        scenario.prepare(self.root, self.images)
        shutil.copytree(self.root, self._kept, symlinks=True)
        self.before = view(self.root)
        self.change()
        self.after = view(self.root)

    def reset(self) -> None:
        shutil.rmtree(self.root)
        shutil.copytree(self._kept, self.root, symlinks=True)

    def change(self) -> None:
        self.scenario.change(self.root, self.images)

    def require_whole(self, told: object) -> None:
        """Require of a stopped change that users see all of it or nothing of it."""
        now = view(self.root)
        assert now in (self.before, self.after), (told, now)
        if (self.root / "current").exists() and (self.root / "modules").is_symlink():
            assert view(self.root, "current/modules") == now, told

    def require_next(self, told: object) -> None:
        """Require that the next run works, and leaves the tree as if nothing had happened."""
        for name in hidden(self.root):
            # One without its lock may be one that another process is just making: for a minute.
            os.utime(self.root / name, (0, 0))
        if view(self.root) != self.after or self.scenario.again:
            self.change()
        else:
            put(self.root, _image(self.images), "9.9", by=hand(strict=False))
            act(self.root, lambda tree: changes.unpublish(tree, "demo/9.9"))
        assert view(self.root) == self.after, told
        assert hidden(self.root) == [], told
        found = [fault for fault in audit.audit(self.root) if str(self.root) in fault.where]
        assert found == [], told


def view(root: Path, below: str = "modules") -> dict[str, str]:
    """What users see: each module, which works, and its text, without the folder that it names."""
    if not (root / below).exists():
        return {}
    texts = {name: (root / below / name).read_text() for name in seen(root, below)}
    extra = (root / below).resolve().rglob(".modulerc*")
    return texts | {path.name: path.read_text() for path in extra}


def with_fault(stage: Stage, at: int, fault: Callable[[], None]) -> bool:
    """Change with a fault at one call; false where the change was done before that."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        faults = Faults(monkeypatch, at, fault)
        with contextlib.suppress(PublishError):
            stage.change()
        return faults.left <= 0
