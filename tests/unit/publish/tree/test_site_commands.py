"""The site's own commands: after each switch, and before an image is copied."""

import errno
import fcntl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Unpack

import pytest

from dlcontainer.publish.tree import changes, journal, layout
from dlcontainer.publish.tree.generation import Deprecation
from dlcontainer.publish.tree.layout import PublishedTree
from dlcontainer.publish.tree.site_commands import AFTER_S, SiteCommands
from dlcontainer.publish.tree.transaction import Publisher
from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    CompletedCommand,
    RunOptions,
)
from tests.fakes import RecordingRunner, completed
from tests.trees import act, both, hand, image_file, put, seen

AFTER = ("update cache", "-d", "/a b")
STRIPE = ("lfs", "setstripe", "-c", "8")


@dataclass
class Site:
    """A site with both commands, and the notes that its publisher reads."""

    root: Path
    runner: RecordingRunner = field(default_factory=RecordingRunner)
    notes: list[str] = field(default_factory=list)
    commands: SiteCommands = field(default_factory=lambda: SiteCommands(after_publish=AFTER))

    @property
    def hand(self) -> Publisher:
        return replace(hand(), runner=self.runner, note=self.notes.append, commands=self.commands)

    def act(self, change: Callable[[PublishedTree], object]) -> int:
        """Change the tree; count the site's commands that ran."""
        before = len(self.runner.calls)
        act(self.root, change, self.hand)
        return len(self.runner.calls) - before


@pytest.fixture
def site(tmp_path: Path) -> Site:
    root = tmp_path / "root"
    root.mkdir()
    return Site(root=root)


def test_each_switch_is_followed_once(site: Site, tmp_path: Path) -> None:
    images = tmp_path / "images"
    put(site.root, image_file(images), by=site.hand)
    assert [(call.argv, call.timeout) for call in site.runner.calls] == [(AFTER, AFTER_S)]
    put(site.root, image_file(images), by=site.hand)
    assert len(site.runner.calls) == 1  # nothing is new
    assert site.act(lambda tree: changes.set_default(tree, "demo/1.0")) == 1
    assert site.act(lambda tree: changes.set_default(tree, "demo/1.0")) == 0
    assert site.act(lambda tree: changes.deprecate(tree, "demo/1.0", Deprecation(message="x"))) == 1
    assert site.act(changes.rollback) == 1
    assert site.act(lambda tree: changes.rollback(tree, 2)) == 0
    assert site.act(lambda tree: changes.unpublish(tree, "demo/1.0")) == 1
    (note,) = site.notes
    assert note.startswith("with demo/1.0 go its marks: default;")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            CommandFailedError(completed("x", code=3, stderr="first\nno space\n")),
            "exit code 3: no space;",
        ),
        (CommandFailedError(completed("x", code=-9)), "exit code -9;"),
        (CommandTimeoutError(completed("x"), AFTER_S), "it did not finish in 300 seconds;"),
        (CommandNotFoundError("update cache", "there is none"), "'update cache': there is none;"),
        (OSError(errno.EACCES, "Permission denied"), "Permission denied;"),
    ],
)
def test_a_failure_is_a_warning(site: Site, tmp_path: Path, answer: Exception, why: str) -> None:
    site.runner.answers.append(answer)
    put(site.root, image_file(tmp_path / "images"), by=site.hand)
    assert seen(site.root) == both("1.0")
    (note,) = site.notes
    assert note.startswith(f"the switch is done, but modules.after_publish failed: {why}")
    assert note.endswith("run it again: 'update cache' -d '/a b'")


def test_it_runs_while_the_tree_is_held(site: Site, tmp_path: Path) -> None:
    """Of two publishers, the last switch is followed last."""
    held: list[bool] = []

    def run(argv: Sequence[str], **options: Unpack[RunOptions]) -> CompletedCommand:
        with (site.root / ".lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.append(seen(site.root) == both("1.0"))
        return completed("x")

    put(site.root, image_file(tmp_path / "images"), by=replace(site.hand, runner=run))
    assert held == [True]


def test_a_change_that_fails_is_followed_only_if_it_switched(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(site.root, image_file(tmp_path / "images"))
    with pytest.raises(ValueError, match="before"):
        site.act(lambda tree: (_ for _ in ()).throw(ValueError("before")))
    assert site.runner.calls == []

    def fail(tree: PublishedTree) -> None:
        changes.unpublish(tree, "demo/1.0")
        raise ValueError("after")

    with pytest.raises(ValueError, match="after"):
        site.act(fail)
    assert site.runner.argvs == [AFTER]


def test_the_run_after_a_killed_one_follows_its_switch(site: Site, tmp_path: Path) -> None:
    put(site.root, image_file(tmp_path / "images"))
    put(site.root, image_file(tmp_path / "images"), "2.0")
    lines = (site.root / "journal.jsonl").read_text().splitlines(keepends=True)
    assert '"done"' in lines[-1]
    # Killed after the switch, and before its line.
    (site.root / "journal.jsonl").write_text("".join(lines[:-1]))
    now = replace(site.hand, clock=lambda: hand().clock() + 3600)
    act(site.root, lambda tree: None, now)
    assert site.runner.argvs == [AFTER]
    act(site.root, lambda tree: None, now)
    assert site.runner.argvs == [AFTER]
    # Killed before the switch: users see nothing else than before.
    act(site.root, lambda tree: begun(tree, 3), now)
    later = replace(now, clock=lambda: hand().clock() + 7200)
    act(site.root, lambda tree: None, later)
    assert site.runner.argvs == [AFTER]


def begun(tree: PublishedTree, number: int) -> None:
    line = journal.JournalLine(
        time=journal.stamp(tree.clock()),
        who=tree.who,
        what="publish demo/3.0",
        state="begin",
        left=layout.current(tree.top) or 0,
        entered=number,
    )
    journal.append(tree.top, tree.ownership, line)


def test_the_image_s_folder_is_striped_before_the_copy(site: Site, tmp_path: Path) -> None:
    site.commands = SiteCommands(stripe=STRIPE)
    folders: list[tuple[str, int, list[Path]]] = []

    def run(argv: Sequence[str], **options: Unpack[RunOptions]) -> CompletedCommand:
        *words, folder = argv
        assert tuple(words) == STRIPE
        # What lies in it later gets the layout that the folder has now.
        folders.append((folder, Path(folder).stat().st_mode & 0o777, list(Path(folder).iterdir())))
        return completed("x")

    put(site.root, image_file(tmp_path / "images"), by=replace(site.hand, runner=run))
    ((folder, mode, there),) = folders
    assert Path(folder).is_absolute()
    assert Path(folder).parent.parent == site.root
    assert (mode, there) == (0o700, [])
    assert seen(site.root) == both("1.0")
    # New facts: a link, which has the layout of the file.
    put(site.root, image_file(tmp_path / "images"), facts="new", by=replace(site.hand, runner=run))
    assert len(folders) == 1


def test_a_file_system_without_stripes_is_a_warning(site: Site, tmp_path: Path) -> None:
    site.commands = SiteCommands(stripe=STRIPE)
    text = "error: setstripe: Inappropriate ioctl for device"
    site.runner.answers.append(CommandFailedError(completed("lfs", code=25, stderr=text)))
    put(site.root, image_file(tmp_path / "images"), by=site.hand)
    assert site.notes == [
        "the image gets the default striping, because modules.stripe failed: exit code 25: " + text
    ]
    assert seen(site.root) == both("1.0")
