"""Publishers beside each other, where the file system has no locks."""

import fcntl
import json
from pathlib import Path

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.publish.tree import changes, journal
from dlcontainer.publish.tree.journal import JournalLine
from dlcontainer.publish.tree.layout import PublishedTree
from tests.trees import Clock, act, both, hand, hidden, image_file, put, seen


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def refuse(number: int, how: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    root = tmp_path / "root"
    root.mkdir()
    put(root, image_file(tmp_path / "images"))
    return root


def lines(root: Path) -> list[JournalLine]:
    texts = (root / "journal.jsonl").read_text().splitlines()
    return [JournalLine(**json.loads(text)) for text in texts]


def of_another(clock: Clock) -> JournalLine:
    return JournalLine(
        time=journal.stamp(clock()),
        who="bob@login2",
        what="publish demo/3.0",
        state="begin",
        left=1,
        entered=2,
    )


def test_it_works_without_locks(root: Path, tmp_path: Path) -> None:
    assert put(root, image_file(tmp_path / "images"), "2.0") == 2
    assert seen(root) == both("1.0", "2.0")


def test_another_who_began_before(root: Path) -> None:
    clock = Clock()
    act(
        root,
        lambda tree: journal.append(tree.top, tree.ownership, of_another(clock)),
        by=hand(clock),
    )
    clock.now += 59
    with pytest.raises(PublishError, match="another publisher is at work"):
        act(root, lambda tree: changes.unpublish(tree, "demo/1.0"), by=hand(clock))
    clock.now += 2
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0"), by=hand(clock))
    assert str((root / "current").readlink()) == "generations/3"


def test_another_who_began_meanwhile(root: Path) -> None:
    clock = Clock()

    def late(tree: PublishedTree) -> None:
        journal.append(tree.top, tree.ownership, of_another(clock))
        changes.unpublish(tree, "demo/1.0")

    with pytest.raises(PublishError, match="another publisher is at work"):
        act(root, late, by=hand(clock))
    assert str((root / "current").readlink()) == "generations/1"
    assert hidden(root) == []
    # The other one goes on.
    states = [(one.state, one.entered) for one in lines(root)][2:]
    assert states == [("begin", 2), ("begin", 3), ("undone", 3)]


def test_a_number_that_is_taken(root: Path) -> None:
    def taken(tree: PublishedTree) -> None:
        (root / "generations/2").mkdir()
        (root / "generations/2/x").touch()
        changes.unpublish(tree, "demo/1.0")

    act(root, taken)
    assert str((root / "current").readlink()) == "generations/3"
    assert [path.name for path in (root / "generations/2").iterdir()] == ["x"]
