"""Files in hostile folders: nothing is followed, owners and modes are those of what is open."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.system import guarded_files
from tests.hostile import KINDS, make_foreign, open_place, plant

pytestmark = pytest.mark.timeout(60)  # to open a FIFO could take for ever


@pytest.fixture
def place() -> Iterator[Path]:
    with open_place() as folder:
        yield folder


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text("mine")
    path.chmod(0o600)
    return path


@pytest.fixture(params=[0o000, 0o002, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_regular_file_is_read(kind: str, tmp_path: Path, victim: Path) -> None:
    planted = tmp_path / "planted"
    plant(kind, planted, victim)
    with pytest.raises(OSError), guarded_files.file(planted):  # noqa: PT011  each kind has its own
        pytest.fail("it was opened")
    with pytest.raises(OSError):  # noqa: PT011
        guarded_files.read_own(planted)


@pytest.mark.parametrize("kind", ["link", "dangling link", "FIFO"])
def test_only_a_folder_is_entered(kind: str, tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    plant(kind, planted, tmp_path)
    with pytest.raises(OSError), guarded_files.folder(planted):  # noqa: PT011
        pytest.fail("it was opened")


def test_a_file_of_another_user_is_not_read(victim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert guarded_files.read_own(victim) == "mine"
    make_foreign(victim, monkeypatch)
    with pytest.raises(PermissionError):
        guarded_files.read_own(victim)


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_may_write_is_not_read(victim: Path, mode: int) -> None:
    victim.chmod(mode)
    with pytest.raises(PermissionError, match="other users can write"):
        guarded_files.read_own(victim)


def test_a_note_has_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "note"
    path.write_bytes(b"x" * guarded_files.NOTE_BYTES)
    path.chmod(0o644)  # whatever the umask: many users' is 002
    assert len(guarded_files.read_own(path)) == guarded_files.NOTE_BYTES
    os.truncate(path, 1 << 40)  # sparse: it takes no room, and to read it would take all memory
    with pytest.raises(OSError, match="it has 1099512 MB; the limit is 1 MB"):
        guarded_files.read_own(path)


@pytest.mark.parametrize("kind", [*KINDS, "file"])
def test_what_is_there_is_never_written(kind: str, tmp_path: Path, victim: Path) -> None:
    planted = victim if kind == "file" else tmp_path / "planted"
    if kind != "file":
        plant(kind, planted, victim)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(FileExistsError), guarded_files.created(planted, mode=0o644):
        pytest.fail("it was opened")
    assert (victim.read_text(), victim.stat().st_mode & 0o777) == ("mine", 0o600)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.usefixtures("umask")
def test_a_mode_is_a_mode_whatever_the_umask(tmp_path: Path) -> None:
    for mode in (0o600, 0o644):
        with guarded_files.created(tmp_path / oct(mode), mode=mode) as handle:
            guarded_files.append(handle, b"x")
        assert (tmp_path / oct(mode)).stat().st_mode & 0o777 == mode


def test_a_copy_has_the_sum_of_what_was_written(tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "source").write_bytes(data)
    with guarded_files.file(tmp_path / "source") as source:
        os.read(source, 100)  # wherever it was read to
        with guarded_files.created(tmp_path / "copy") as copy:
            assert guarded_files.copy(source, copy) == hashlib.sha256(data).hexdigest()
    assert (tmp_path / "copy").read_bytes() == data


def test_a_file_that_grows_does_not_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing = tmp_path / "growing"
    growing.write_bytes(b"x" * 10)
    read = os.pread

    def grow(handle: int, count: int, offset: int) -> bytes:
        with growing.open("ab") as file:
            file.write(b"more")
        return read(handle, count, offset)

    monkeypatch.setattr(os, "pread", grow)
    with guarded_files.file(growing) as source, guarded_files.created(tmp_path / "copy") as copy:
        guarded_files.copy(source, copy)
    assert (tmp_path / "copy").read_bytes() == b"x" * 10


@pytest.mark.parametrize(
    ("modes", "private"),
    [
        ((0o755, 0o755), True),
        ((0o755, 0o2755), True),
        ((0o775, 0o755), False),
        ((0o757, 0o755), False),
        ((0o1777, 0o755), True),  # as in /tmp: nobody can rename the one in it
        ((0o3770, 0o700), True),
        ((0o755, 0o775), False),
        ((0o700, 0o777), True),  # nobody gets as far as that
        ((0o760, 0o755), True),
    ],
)
def test_who_can_change_what_lies_at_a_path(
    place: Path, modes: tuple[int, int], *, private: bool
) -> None:
    path = place / "one" / "two"
    path.mkdir(parents=True)
    for folder, mode in zip((path.parent, path), modes, strict=True):
        folder.chmod(mode)
    assert guarded_files.is_private(path) is private


def test_a_path_with_another_user_or_a_link_in_it_is_not_private(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place / "one" / "two"
    path.mkdir(parents=True)
    for folder in (path, path.parent):
        folder.chmod(0o755)  # whatever the umask
    (place / "link").symlink_to(path.parent)
    assert not guarded_files.is_private(place / "link" / "two")
    assert not guarded_files.is_private(path / "missing")
    assert guarded_files.is_private(path)
    make_foreign(path.parent, monkeypatch)
    assert not guarded_files.is_private(path)
