"""The head of a SIF file, made by hand."""

from pathlib import Path

import pytest

from dlcontainer.engines import sif
from dlcontainer.errors import ChecksFailedError

LAUNCH = b"#!/usr/bin/env run-singularity\n\0"


def head(arch: bytes = b"02\0", magic: bytes = b"SIF_MAGIC\0") -> bytes:
    assert len(LAUNCH) == 32
    return LAUNCH + magic + b"01\0" + arch + bytes(80)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return tmp_path / "it's an image.sif"


@pytest.mark.parametrize(
    ("code", "arch"),
    [
        (b"02\0", "x86_64"),
        (b"04\0", "aarch64"),
        (b"06\0", "ppc64le"),
        (b"11\0", "s390x"),
        (b"99\0", "unknown (99)"),
        (b"\xff\xff\0", "unknown (\ufffd\ufffd)"),
        (b"", "unknown ()"),
    ],
)
def test_architectures(image: Path, code: bytes, arch: str) -> None:
    image.write_bytes(head(code))
    assert sif.arch(image) == arch


@pytest.mark.parametrize(
    "data", [b"", b"SIF_MAGIC\0", b"\x7fELF" + bytes(60), head(magic=b"SIF_MAGIX\0"), head()[:40]]
)
def test_what_is_no_sif(image: Path, data: bytes) -> None:
    image.write_bytes(data)
    with pytest.raises(ChecksFailedError, match="is not a SIF image") as caught:
        sif.arch(image)
    assert (str(image) in caught.value.what, caught.value.exit_code) == (True, 1)


def test_what_cannot_be_read(image: Path) -> None:
    with pytest.raises(ChecksFailedError, match="No such file"):
        sif.arch(image)
    image.mkdir()
    with pytest.raises(ChecksFailedError, match="Is a directory"):
        sif.arch(image)
