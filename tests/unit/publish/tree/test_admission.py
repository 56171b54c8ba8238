"""What is demanded is asked of each release that becomes live, whatever brings it in."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import changes, promotion
from dlcontainer.publish.tree.generation import Deprecation
from dlcontainer.publish.tree.transaction import Publisher, opened
from dlcontainer.system.guarded_files import name_of
from tests.hostile import open_place
from tests.skips import skip
from tests.trees import act, both, draft, hand, hidden, image_file, put, seen

STRANGER = 65534


@dataclass
class Gate:
    """A demand that takes images of these bytes alone; it notes for which it was asked."""

    good: tuple[bytes, ...] = ()
    asked: list[str] = field(default_factory=list)

    def admit(self, release: Folder, module: str) -> None:
        self.asked.append(module)
        with release.open("image.sif") as file:
            if file.read() not in self.good:
                raise PublishError(f"{module} is not signed")

    @property
    def hand(self) -> Publisher:
        return replace(hand(), admit=self.admit)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "a root"
    root.mkdir()
    return root


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return tmp_path / "images"


def refused(root: Path, change: Callable[..., object], gate: Gate) -> None:
    before = (root / "current").readlink() if (root / "current").is_symlink() else None
    with pytest.raises(PublishError, match="is not signed"):
        act(root, change, gate.hand)
    assert before == ((root / "current").readlink() if before else None)
    assert hidden(root) == []


def test_publish_asks_of_the_bytes_in_the_tree(root: Path, images: Path) -> None:
    gate = Gate(good=(b"signed",))
    with pytest.raises(PublishError, match="is not signed"):
        put(root, image_file(images, b"not"), by=gate.hand)
    # Nothing of it stays, not even a release that is not live.
    assert list((root / "releases").iterdir()) == []
    put(root, image_file(images, b"signed"), by=gate.hand)
    assert seen(root) == both("1.0")
    assert gate.asked == ["demo/1.0"] * 2


def test_a_release_that_lies_there_already_is_asked_of(root: Path, images: Path) -> None:
    image = image_file(images, b"not")
    put(root, image)
    put(root, image_file(images, b"signed"), "2.0")
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0"))
    gate = Gate(good=(b"signed",))
    with pytest.raises(PublishError, match="is not signed"):
        put(root, image, by=gate.hand)
    assert seen(root) == both("2.0")


def test_rollback(root: Path, images: Path) -> None:
    put(root, image_file(images, b"not"))
    put(root, image_file(images, b"signed"), "2.0")
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0"))
    gate = Gate(good=(b"signed",))
    refused(root, changes.rollback, gate)
    refused(root, lambda tree: changes.rollback(tree, 1), gate)
    assert gate.asked == ["demo/1.0"] * 2
    assert seen(root) == both("2.0")
    # To what is live by now anyway, or signed:
    act(root, lambda tree: changes.rollback(tree, 3), gate.hand)
    act(root, changes.rollback)
    assert seen(root) == both("1.0", "2.0")
    act(root, lambda tree: changes.rollback(tree, 3), gate.hand)
    assert len(gate.asked) == 2


def test_promote(root: Path, images: Path, tmp_path: Path) -> None:
    source = tmp_path / "test"
    source.mkdir()
    put(source, image_file(images, b"not"))
    put(source, image_file(images, b"signed"), "2.0")
    gate = Gate(good=(b"signed",))
    refused(root, lambda tree: promotion.promote(tree, source, "demo/1.0"), gate)
    assert list((root / "releases").iterdir()) == []
    act(root, lambda tree: promotion.promote(tree, source, "demo/2.0"), gate.hand)
    assert seen(root) == both("2.0")


def test_what_brings_nothing_in_asks_nothing(root: Path, images: Path) -> None:
    image = image_file(images, b"not")
    put(root, image)
    gate = Gate()
    for change in (
        lambda tree: changes.set_default(tree, "demo/1.0"),
        lambda tree: changes.set_alias(tree, "demo/1.0", "new"),
        lambda tree: changes.remove_alias(tree, "demo", "new"),
        lambda tree: changes.deprecate(tree, "demo/1.0", Deprecation(message="old")),
    ):
        act(root, change, gate.hand)
    with opened(root, gate.hand) as tree, draft(image) as given:
        changes.publish(tree, given)
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0"), gate.hand)
    assert gate.asked == []


@pytest.fixture
def source(images: Path, root: Path) -> Path:
    """Give a tree that root, who runs the tests, promotes from."""
    if os.getuid() != 0:
        skip("needs root, which can give a tree to another user", elsewhere="a run as root")
    source = root.parent / "test"
    source.mkdir()
    put(source, image_file(images))
    return source


def owned(place: Path, user: int) -> None:
    os.chown(place, user, -1, follow_symlinks=False)
    for folder, folders, files in os.walk(place):
        for name in (*folders, *files):
            os.chown(Path(folder) / name, user, -1, follow_symlinks=False)


def promoted(root: Path, source: Path, *owners: str) -> None:
    act(root, lambda tree: promotion.promote(tree, source, "demo/1.0", owners))


def test_a_stranger_s_tree_is_not_promoted_unless_named(root: Path, source: Path) -> None:
    owned(source, STRANGER)
    who = name_of(STRANGER)
    with pytest.raises(PublishError) as caught:
        promoted(root, source)
    assert f"belongs to {who}, who does not publish in {root}" in caught.value.what
    typed = f"dlcontainer modules promote demo/1.0 --from {source} --from-owner {who} --root"
    assert typed in str(caught.value.next_step)
    assert not (root / "current").is_symlink()
    with pytest.raises(PublishError, match="who does not publish"):
        promoted(root, source, "somebody")
    promoted(root, source, who)
    assert seen(root) == both("1.0")


@pytest.mark.parametrize(
    "name",
    [
        ".", "current", "generations", "releases", "generations/1", "generations/1/generation.json",
        "RELEASE", "RELEASE/bin", "RELEASE/bin/tool", "RELEASE/module.lua", "RELEASE/image.sif",
        "RELEASE/SHA256SUMS",
    ],
)  # fmt: skip
def test_each_thing_of_it_has_a_known_owner(root: Path, source: Path, name: str) -> None:
    (release,) = (source / "releases").iterdir()
    path = source / name.replace("RELEASE", f"releases/{release.name}")
    os.chown(path, STRANGER, -1, follow_symlinks=False)
    with pytest.raises(PublishError, match="who does not publish") as caught:
        promoted(root, source)
    assert str(caught.value.where) == os.path.normpath(path)
    promoted(root, source, str(STRANGER))


def test_a_colleague_of_the_group_is_no_stranger(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dlcontainer.publish import ownership

    owned(source, STRANGER)
    monkeypatch.setattr(ownership, "_is_member", lambda user, group: (user, group) == (STRANGER, 7))
    os.chown(root, 0, 7)
    with pytest.raises(PublishError, match="who does not publish"):
        promoted(root, source)  # the group may not write there
    root.chmod(0o2775)
    promoted(root, source)


def test_a_tree_that_everybody_may_write_in(root: Path, source: Path) -> None:
    """What others put there is theirs: its owner is asked, whoever's the folder is."""
    with open_place() as place:
        (source.parent / "x").mkdir()
        put(place, image_file(source.parent / "x"))
        release = next((place / "releases").iterdir())
        os.chown(release / "bin/tool", STRANGER, -1)
        with pytest.raises(PublishError, match="who does not publish"):
            promoted(root, place)
