"""The SHA-256 of files: the very bytes, wherever a descriptor was read to."""

import hashlib
import io
import os
from pathlib import Path

import pytest

from dlcontainer.system import digests, foreign_files, progress


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x"
    path.write_bytes(os.urandom(9_000_000))
    return path


def test_a_file_and_a_descriptor_have_the_same_sum(path: Path) -> None:
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digests.of_file(path) == sha256
    with foreign_files.opened(path) as file:
        file.seek(100)
        assert digests.of_open(file) == digests.of_open(file.fileno()) == sha256
        assert file.tell() == 100


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert digests.of_file(tmp_path / "empty") == hashlib.sha256().hexdigest()


def test_the_digest_is_of_what_was_written(path: Path) -> None:
    out = io.BytesIO()
    with foreign_files.opened(path) as file:
        assert digests.of_open(file, write=out.write) == hashlib.sha256(out.getvalue()).hexdigest()
    assert out.getvalue() == path.read_bytes()


def test_long_work_says_how_far_it_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_TELL_EACH_S", 0)
    said: list[str] = []
    with foreign_files.opened(path) as file:
        digests.of_open(file, tell=said.append)
    assert said[-1] == "read: 9 of 9 MB, 100%"
    assert "read: 4 of 9 MB, 47%" in said


@pytest.mark.timeout(60)
def test_only_a_regular_file_has_a_sum(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "missing"):
        with pytest.raises(OSError, match=r"."):
            digests.of_file(path)
