"""A bundle where others may write is copied as it is checked; any other is read where it lies."""

import os
from pathlib import Path

import pytest

from dlcontainer.errors import BuildError
from dlcontainer.packages import bundle_copy
from dlcontainer.packages.bundle import Bundle
from dlcontainer.system import guarded_files
from tests.locks import deb, lock
from tests.unit.packages.test_bundle import write_bundle


@pytest.fixture
def held(tmp_path: Path) -> Bundle:
    tmp_path.chmod(0o755)
    return write_bundle(tmp_path / "b", lock())


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below /tmp as pytest makes it all is closed to others: modes alone count here."""
    monkeypatch.setattr(guarded_files, "is_closed", lambda _: False)
    monkeypatch.setattr(guarded_files, "is_private", lambda path: not path.stat().st_mode & 0o022)


def test_one_of_our_own_is_read_where_it_lies(held: Bundle, tmp_path: Path) -> None:
    assert bundle_copy.secured(held, tmp_path / "copy") is held
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("place", ["", "debs", "debs/mawk_1.3_amd64.deb", "wheels"])
def test_one_that_others_may_change_is_copied(
    held: Bundle, tmp_path: Path, place: str, shown: None
) -> None:
    path = held.folder / place
    path.chmod(path.stat().st_mode | 0o022)
    copy = bundle_copy.secured(held, tmp_path / "copy")
    assert copy.folder == tmp_path / "copy"
    # What happens to the original from now on changes nothing.
    (held.folder / "debs" / deb().file).write_bytes(b"evil")
    assert (copy.folder / "debs" / deb().file).read_bytes() == b"deb"
    names = {path.relative_to(copy.folder) for path in copy.folder.rglob("*") if path.is_file()}
    assert {str(name) for name in names} == {
        "debs/mawk_1.3_amd64.deb",
        "debs/python3_1%3a3.11~rc1+b1_amd64.deb",
        "wheels/tool-2.0-py3-none-any.whl",
    }


@pytest.mark.parametrize("how", ["changed", "link", "fifo", "gone"])
def test_what_changed_since_it_was_checked_is_refused(
    held: Bundle, tmp_path: Path, how: str, shown: None
) -> None:
    path = held.folder / "debs" / deb().file
    (held.folder / "debs").chmod(0o777)
    path.unlink()
    if how == "changed":
        path.write_bytes(b"evil")
    elif how == "link":
        (tmp_path / "other").write_bytes(b"deb")
        path.symlink_to(tmp_path / "other")
    elif how == "fifo":
        os.mkfifo(path)
    with pytest.raises(BuildError, match="changed while dlcontainer read it"):
        bundle_copy.secured(held, tmp_path / "copy")


def test_another_users_file_in_a_folder_of_our_own_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "file").chmod(0o644)
    assert guarded_files.is_own(tmp_path / "file", closed=False)
    monkeypatch.setattr(guarded_files, "_trusted", lambda: (4242, 4243))
    assert not guarded_files.is_own(tmp_path / "file", closed=True)
