"""What is on the disk before what: a host that goes down leaves the old tree or the new one."""

import os
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.publish.tree import changes
from dlcontainer.system import atomic_files
from tests.trees import act, image_file, put


class Watched:
    """Notes each rename and each sync by the path that it goes to, in their order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, Path]] = []
        rename, replace, fsync = os.rename, os.replace, os.fsync

        def renamed(old: Any, new: Any, *, dst_dir_fd: int | None = None, **more: Any) -> None:
            rename(old, new, dst_dir_fd=dst_dir_fd, **more)
            self.calls.append(("rename", path_of(dst_dir_fd) / new))

        def replaced(old: Any, new: Any, *, dst_dir_fd: int | None = None, **more: Any) -> None:
            replace(old, new, dst_dir_fd=dst_dir_fd, **more)
            self.calls.append(("rename", path_of(dst_dir_fd) / new))

        def synced(number: int) -> None:
            fsync(number)
            self.calls.append(("sync", path_of(number)))

        monkeypatch.setattr(os, "rename", renamed)
        monkeypatch.setattr(os, "replace", replaced)
        monkeypatch.setattr(os, "fsync", synced)

    def require_synced_folders(self, below: Path) -> list[Path]:
        """Require that after each rename its folder is synced next; give what was renamed.

        Not in the private folder: what is made there is synced before it moves to its place.
        """
        moved = []
        for (kind, path), after in zip(self.calls, [*self.calls[1:], ("", Path())], strict=True):
            if ".dlcontainer-build" in str(path):
                continue
            if kind == "rename" and path.is_relative_to(below) and path.name != "lock":
                assert after == ("sync", path.parent), path
                moved.append(path)
        return moved


def path_of(number: int | None) -> Path:
    return Path(os.readlink(f"/proc/self/fd/{number}"))  # noqa: PTH115  what a descriptor has open


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


def test_a_publication(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    put(root, image_file(tmp_path / "images"))
    (release,) = (root / "releases").iterdir()
    moved = watched.require_synced_folders(root)
    places = [release, root / "generations/1", root / "modules", root / "current"]
    assert [path for path in moved if path in places] == places
    synced = [path for kind, path in watched.calls if kind == "sync"]
    # Every file and folder of release and generation, before the folder has its name.
    for place in places[:2]:
        at = watched.calls.index(("rename", place))
        before = {path.name for kind, path in watched.calls[:at] if kind == "sync"}
        assert {path.name for path in place.rglob("*") if not path.is_symlink()} <= before
    # The journal's `begin` comes before the generation, its `done` after the switch.
    assert synced.count(root / "journal.jsonl") == 2
    told = [n for n, call in enumerate(watched.calls) if call[1].name == "journal.jsonl"]
    switched = watched.calls.index(("rename", root / "current"))
    assert told[0] < watched.calls.index(("rename", root / "generations/1")) < switched < told[1]


def test_a_rollback(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, image_file(tmp_path / "images"))
    put(root, image_file(tmp_path / "images", b"another"), "2.0")
    watched = Watched(monkeypatch)
    act(root, changes.rollback)
    assert watched.require_synced_folders(root) == [root / "current"]
    synced = [path.name for kind, path in watched.calls if kind == "sync"]
    assert synced == ["journal.jsonl", root.name, "journal.jsonl"]


def test_a_file_that_replaces_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    atomic_files.write(tmp_path / "note", "text")
    assert watched.require_synced_folders(tmp_path) == [tmp_path / "note"]
    kinds = [kind for kind, _ in watched.calls]
    assert kinds == ["sync", "rename", "sync"]
    (tmp_path / "made").write_text("text")
    watched.calls.clear()
    atomic_files.move(tmp_path / "made", tmp_path / "moved")
    assert watched.require_synced_folders(tmp_path) == [tmp_path / "moved"]
    assert [kind for kind, _ in watched.calls] == ["sync", "rename", "sync"]
