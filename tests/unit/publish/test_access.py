"""Modules that other users can't reach: named, with the fix."""

import json
import os
from pathlib import Path

import pytest

from dlcontainer.cli import publish as command
from dlcontainer.publish import access
from dlcontainer.publish.access import AccessBarrier
from dlcontainer.publish.modulefiles import FallbackPrograms
from dlcontainer.publish.ownership import Ownership, group_name
from dlcontainer.publish.publish import Publication
from tests.publishing import image_of, put

GROUP = os.getegid()
ENGINE = Path("/bin/sh")  # everybody can start it


def below(folder: Path, found: tuple[AccessBarrier, ...]) -> list[AccessBarrier]:
    """Leave out pytest's own folders, which are closed to others."""
    return [one for one in found if folder in one.folder.parents]


def tree(folder: Path) -> Path:
    root = folder / "a home/root"
    for path in ways(root):
        path.mkdir(parents=True)
    return root


def ways(root: Path) -> tuple[Path, ...]:
    return (root / "releases/1", root / "modules/lmod", root / "modules/tcl")


def own(group: int = GROUP, *, required: bool = False) -> Ownership:
    return Ownership(group=group, required=required, shared=0, user=os.geteuid())


def test_what_everybody_can_enter(tmp_path: Path) -> None:
    assert below(tmp_path, access.closed(ways(tree(tmp_path)), ENGINE, own())) == []


@pytest.mark.parametrize("part", ["", "root", "root/releases/1", "root/modules/lmod"])
def test_a_closed_folder_is_named_once_with_the_fix(tmp_path: Path, part: str) -> None:
    root = tree(tmp_path)
    folder = tmp_path / "a home" / part
    folder.chmod(0o700)
    (closed,) = below(tmp_path, access.closed(ways(root), ENGINE, own()))
    assert (closed.part, closed.folder, closed.mode, closed.group) == (
        "module",
        folder,
        0o700,
        None,
    )
    assert f"other users can't use the module: {folder} is closed to others (mode 0700)" in str(
        closed
    )
    assert str(closed).endswith(f"--root DIR; or: chmod o+x '{folder}'")


def test_through_a_link(tmp_path: Path) -> None:
    root = tree(tmp_path)
    (tmp_path / "link").symlink_to(root)
    (tmp_path / "a home").chmod(0o750)
    found = access.closed(ways(tmp_path / "link"), ENGINE, own())
    assert [one.folder for one in below(tmp_path, found)] == [tmp_path / "a home"]


@pytest.mark.parametrize("shut", ["private", "private/apptainer"])
def test_an_engine_that_others_can_not_start(tmp_path: Path, shut: str) -> None:
    engine = tmp_path / "private/apptainer"
    engine.parent.mkdir()
    engine.touch(0o755)
    (tmp_path / shut).chmod(0o700)
    (tmp_path / "apptainer").symlink_to(engine)
    (closed,) = below(tmp_path, access.closed(ways(tree(tmp_path)), tmp_path / "apptainer", own()))
    assert (closed.part, closed.folder) == ("engine", tmp_path / shut)
    assert f"users without an engine on PATH can't use the module, which names {tmp_path}" in str(
        closed
    )
    assert "put an engine that all users can start first on PATH" in str(closed.fix)


def test_a_tree_of_the_modules_group_is_no_fault(tmp_path: Path) -> None:
    root = tree(tmp_path)
    root.chmod(0o750)
    (closed,) = below(tmp_path, access.closed(ways(root), ENGINE, own(required=True)))
    name = group_name(GROUP)
    assert str(closed) == f"only the group {name} can use the module: {root}"
    assert closed.fix is None
    # Another group's, or closed to the group too, or no group of the site's: a fault.
    for mode, given in ((0o750, own(GROUP + 1, required=True)), (0o700, own(required=True))):
        root.chmod(mode)
        assert [one.group for one in below(tmp_path, access.closed(ways(root), ENGINE, given))] == [
            None
        ]
    root.chmod(0o750)
    (closed,) = below(tmp_path, access.closed(ways(root), ENGINE, own()))
    assert closed.group is None
    assert str(closed).endswith(f"for the group {name} only, set modules.group in the site config")


def test_publish_says_it_each_time(tmp_path: Path) -> None:
    image, root = image_of(tmp_path / "images"), tmp_path / "home/root"
    root.mkdir(parents=True)
    (tmp_path / "home").chmod(0o700)
    resort = FallbackPrograms(engine=tmp_path / "no/such")
    for new in (True, False):
        done = put(image, root, resort=resort)
        assert done.new is new
        seen = [(one.part, one.folder) for one in below(tmp_path, done.closed)]
        assert seen == [("module", tmp_path / "home")]


def test_the_list_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    closed = AccessBarrier(part="engine", path=ENGINE, folder=Path("/bin"), mode=0o750, fix="do so")
    done = Publication(
        root=tmp_path,
        name="demo",
        version="1.0",
        number=1,
        digest="ab" * 32,
        generation=1,
        new=True,
        closed=(closed,),
    )
    command._show(done, "lmod", as_json=True)
    body = json.loads(capsys.readouterr().out)
    given = {"path": "/bin/sh", "folder": "/bin", "mode": "0750", "group": None, "fix": "do so"}
    assert body["closed"] == [{"part": "engine", **given}]
