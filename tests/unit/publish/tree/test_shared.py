"""Two publishers of one group-writable tree, as two real users; root plays both."""

import os
import stat
import time
from pathlib import Path

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.publish.tree import audit, changes, collection
from dlcontainer.publish.tree.collection import CollectionResult, RetentionPolicy
from dlcontainer.system.guarded_files import name_of
from tests.trees import DAY, Clock, act, both, hand, image_file, put, seen
from tests.unit.publish.test_shared_tree import (
    ADA,
    BOB,
    GROUP,
    as_user,
    shared,  # noqa: F401  a fixture
)

pytestmark = pytest.mark.usefixtures("as_root")


@pytest.fixture
def root(shared: Path) -> Path:  # noqa: F811
    """Give a root of the group, and an image that both may read beside it."""
    image_file(shared / "images")
    (shared / "images").chmod(0o755)
    with_everything = shared / "warm"
    with_everything.mkdir()
    # What publishing imports is there by then: Python may lie where others can't read.
    put(with_everything, image(shared / "root"))
    act(with_everything, lambda tree: collection.collect(tree, RetentionPolicy(keep_s=0)))
    return shared / "root"


def image(root: Path) -> Path:
    return next((root.parent / "images").glob("*.sif"))


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o077])
def test_colleagues_publish_and_go_back(root: Path, umask: int) -> None:
    assert as_user(ADA, umask, lambda: put(root, image(root))) == 0
    assert as_user(BOB, umask, lambda: put(root, image(root), "2.0")) == 0
    assert as_user(BOB, umask, lambda: put(root, image(root), facts="new")) == 0
    assert as_user(ADA, umask, lambda: act(root, changes.rollback)) == 0
    assert seen(root) == both("1.0", "2.0")
    owners = [path.stat().st_uid for path in root.glob("releases/*/image.sif")]
    assert sorted(owners) == [ADA, BOB, BOB]
    # BOB links what is his own; what is ADA's he copies, as she could change it.
    assert len({path.stat().st_ino for path in root.glob("releases/*/image.sif")}) == 2
    assert {path.lstat().st_gid for path in root.rglob("*")} == {GROUP}
    shared_folders = [root / "releases", root / "generations"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in shared_folders} == {0o2775}
    assert [fault for fault in audit.audit(root) if str(root) in fault.where] == []
    who = [line.who.partition("@")[0] for line in changes.history(root)]
    assert who == [name_of(user) for user in (ADA, BOB, BOB, ADA)]


def test_root_links_nothing_that_a_colleague_could_change(root: Path) -> None:
    assert as_user(ADA, 0o022, lambda: put(root, image(root))) == 0
    put(root, image(root), facts="new")
    owners = [path.stat().st_uid for path in root.glob("releases/*/image.sif")]
    assert sorted(owners) == [0, ADA]


def test_a_colleague_s_folders_stay(root: Path) -> None:
    later = Clock(time.time() + 100 * DAY)
    told = root.parent / "told"
    told.mkdir()
    told.chmod(0o777)
    assert as_user(ADA, 0o022, lambda: put(root, image(root))) == 0
    assert (
        as_user(ADA, 0o022, lambda: act(root, lambda tree: changes.unpublish(tree, "demo/1.0")))
        == 0
    )

    def collected() -> None:
        found: list[CollectionResult] = []
        policy = RetentionPolicy(keep_s=DAY)
        act(root, lambda tree: found.append(collection.collect(tree, policy)), by=hand(later))
        (told / str(os.getuid())).write_text("\n".join(kept.why for kept in found[0].kept))

    assert as_user(BOB, 0o022, collected) == 0
    says = (told / str(BOB)).read_text()
    assert "generations/1 belongs to" in says
    assert "and only that user may remove it" in says
    # The generation stays, so its release does.
    assert len(list((root / "releases").iterdir())) == 1
    assert as_user(ADA, 0o022, collected) == 0
    assert list((root / "releases").iterdir()) == []


def test_planted_by_a_colleague(root: Path) -> None:
    victim = root.parent / "victim"
    victim.mkdir(mode=0o700)
    (victim / "key").write_text("secret")

    def plant() -> None:
        (root / "generations").mkdir()
        (root / "releases").symlink_to(victim)

    assert as_user(BOB, 0o002, plant) == 0
    with pytest.raises(PublishError, match="is a symbolic link"):
        put(root, image(root))
    assert [path.name for path in victim.iterdir()] == ["key"]
