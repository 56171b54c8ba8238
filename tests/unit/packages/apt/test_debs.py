"""Packages read without dpkg, also damaged ones."""

from pathlib import Path

import pytest

from dlcontainer.errors import BuildError
from dlcontainer.packages.apt import debs
from tests import debs as made


def write(folder: Path, body: bytes) -> Path:
    path = folder / "tiny_1.0_all.deb"
    path.write_bytes(body)
    return path


@pytest.mark.parametrize("kind", ["xz", "gz"])
def test_fields_and_a_file(tmp_path: Path, kind: str) -> None:
    path = write(
        tmp_path, made.deb({"usr/share/odd": b"123", "usr/share/k.gpg": b"key"}, kind=kind)
    )
    assert debs.control(path) == made.CONTROL.rstrip("\n")
    assert debs.content(path, "usr/share/k.gpg") == b"key"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "no ar archive"),
        (b"!<arch>\nshort", "cut or damaged"),
        (made.deb({"a": b"b"})[:-20], "it is cut"),
        (made.deb({"a": b"b"}, suffix="zst"), "that this Python unpacks; it has "),
        (made.ar({"data.tar.xz": b"no xz"}), ""),
    ],
    ids=["empty", "no head", "cut", "zst", "damaged"],
)
def test_what_is_no_package(tmp_path: Path, body: bytes, why: str) -> None:
    with pytest.raises(BuildError, match="can't be read as a package") as caught:
        debs.content(write(tmp_path, body), "a")
    assert why in str(caught.value.why)


def test_a_file_that_is_not_in_it(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        debs.content(write(tmp_path, made.deb({"a": b"b"})), "usr/share/k.gpg")
    assert caught.value.why == "it has no usr/share/k.gpg"
