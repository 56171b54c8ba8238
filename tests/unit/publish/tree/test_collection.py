"""Collection: time alone lets something go, and whatever is not known keeps it."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.publish import tree_lock
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import changes, collection, in_use
from dlcontainer.publish.tree.collection import CollectionResult, RetentionPolicy
from dlcontainer.publish.tree.in_use import Inode, OldestJob, OpenFiles
from dlcontainer.system.process import CommandNotFoundError
from tests.fakes import RecordingRunner, completed
from tests.trees import DAY, Clock, act, both, hand, image_file, put, seen

KEEP = RetentionPolicy(keep_s=30 * DAY)


@pytest.fixture
def clock() -> Clock:
    # Of releases the file system's own clock counts too.
    return Clock(time.time())


@pytest.fixture
def root(tmp_path: Path, clock: Clock) -> Path:
    """Make a tree that went from 1.0 to 2.0."""
    root, images = tmp_path / "root", tmp_path / "images"
    root.mkdir()
    put(root, image_file(images), by=hand(clock))
    put(root, image_file(images, b"another"), "2.0", by=hand(clock))
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0"), by=hand(clock))
    return root


def collect(root: Path, clock: Clock, policy: RetentionPolicy = KEEP) -> CollectionResult:
    found: list[CollectionResult] = []
    act(root, lambda tree: found.append(collection.collect(tree, policy)), by=hand(clock))
    return found[0]


def release(root: Path, version: str) -> Path:
    for path in (root / "releases").iterdir():
        if f"demo {version}" in (path / "module.lua").read_text():
            return path
    raise AssertionError(version)


def test_nothing_goes_before_its_time(root: Path, clock: Clock) -> None:
    clock.now += 30 * DAY - 60
    found = collect(root, clock)
    assert found.removed == ()
    assert [kept.path for kept in found.kept][:2] == ["generations/1", "generations/2"]
    assert "live too recently" in found.kept[0].why
    assert len(list((root / "releases").iterdir())) == 2


def test_after_its_time_it_goes(root: Path, clock: Clock) -> None:
    gone = release(root, "1.0").name
    clock.now += 31 * DAY
    dry = collect(root, clock, replace(KEEP, dry=True))
    assert len(list((root / "releases").iterdir())) == 2
    found = collect(root, clock)
    assert found == dry
    assert found.removed == ("generations/1", "generations/2", f"releases/{gone}")
    assert seen(root) == both("2.0")
    assert [path.name for path in (root / "generations").iterdir()] == ["3"]
    with pytest.raises(PublishError, match="there is no generation 1"):
        act(root, lambda tree: changes.rollback(tree, 1))
    assert put(root, image_file(root.parent / "images"), "4.0") == 4


def test_a_generation_counts_from_when_it_was_left_last(root: Path, clock: Clock) -> None:
    clock.now += 29 * DAY
    act(root, lambda tree: changes.rollback(tree, 1), by=hand(clock))
    clock.now += 2 * DAY
    assert collect(root, clock).removed == ("generations/2",)
    act(root, lambda tree: changes.rollback(tree, 3), by=hand(clock))
    clock.now += 29 * DAY
    assert collect(root, clock).removed == ()
    clock.now += 2 * DAY
    assert "generations/1" in collect(root, clock).removed


def test_less_than_the_longest_job_is_refused(root: Path, clock: Clock) -> None:
    with pytest.raises(PublishError, match="30 days are too few"):
        collect(root, clock, replace(KEEP, longest_job_s=31 * DAY))


def test_a_job_that_is_still_there(root: Path, clock: Clock) -> None:
    submitted = clock.now - 60
    clock.now += 100 * DAY
    found = collect(root, clock, replace(KEEP, queue=OldestJob(oldest=submitted)))
    assert found.removed == ()
    assert "a job in the queue" in found.kept[0].why
    assert collect(root, clock, replace(KEEP, queue=OldestJob(is_known=False))).removed == ()
    later = OldestJob(oldest=submitted + DAY)
    assert len(collect(root, clock, replace(KEEP, queue=later)).removed) == 3


@pytest.mark.parametrize("sign", ["inode", "digest"])
def test_what_a_process_has_open(root: Path, clock: Clock, sign: str) -> None:
    path = release(root, "1.0")
    info = (path / "image.sif").stat()
    inode = Inode(device=info.st_dev, number=info.st_ino)
    seen_open = (
        OpenFiles(inodes=frozenset({inode}))
        if sign == "inode"
        else OpenFiles(digests=frozenset({path.name}))
    )
    clock.now += 100 * DAY
    found = collect(root, clock, replace(KEEP, open_files=seen_open))
    assert found.removed == ("generations/1", "generations/2")
    assert path.exists()
    assert "open" in found.kept[0].why


def unmarked(root: Path) -> None:
    (root / "generations/1/.dlcontainer").unlink()


def unknown(root: Path) -> None:
    lines = (root / "journal.jsonl").read_text().splitlines(keepends=True)
    (root / "journal.jsonl").write_text("".join(lines[-2:]))


def unreadable(root: Path) -> None:
    (root / "generations/1/generation.json").write_text("{")
    unknown(root)


@pytest.mark.parametrize("change", [unmarked, unknown, unreadable])
def test_what_is_not_known_stays(root: Path, clock: Clock, change: Callable[[Path], None]) -> None:
    change(root)
    clock.now += 100 * DAY
    assert "generations/1" not in collect(root, clock).removed
    assert (root / "generations/1").exists()
    assert release(root, "1.0").exists()


def test_swapped_between_look_and_removal(
    root: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody puts a folder in the place of the one that was found to be ours."""
    mine, real = root / "generations/mine", Folder.has_file
    mine.mkdir()
    (mine / "work").touch()

    def has_file(folder: Folder, name: str) -> bool:
        there = real(folder, name)
        if mine.exists():
            (root / "generations/1").rename(root / "generations/gone")
            mine.rename(root / "generations/1")
        return there

    monkeypatch.setattr(Folder, "has_file", has_file)
    clock.now += 100 * DAY
    found = collect(root, clock)
    assert "generations/1" not in found.removed
    assert (
        "was replaced while dlcontainer examined it"
        in {kept.path: kept.why for kept in found.kept}["generations/1"]
    )
    assert (root / "generations/1/work").exists()
    assert (root / "generations/gone/generation.json").exists()


def test_other_folders_stay(root: Path, clock: Clock) -> None:
    (root / "releases/mine").mkdir()
    (root / "generations/mine").mkdir()
    (root / "releases" / ("0" * 64)).symlink_to(root.parent)
    clock.now += 100 * DAY
    kept = {kept.path for kept in collect(root, clock).kept}
    assert kept == {"releases/mine", f"releases/{'0' * 64}"}


def test_folders_of_before_the_takeover(tmp_path: Path) -> None:
    clock = Clock(time.time())
    root = tmp_path / "root"
    root.mkdir()
    put(root, image_file(tmp_path / "given"), by=hand(clock))
    left = root / "images/demo/1.0"
    left.mkdir(parents=True)
    for name in (tree_lock.MARK, "image.sif"):
        (left / name).touch()
    written = root / "journal.jsonl"
    assert "publish demo/1.0" in written.read_text()
    written.write_text(written.read_text().replace("publish demo/1.0", "take over 1 versions"))
    clock.now += 29 * DAY
    assert collect(root, clock).removed == ()
    info = (root / "images/demo/1.0/image.sif").stat()
    in_hand = OpenFiles(inodes=frozenset({Inode(device=info.st_dev, number=info.st_ino)}))
    clock.now += 2 * DAY
    assert collect(root, clock, replace(KEEP, open_files=in_hand)).removed == ()
    assert collect(root, clock).removed == ("images/demo/1.0",)
    assert seen(root) == both("1.0")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Make what the kernel would show of four processes."""
    proc = tmp_path / "proc"
    for name in ("10", "11", "12", "13", "self", "net"):
        (proc / name / "fd").mkdir(parents=True)
    return proc


def test_open_files(proc: Path, tmp_path: Path) -> None:
    image = tmp_path / "image.sif"
    image.touch()
    (proc / "10/fd/3").symlink_to(image)
    (proc / "11/cwd").symlink_to(f"/sw/releases/{'a' * 64}/bin")
    (proc / "12/mountinfo").write_text(f"1 2 0:1 / /mnt - squashfs /x/releases/{'b' * 64} ro\n")
    (proc / "13/maps").write_text("7f0-7f1 r--p 00000000 08:1f 4711    /deleted\n")
    found = in_use.seen(proc)
    info = image.stat()
    assert Inode(device=info.st_dev, number=info.st_ino) in found.inodes
    assert Inode(device=os.makedev(8, 31), number=4711) in found.inodes
    assert found.digests == {"a" * 64, "b" * 64}
    assert found.unread == 0


def test_processes_that_may_not_be_asked(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.iterdir

    def refusing(path: Path) -> object:
        if path.parent.name == "11":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "iterdir", refusing)
    assert in_use.seen(proc).unread == 1


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ("", OldestJob()),
        ("2027-01-15T08:00:00+00:00\n2027-01-14T08:00:00+00:00\n", OldestJob(oldest=1799913600.0)),
        ("N/A\n", OldestJob(is_known=False)),
        ("SUBMIT_TIME\n", OldestJob(is_known=False)),
    ],
)
def test_the_scheduler(told: str, wanted: OldestJob) -> None:
    runner = RecordingRunner(answers=[completed(stdout=told)])
    assert in_use.queue(["squeue", "-h", "-a", "-o", "%V"], runner) == wanted
    assert runner.argvs == [("squeue", "-h", "-a", "-o", "%V")]


@pytest.mark.parametrize("answer", [completed(code=1), CommandNotFoundError("squeue", "gone")])
def test_a_scheduler_that_does_not_answer(answer: object) -> None:
    runner = RecordingRunner(answers=[answer])  # type: ignore[list-item]
    assert in_use.queue(["squeue"], runner) == OldestJob(is_known=False)
