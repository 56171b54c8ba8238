"""Audit: each thing that users could meet and that is not as it was published is named."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.publish.tree import audit, changes
from dlcontainer.publish.tree.generation import Deprecation
from tests.trees import act, image_file, put


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root, images = tmp_path / "root", tmp_path / "images"
    root.mkdir()
    put(root, image_file(images))
    put(root, image_file(images, b"another"), "2.0")
    act(root, lambda tree: changes.set_default(tree, "demo/1.0"))
    act(root, lambda tree: changes.deprecate(tree, "demo/2.0", Deprecation(message="old")))
    return root


def audited(root: Path, engine: Path | None = None) -> list[str]:
    """List faults below the root: pytest's own folder is closed to other users."""
    inside = str(root)
    return [
        f"{fault.where.removeprefix(inside + '/')}: {fault.why}"
        for fault in audit.audit(root, engine)
        if fault.where.startswith(inside)
    ]


def first(root: Path) -> Path:
    return (root / "modules/lmod/demo/1.0.lua").resolve().parent


def test_a_sound_tree(root: Path) -> None:
    assert audited(root) == []


def test_a_tree_with_nothing_in_it(tmp_path: Path) -> None:
    assert [fault.why for fault in audit.audit(tmp_path)][-1] == "nothing is published"
    with pytest.raises(PublishError, match="can't read"):
        audit.audit(tmp_path / "none")


def one_byte(root: Path) -> None:
    (first(root) / "image.sif").write_bytes(b"an imagE")


def wrapper(root: Path) -> None:
    (first(root) / "bin/tool").write_text("evil")


def wrapper_with_its_sum(root: Path) -> None:
    import hashlib

    old, sums = first(root) / "bin/tool", first(root) / "SHA256SUMS"
    before = hashlib.sha256(old.read_bytes()).hexdigest()
    old.write_text("evil")
    sums.write_text(sums.read_text().replace(before, hashlib.sha256(b"evil").hexdigest()))


def mode(root: Path) -> None:
    (first(root) / "bin/tool").chmod(0o644)


def closed(root: Path) -> None:
    first(root).chmod(0o700)


def closed_farm(root: Path) -> None:
    (root / "generations/4/modules/tcl/demo").chmod(0o700)


def missing_file(root: Path) -> None:
    (first(root) / "launch/site.sh").unlink()


def further_file(root: Path) -> None:
    (first(root) / "bin/more").write_text("")


def link(root: Path) -> None:
    path = root / "generations/4/modules/lmod/demo/1.0.lua"
    target = str(path.readlink()).replace(".lua", ".tcl")
    path.unlink()
    path.symlink_to(target)


def missing_link(root: Path) -> None:
    (root / "generations/4/modules/tcl/demo/1.0").unlink()


def further_module(root: Path) -> None:
    (root / "generations/4/modules/tcl/evil").mkdir()


def warning(root: Path) -> None:
    (root / "generations/4/modules/lmod/demo/2.0.lua").write_text("-- nothing")


def default(root: Path) -> None:
    (root / "generations/4/modules/lmod/demo/.modulerc.lua").write_text("")


def modules(root: Path) -> None:
    (root / "modules").unlink()


def record(root: Path) -> None:
    (first(root) / "record.json").write_text(json.dumps({"image": {"sha256": "0"}}))


def lost_release(root: Path) -> None:
    first(root).rename(root.parent / "gone")


def unjournaled(root: Path) -> None:
    (root / "current").unlink()
    (root / "current").symlink_to("generations/3")


def unreadable(root: Path) -> None:
    with (root / "journal.jsonl").open("a") as file:
        file.write('{"time": "20')


def leftover(root: Path) -> None:
    (root / ".dlcontainer-build-abc").mkdir()


def impossible_rollback(root: Path) -> None:
    (root / "generations/1/generation.json").write_text("{}")


def moved_tree(root: Path) -> None:
    text = (first(root) / "release.json").read_text()
    (first(root) / "release.json").write_text(text.replace(str(root), "/elsewhere"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (one_byte, "image.sif: its SHA-256 is not that of SHA256SUMS"),
        (wrapper, "bin/tool: its SHA-256 is not that of SHA256SUMS"),
        (wrapper_with_its_sum, "its content does not give its digest"),
        (mode, "bin/tool: its mode is 0644"),
        (closed, "other users can't read it: its mode is 0700"),
        (closed_farm, "tcl/demo: other users can't read it"),
        (missing_file, "launch/site.sh: it is missing"),
        (further_file, "bin/more: it was not published"),
        (link, "demo/1.0.lua: it leads to "),
        (missing_link, "tcl/demo/1.0: it is missing"),
        (further_module, "tcl/evil: it was not published"),
        (warning, "2.0.lua: its text was changed"),
        (default, ".modulerc.lua: its text was changed"),
        (modules, "modules: it is not the link to current/modules"),
        (record, "record.json: its SHA-256 is not that"),
        (lost_release, "No such file or directory"),
        (unjournaled, "its last switch is to 4, live is 3"),
        (unreadable, "lines that can't be read: 1"),
        (leftover, "a publication is under way, or was killed"),
        (impossible_rollback, "generations/1: "),
        (moved_tree, "its content does not give its digest"),
    ],
)
def test_what_is_named(root: Path, change: Callable[[Path], None], says: str) -> None:
    change(root)
    found = audited(root)
    assert any(says in fault for fault in found), found


def test_what_other_users_can_not_reach(root: Path) -> None:
    closed = root / "a/private"
    closed.mkdir(parents=True)
    closed.parent.chmod(0o750)
    engine = closed / "apptainer"
    engine.touch(mode=0o755)
    engine.chmod(0o755)
    found = audited(root, engine)
    assert found == ["a: other users can't enter it: its mode is 0750"]
    closed.parent.chmod(0o755)
    engine.chmod(0o700)
    assert audited(root, engine) == [
        "a/private/apptainer: other users can't run it: its mode is 0700"
    ]
    engine.unlink()
    assert "No such file" in audited(root, engine)[0]
