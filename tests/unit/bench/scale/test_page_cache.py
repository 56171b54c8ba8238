"""What memory holds of files is asked and said, and mounts of images are told from others."""

import os
from pathlib import Path

import pytest

from dlcontainer.bench.scale import page_cache
from dlcontainer.bench.scale.matrix_records import ColdState
from dlcontainer.lab.filesystem import mount_watch
from dlcontainer.system import machine
from tests.skips import skip


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # A test must not empty this machine's caches.
    monkeypatch.setattr(page_cache, "can_drop_caches", lambda: False)
    folder = tmp_path / "a 'tree'"
    (folder / "deep").mkdir(parents=True)
    for name in ("one", "deep/two\n"):
        (folder / name).write_bytes(os.urandom(300_000))
    (folder / "empty").touch()
    (folder / "gone").symlink_to("nowhere")
    return folder


def test_what_was_written_is_in_memory_and_can_be_driven_out(tree: Path) -> None:
    if machine.mount_of(tree).kind == "tmpfs":
        skip("the tests' folder is memory", elsewhere="a folder on a disk")
    assert page_cache.in_memory(tree) == 1.0
    before = page_cache.emptied(tree)
    assert before.method == "fadvise on a fresh copy"
    assert before.resident == 0.0
    assert before.data
    # Names of a tree are still known: its cold is not proved.
    assert before.names is False
    assert not before.is_proved
    one = page_cache.emptied(tree / "one")
    assert (one.names, one.is_proved) == (None, True)
    (tree / "one").read_bytes()
    assert 0.4 < (page_cache.in_memory(tree) or 0) < 0.6
    assert page_cache.warmed(tree, "read").resident == pytest.approx(0.5, abs=0.1)


def test_what_can_not_be_told_is_not_said(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert page_cache.in_memory(tmp_path) is None
    assert page_cache.in_memory(tmp_path / "gone") is None
    unknown = ColdState(method="fadvise on a fresh copy", resident=None, data=None, names=None)
    assert not unknown.is_proved


@pytest.mark.parametrize(
    ("kind", "is_image"),
    [("squashfs", True), ("fuse.squashfuse_ll", True), ("fuse", True), ("fuse.slowfs", False),
     ("fuse.sshfs", False), ("ext4", False), ("tmpfs", False)],
)  # fmt: skip
def test_only_mounts_of_images_count(kind: str, is_image: bool) -> None:
    assert mount_watch.is_image(kind) is is_image


def test_mounts_are_read_with_their_place() -> None:
    text = (
        "36 35 7:0 / /srv/mount ro,nodev shared:1 - squashfs /dev/loop0 ro\n"
        "37 35 0:50 / /else rw - fuse.squashfuse_ll squashfuse_ll ro\n"
        "38 35 8:1 / / rw - ext4 /dev/sda1 rw\nodd\n"
    )
    assert mount_watch.images(text) == {"7:0": Path("/srv/mount"), "0:50": Path("/else")}


def test_a_server_that_waits_for_its_child_is_no_second_one() -> None:
    named = {10: "squashfuse_ll", 11: "squashfuse_ll", 20: "squashfuse_ll"}
    children = {1: [10, 20], 10: [11], 20: [21]}
    assert mount_watch.served_by(named, children) == {11: "squashfuse_ll", 20: "squashfuse_ll"}


def test_a_watch_of_nothing_counts_nothing(tmp_path: Path) -> None:
    with mount_watch.MountWatch(tmp_path) as seen:
        pass
    assert seen.seen() == {"image_mounts": 0, "fuse_processes": 0, "servers": [], "looks": 0}
