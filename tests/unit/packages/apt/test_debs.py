"""Packages read without dpkg, also damaged ones."""

import contextlib
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
        (b"", "not an ar archive"),
        (b"!<arch>\nshort", "truncated or damaged"),
        (made.deb({"a": b"b"})[:-20], "it is truncated"),
        (made.deb({"a": b"b"}, suffix="zst"), "that this Python can unpack; it has "),
        (made.ar({"data.tar.xz": b"no xz"}), ""),
    ],
    ids=["empty", "no head", "cut", "zst", "damaged"],
)
def test_what_is_no_package(tmp_path: Path, body: bytes, why: str) -> None:
    with pytest.raises(BuildError, match="as a Debian package") as caught:
        debs.content(write(tmp_path, body), "a")
    assert why in str(caught.value.why)


def test_a_file_that_is_not_in_it(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        debs.content(write(tmp_path, made.deb({"a": b"b"})), "usr/share/k.gpg")
    assert caught.value.why == "it has no usr/share/k.gpg"


@pytest.mark.parametrize("size", [b"-1        ", b"9999999999", b"4_0       "])
def test_a_part_of_an_odd_size(tmp_path: Path, size: bytes) -> None:
    body = bytearray(made.deb({"a": b"b"}))
    body[8 + 48 : 8 + 58] = size
    with pytest.raises(BuildError, match="as a Debian package"):
        debs.content(write(tmp_path, bytes(body)), "a")


@pytest.mark.parametrize("kind", ["xz", "gz", "bz2"])
def test_every_byte_of_a_package(tmp_path: Path, kind: str) -> None:
    """One bit is other: refused, or a file that is not the one that was asked for."""
    body = made.deb({"a": b"b" * 3000}, kind=kind)
    for at in range(0, len(body), 3):
        changed = bytearray(body)
        changed[at] ^= 1 << at % 8
        with contextlib.suppress(BuildError):
            debs.content(write(tmp_path, bytes(changed)), "a")
