"""The search for bytes in a tree: in contents, names and links, across the ends of blocks."""

import io
import os
import tarfile
from pathlib import Path

from dlcontainer.image.contents import search
from dlcontainer.image.contents.folder_tree import FolderTree
from dlcontainer.image.contents.tar_tree import TarTree

NEEDLE = b"planted-secret"


def tree(folder: Path) -> Path:
    (folder / "etc").mkdir(parents=True)
    (folder / "etc/plain").write_bytes(b"nothing")
    (folder / "etc/holds").write_bytes(b"x" * ((1 << 20) - 5) + NEEDLE)
    (folder / "etc/large").write_bytes(b"y" * 3_000_000 + NEEDLE)
    (folder / "etc/named-planted-secret").write_bytes(b"1")
    (folder / "etc/link").symlink_to("planted-secret")
    (folder / "etc/outside").symlink_to(folder.parent / "outside")
    (folder.parent / "outside").write_bytes(NEEDLE)
    os.mkfifo(folder / "etc/fifo")
    return folder


EXPECTED = ["/etc/holds", "/etc/link", "/etc/named-planted-secret"]


def test_a_folder(tmp_path: Path) -> None:
    found = search.search(
        FolderTree(folder=tree(tmp_path / "t")), [b"other", NEEDLE], most=2_000_000
    )
    assert found == EXPECTED


def test_a_tar(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "t.tar", "w") as tar:
        tar.add(tree(tmp_path / "t"), ".")
    found = search.search(TarTree(path=tmp_path / "t.tar"), [NEEDLE], most=2_000_000)
    assert found == EXPECTED


def test_what_nobody_changed_since_is_not_read(tmp_path: Path) -> None:
    folder = tree(tmp_path / "t")
    after = (folder / "etc/holds").stat().st_ctime_ns + 1
    assert search.search(FolderTree(folder=folder), [NEEDLE], after, most=2_000_000) == []
    # Its own time may lie in the past: what counts is the inode's.
    (folder / "etc/new").write_bytes(NEEDLE)
    os.utime(folder / "etc/new", (1, 1))
    found = search.search(FolderTree(folder=folder), [NEEDLE], after, most=2_000_000)
    assert found == ["/etc/new"]


def test_no_needle_is_found_nowhere() -> None:
    assert not search.in_stream(io.BytesIO(b"abc"), [])
