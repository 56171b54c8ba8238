"""Users who do not publish in a tree, and could put something else in its place."""

import os
from pathlib import Path

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.publish import ownership
from dlcontainer.publish.tree import promotion, strangers
from dlcontainer.system.guarded_files import name_of
from tests import publishing
from tests.hostile import open_place
from tests.skips import skip
from tests.trees import act, image_file, put

STRANGER = 65534


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "site" / "root"
    root.mkdir(parents=True)
    return root


def notes(root: Path) -> list[str]:
    said: list[str] = []
    strangers.require_none(root, ownership.of_root(root, None), said.append)
    return said


def test_a_tree_of_ones_own(root: Path) -> None:
    assert notes(root) == []
    with open_place() as place:  # below /tmp, which is sticky
        assert notes(place) == []


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o2777])
def test_a_root_that_everybody_may_change(root: Path, tmp_path: Path, mode: int) -> None:
    root.chmod(mode)
    with pytest.raises(PublishError, match=f"any user can write to {root}") as caught:
        publishing.put(publishing.image_of(tmp_path / "images"), root)
    assert f"chmod o-w {root}" in str(caught.value.next_step)
    assert caught.value.exit_code == 6
    assert list(root.iterdir()) == []


def test_a_folder_above_that_everybody_may_change(root: Path, tmp_path: Path) -> None:
    root.parent.chmod(0o777)
    with pytest.raises(PublishError, match=f"any user can write to {root.parent}"):
        notes(root)
    root.parent.chmod(0o1777)  # nobody can rename what is another's
    assert notes(root) == []


def test_nothing_is_promoted_into_such_a_tree(root: Path, tmp_path: Path) -> None:
    source = tmp_path / "test"
    source.mkdir()
    put(source, image_file(tmp_path / "images"))
    root.chmod(0o777)
    with pytest.raises(PublishError, match="any user can write to"):
        act(root, lambda tree: promotion.promote(tree, source, "demo/1.0"))
    assert not (root / "current").is_symlink()
    root.chmod(0o755)
    act(root, lambda tree: promotion.promote(tree, source, "demo/1.0"))
    assert (root / "current").is_symlink()


def test_what_a_link_on_the_way_leads_through_counts(root: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root.parent)
    assert notes(link / "root") == []
    root.parent.chmod(0o777)
    with pytest.raises(PublishError, match="any user can write to"):
        notes(link / "root")


def test_others_are_named(root: Path) -> None:
    if os.getuid() != 0:
        skip("needs root, which can give a folder to another user", elsewhere="a run as root")
    os.chown(root.parent, STRANGER, 0)
    who, above = name_of(STRANGER), root.parent
    says = f"{who} can replace the published files in {root}: they can write to {above}"
    assert notes(root) == [says]
    os.chown(root.parent, 0, STRANGER)
    assert notes(root) == []  # they can't write there
    root.parent.chmod(0o775)
    (said,) = notes(root)
    assert said.startswith("the group nogroup can replace") or "65534" in said
    os.chown(root, 0, STRANGER)  # the tree is that group's
    assert notes(root) == []
