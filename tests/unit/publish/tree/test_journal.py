"""The journal: what a killed run did not write, what cannot be read, when something was left."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.publish import ownership
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import changes, journal
from dlcontainer.publish.tree.journal import Journal, JournalLine, State
from tests.trees import Clock, act, hand, image_file, put

NOW = "2027-01-15T08:00:00Z"


def line(state: State, left: int, entered: int, time: str = NOW) -> JournalLine:
    return JournalLine(
        time=time, who="ada@login1", what="x", state=state, left=left, entered=entered
    )


def line_text(**changes: object) -> str:
    return json.dumps({**asdict(line("done", 1, 2)), **changes})


def texts(root: Path) -> list[dict[str, object]]:
    return [json.loads(text) for text in (root / "journal.jsonl").read_text().splitlines()]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    put(root, image_file(tmp_path / "images"))
    return root


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return image_file(tmp_path / "images")


def test_a_line_before_and_one_after_each_switch(root: Path) -> None:
    lines = [(body["state"], body["left"], body["entered"]) for body in texts(root)]
    assert lines == [("begin", 0, 1), ("done", 0, 1)]


def test_a_rollback_is_written_down_before_and_after(root: Path, image: Path) -> None:
    put(root, image, "2.0")
    act(root, changes.rollback)
    lines = [(body["what"], body["state"], body["entered"]) for body in texts(root)[4:]]
    assert lines == [("rollback to 1", "begin", 1), ("rollback to 1", "done", 1)]


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_cut_line_stays_a_line_of_its_own(root: Path, image: Path, cut: int) -> None:
    path = root / "journal.jsonl"
    os.truncate(path, path.stat().st_size - cut)
    put(root, image, "2.0")
    with Folder.at(root) as top:
        known = journal.read(top)
    states = [one.state for one in known.lines]
    if cut == 1:  # The line is complete, but for its end.
        assert (states, known.unreadable) == (["begin", "done", "begin", "done"], 0)
    else:
        assert (states, known.unreadable) == (["begin", "done", "begin", "done"], 1)
    assert known.live == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0" * 50,
        "[" * 100_000,
        "null",
        line_text(time="x"),
        line_text(time="2027-01-15T08:00:00"),
        line_text(state="live"),
        line_text(left="1"),
        line_text(more=1),
    ],
)
def test_lines_that_are_none(root: Path, text: str) -> None:
    with (root / "journal.jsonl").open("a") as file:
        file.write(text + "\n")
    with Folder.at(root) as top:
        known = journal.read(top)
    assert (len(known.lines), known.unreadable, known.live) == (2, bool(text), 1)


def test_a_switch_that_nobody_wrote_down(root: Path, image: Path) -> None:
    put(root, image, "2.0")
    (root / "current").unlink()
    (root / "current").symlink_to("generations/1")
    clock = Clock(Clock().now + 60)
    act(root, lambda tree: None, by=hand(clock))
    last = texts(root)[-1]
    assert (last["state"], last["left"], last["entered"]) == ("noticed", 2, 1)
    assert changes.history(root)[-1].at == clock.now


def test_a_journal_that_is_gone(root: Path, image: Path) -> None:
    (root / "journal.jsonl").unlink()
    assert put(root, image, "2.0") == 2
    states = [(body["state"], body["left"], body["entered"]) for body in texts(root)]
    assert states == [("noticed", 0, 1), ("begin", 1, 2), ("done", 1, 2)]


@pytest.mark.parametrize(
    ("lines", "live", "wanted"),
    [
        ([], None, []),
        ([], 3, [("noticed", 0, 3)]),
        ([line("begin", 0, 1)], None, [("undone", 0, 1)]),
        ([line("begin", 0, 1)], 1, [("done", 0, 1)]),
        ([line("done", 0, 1), line("begin", 1, 2)], 1, [("undone", 1, 2)]),
        ([line("done", 0, 1), line("begin", 1, 2)], 2, [("done", 1, 2)]),
        ([line("done", 0, 1), line("begin", 1, 2)], 7, [("undone", 1, 2), ("noticed", 1, 7)]),
        ([line("done", 0, 1), line("begin", 1, 2), line("undone", 1, 2)], 1, []),
        # two at once, where there are no locks
        (
            [line("begin", 0, 1), line("begin", 0, 2)],
            2,
            [("undone", 0, 1), ("done", 0, 2)],
        ),
    ],
)
def test_lines_that_a_killed_run_did_not_write(
    lines: list[JournalLine], live: int | None, wanted: list[object]
) -> None:
    missing = journal.settled(Journal(lines=tuple(lines)), live, NOW, "bob@login2")
    assert [(one.state, one.left, one.entered) for one in missing] == wanted
    after = Journal(lines=(*lines, *missing))
    assert journal.settled(after, live, NOW, "bob@login2") == []
    assert after.live == live


def test_when_something_was_left() -> None:
    early, late, later = (f"2027-01-{day}T00:00:00Z" for day in ("01", "05", "09"))
    known = Journal(
        lines=(
            line("done", 0, 1, early),
            line("begin", 1, 2, early),
            line("done", 1, 2, late),
            # back, and forth again: 2 is live, so it was not left
            line("done", 2, 1, late),
            line("done", 1, 2, later),
            line("begin", 2, 3, later),
            line("undone", 2, 3, later),
        )
    )
    at = line("done", 0, 1, later).at
    assert journal.left_at(known) == {1: at, 3: at}


def test_a_lost_line_makes_nothing_older() -> None:
    early, late = "2027-01-01T00:00:00Z", "2027-01-09T00:00:00Z"
    # Lost is the line by which 1 was left for 3.
    known = Journal(
        lines=(
            line("done", 0, 1, early),
            line("done", 1, 2, early),
            line("done", 2, 1, late),
            line("done", 3, 4, late),
        )
    )
    assert journal.left_at(known).keys() == {2, 3}


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def second_name(path: Path) -> None:
    path.with_name("elsewhere").hardlink_to(path)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("plant", [link, second_name, fifo])
def test_what_is_no_journal(root: Path, plant: Callable[[Path], None]) -> None:
    plant(root / "journal.jsonl")
    with Folder.at(root) as top, pytest.raises((PublishError, OSError)):
        journal.append(top, ownership.of_root(root, None), line("done", 0, 1))


def test_a_full_disk_after_the_switch_is_a_note(root: Path, image: Path) -> None:
    real = journal.append

    def full(top: Folder, own: ownership.Ownership, one: JournalLine) -> None:
        if one.state == "done":
            raise OSError(28, "No space left on device")
        real(top, own, one)

    notes: list[str] = []
    by = replace(hand(), note=notes.append)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "append", full)
        assert put(root, image, "2.0", by=by) == 2
    assert "generation 2 is live, but the journal could not be written" in notes[0]
    put(root, image, "3.0")
    states = [(body["state"], body["entered"]) for body in texts(root)][2:]
    assert states == [("begin", 2), ("done", 2), ("begin", 3), ("done", 3)]
