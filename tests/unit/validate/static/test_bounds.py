"""Trees that are made to take time, or can't be read: bounded, and said."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from dlcontainer.errors import ChecksFailedError
from dlcontainer.image.contents import FolderTree, TreeEntry
from dlcontainer.validate.static import questions
from dlcontainer.validate.static.questions import batches
from tests.elves import Elf
from tests.unpacked import LIB, PACKAGES, PYTHON, findings, only


def test_a_library_that_names_thousands(tmp_path: Path) -> None:
    many = Elf(needed=[f"lib{number}.so" for number in range(1001)])
    one = only(findings(tmp_path, {PYTHON: many}))
    assert (one.rule, one.level) == ("damaged-file", "error")
    assert "it needs 1001 others" in one.what


def test_libraries_that_need_each_other_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"lib{number}.so" for number in range(30)]
    files = {f"{LIB}/{name}": Elf(soname=name, needed=names) for name in names}
    modules = {f"{PACKAGES}/m{number}.abi3.so": Elf(needed=names) for number in range(9)}
    assert findings(tmp_path / "loops", {**files, **modules}) == []
    monkeypatch.setattr(questions, "_MOST_NEEDS", 5000)
    with pytest.raises(ChecksFailedError, match="more than 5000 times"):
        findings(tmp_path / "bound", {**files, **modules})


def test_a_tree_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "_MOST_BYTES", 100)
    with pytest.raises(ChecksFailedError, match="too large to read"):
        findings(tmp_path)


def test_files_are_unpacked_a_part_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[list[str]] = []
    fetch = FolderTree.fetch

    def counted(tree: FolderTree, paths: Iterable[str], folder: Path) -> Mapping[str, Path]:
        fetched.append(list(paths))
        return fetch(tree, fetched[-1], folder)

    monkeypatch.setattr(FolderTree, "fetch", counted)
    monkeypatch.setattr(questions, "batches", lambda entries, _: batches(entries, 1))
    assert findings(tmp_path) == []
    libraries = [paths for paths in fetched if any(path.endswith(".so.6") for path in paths)]
    assert [len(paths) for paths in libraries] == [1]
    sizes = {"/a": 3, "/b": 3, "/c": 9, "/d": 1}
    entries = [TreeEntry(path=path, kind="-", size=size) for path, size in sizes.items()]
    assert list(batches(entries, 6)) == [["/a", "/b"], ["/c"], ["/d"]]


def test_debug_symbols_are_no_libraries(tmp_path: Path) -> None:
    torn = Elf(soname="libc.so.6").data()[:150]
    assert findings(tmp_path, {"/usr/lib/debug/libc.so.6.debug": torn}) == []


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """Bytes, line breaks and a terminal's commands: each finding is a line all the same."""
    name = "lib\udcff\n\x1b[31m.abi3.so"
    (tmp_path / "image").mkdir()
    found = findings(tmp_path, {f"{PACKAGES}/{name[3:]}": Elf(needed=(name, "libgone.so"))})
    assert {one.rule for one in found} == {"missing-library"}


def test_a_disk_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "scandir", fail)
    with pytest.raises(ChecksFailedError, match=r"can't be read: .*Input/output error"):
        findings(tmp_path)
