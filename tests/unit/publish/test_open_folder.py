"""Folders held open: what becomes a link between the look and the open is not followed."""

import os
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.publish.open_folder import Folder


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Give a private folder of the publisher's, with a file."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "file").write_text("secret")
    return secret


def swapped(place: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a link in an entry's place as soon as it was looked at."""
    look = os.stat

    def then_swap(path: Any, *args: Any, **more: Any) -> os.stat_result:
        info = look(path, *args, **more)
        if path == place.name and not place.is_symlink():
            place.rename(place.with_name("away"))
            place.symlink_to(target)
        return info

    monkeypatch.setattr(os, "stat", then_swap)


def test_a_folder(tmp_path: Path, secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inner").mkdir()
    with Folder.at(tmp_path) as top:
        swapped(tmp_path / "inner", secret, monkeypatch)
        with pytest.raises(OSError, match=r"Not a directory|symbolic link"):
            top.sub("inner")
    assert (tmp_path / "inner").is_symlink()


def test_a_file(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "file").symlink_to(secret / "file")
    with Folder.at(tmp_path) as top, pytest.raises(OSError, match="it is a symbolic link"):
        top.open("file")


def test_a_new_file(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "new").symlink_to(secret / "made")
    with Folder.at(tmp_path) as top, pytest.raises(FileExistsError):
        top.create("new")
    assert not (secret / "made").exists()
