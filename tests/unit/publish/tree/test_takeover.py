"""A tree of before becomes one of generations; what jobs have loaded stays where it is."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.publish.tree import audit, layout, takeover
from tests import publishing
from tests.old_trees import put_old
from tests.publishing import image_of
from tests.trees import both, hand, hidden, put, seen


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "it's a (root)"
    root.mkdir()
    for version in ("1.0", "2.0"):
        image = image_of(tmp_path / version, version.encode(), version=version)
        put_old(image, root)
    return root


@pytest.mark.parametrize("exchange", [True, False])
def test_it_is_taken_over(root: Path, monkeypatch: pytest.MonkeyPatch, *, exchange: bool) -> None:
    if not exchange:
        monkeypatch.setattr(layout, "_exchanged", lambda *_: False)
    old = root / "images/demo/1.0"
    before = {path: path.stat().st_mode for path in old.rglob("*")}
    made = takeover.take_over(root, hand())
    assert (made.number, made.what) == (1, "take over 2 versions")
    assert seen(root) == both("1.0", "2.0")
    assert str((root / "modules").readlink()) == "current/modules"
    assert {path: path.stat().st_mode for path in old.rglob("*")} == before
    release = (root / "modules/lmod/demo/1.0.lua").resolve().parent
    assert (release / "image.sif").samefile(old / "image.sif")
    assert (release / "record.json").read_bytes() == (old / "record.json").read_bytes()
    assert "/images/" not in (release / "module.tcl").read_text()
    assert takeover.take_over(root, hand()) == made
    assert hidden(root) == []
    assert [fault for fault in audit.audit(root) if str(root) in fault.where] == []


def test_publishing_waits_for_the_takeover(root: Path, tmp_path: Path) -> None:
    """Before anything is checked; the error says what to type."""
    other = image_of(tmp_path / "3.0", version="3.0")
    with pytest.raises(PublishError, match="a tree of an earlier dlcontainer") as caught:
        publishing.put(other, root, check=None)
    typed = str(caught.value.next_step).partition("goes on: ")[2]
    assert shlex.split(typed) == ["dlcontainer", "modules", "takeover", "--root", str(root)]
    assert seen(root) == both("1.0", "2.0")
    takeover.take_over(root, hand())
    assert publishing.put(other, root).generation == 2
    assert seen(root) == both("1.0", "2.0", "3.0")


def test_killed_between_two_renames(root: Path) -> None:
    takeover.take_over(root, hand())
    (root / "modules").unlink()
    image = next((root.parent / "2.0").glob("*.sif"))
    put(root, image, "9.9")
    assert seen(root) == both("1.0", "2.0", "9.9")


def test_without_exchange_an_error_puts_it_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.rename

    def failing(old: str, new: str, **options: int) -> None:
        if (old, new) == ("modules", "modules"):
            raise OSError(5, "Input/output error")
        real(old, new, **options)

    monkeypatch.setattr(layout, "_exchanged", lambda *_: False)
    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(PublishError, match="Input/output error"):
        takeover.take_over(root, hand())
    assert (root / "modules").is_dir()
    assert not (root / "modules").is_symlink()
    assert seen(root) == both("1.0", "2.0")
    monkeypatch.undo()
    takeover.take_over(root, hand())
    assert seen(root) == both("1.0", "2.0")
    assert (root / "modules").is_symlink()


def test_hidden_versions_are_left(root: Path) -> None:
    for path in (root / "modules").rglob("*2.0*"):
        path.unlink()
    assert takeover.take_over(root, hand()).what == "take over 1 versions"
    assert (root / "images/demo/2.0").exists()
    assert seen(root) == both("1.0")


def test_a_version_of_before_checksums(root: Path) -> None:
    (root / "images/demo/1.0/SHA256SUMS").unlink()
    takeover.take_over(root, hand())
    assert seen(root) == both("1.0", "2.0")


def test_a_report_goes_along(root: Path) -> None:
    (root / "images/demo/1.0/report.html").write_text("fast")
    (root / "images/demo/1.0/notes.txt").write_text("mine")
    takeover.take_over(root, hand())
    release = (root / "modules/lmod/demo/1.0.lua").resolve().parent
    assert (release / "report.html").read_text() == "fast"
    assert not (release / "notes.txt").exists()


def another_module(root: Path) -> None:
    (root / "modules/lmod/demo/own.lua").write_text("")


def changed_wrapper(root: Path) -> None:
    (root / "images/demo/1.0/bin/python").write_text("evil")


def changed_image(root: Path) -> None:
    (root / "images/demo/1.0/image.sif").write_text("evil")


def missing_record(root: Path) -> None:
    (root / "images/demo/1.0/record.json").unlink()


def missing_image(root: Path) -> None:
    (root / "images/demo/1.0/image.sif").unlink()


def linked_bin(root: Path) -> None:
    (root / "images/demo/1.0/bin").rename(root.parent / "bin")
    (root / "images/demo/1.0/bin").symlink_to(root.parent / "bin")


def moved_root(root: Path) -> None:
    for path in root.glob("images/demo/*/module.*"):
        path.write_text(path.read_text().replace(str(root), "/elsewhere"))
    for path in root.glob("images/demo/*/SHA256SUMS"):
        path.unlink()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (another_module, "not a link that publishing made"),
        (changed_wrapper, r"demo/1\.0 is damaged"),
        (changed_image, "not the image of its record"),
        (missing_record, r"demo/1\.0 is damaged"),
        (missing_image, r"demo/1\.0 is damaged"),
        (linked_bin, r"demo/1\.0 is damaged"),
        (moved_root, "does not name"),
    ],
)
def test_what_is_not_taken_over(root: Path, change: Callable[[Path], None], says: str) -> None:
    change(root)
    there = [path for path in root.glob("modules/*/demo/*") if path.is_symlink()]
    links = {path: path.readlink() for path in there}
    with pytest.raises(PublishError, match=says):
        takeover.take_over(root, hand())
    assert not (root / "current").exists()
    assert {path: path.readlink() for path in there} == links
    assert hidden(root) == []
