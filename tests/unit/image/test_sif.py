"""The head of a SIF file, made by hand."""

import os
import struct
from pathlib import Path

import pytest

from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import sif
from tests import sifs
from tests.sifs import LAUNCH, write_sif


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


def test_parts(image: Path) -> None:
    bill, tree = sifs.BILL, sifs.TREE
    write_sif(image, (bill, tree, (0x7777, "", b"?", b"")))
    found = sif.parts(image)
    assert [(part.kind, part.name, part.size) for part in found] == [
        ("sbom", "sbom.cdx.json", 2),
        ("partition", "tree.sqfs", 4),
        ("unknown (0x7777)", "", 1),
    ]
    assert (sif.tree(image).offset, sif.tree(image).number) == (32768 + 2, 2)
    assert sif.read(image, found[0]) == b"{}"
    assert sif.head(image) == image.read_bytes()[:32768]


def test_what_has_no_tree(image: Path) -> None:
    encrypted = (0x4004, "tree", b"x", b"\5\0\0\0\2\0\0\0")
    data = (0x4004, "tree", b"x", b"\1\0\0\0\3\0\0\0")
    for parts in ((sifs.BILL,), (encrypted,), (data,)):
        with pytest.raises(ChecksFailedError, match="contains no readable file tree"):
            sif.tree(write_sif(image, parts))


def test_one_that_is_cut(image: Path) -> None:
    whole = write_sif(image).read_bytes()
    for end in (50, 60, 127, 4096, 5000, 32768, len(whole) - 1):
        image.write_bytes(whole[:end])
        with pytest.raises(ChecksFailedError, match="is truncated or damaged") as caught:
            sif.parts(image)
        assert caught.value.next_step == "copy or build the image again"


@pytest.mark.parametrize("counts", [(9, 8), (-1, 8), (0, 10**9), (0, -5)])
def test_counts_that_can_not_be(image: Path, counts: tuple[int, int]) -> None:
    whole = bytearray(write_sif(image).read_bytes())
    whole[80:96] = struct.pack("<2q", *counts)
    image.write_bytes(whole)
    with pytest.raises(ChecksFailedError, match="is truncated or damaged"):
        sif.parts(image)


def test_the_same_content_is_the_same_image(image: Path, tmp_path: Path) -> None:
    other = write_sif(tmp_path / "other.sif")
    spoilt = bytearray(write_sif(image).read_bytes())
    spoilt[0:32] = bytes(32)
    spoilt[48:80] = bytes(reversed(range(32)))  # id and times
    image.write_bytes(spoilt)
    before = sif.parts(image)
    for path in (image, other):
        sif.settle(path, b"0123456789abcdef...", 7)
    assert image.read_bytes() == other.read_bytes()
    assert image.read_bytes()[:80] == LAUNCH + b"SIF_MAGIC\x0001\x0002\0" + b"0123456789abcdef" + (
        struct.pack("<2q", 7, 7)
    )
    assert struct.pack("<2q", 11, 12) not in image.read_bytes()
    assert sif.parts(image) == before


def test_times_stay_without_a_moment(image: Path) -> None:
    whole = write_sif(image).read_bytes()
    sif.settle(image, whole[48:64], None)
    assert image.read_bytes() == whole


# The places in a SIF's head and in its descriptors that say where something is, or how much.
NUMBERS = [*range(80, 128, 8), *range(4096 + 17, 4096 + 41, 8)]


@pytest.mark.parametrize("at", NUMBERS)
@pytest.mark.parametrize("value", [2**63 - 1, 2**62, -1, -(2**63), 2**40])
def test_numbers_that_lead_out_of_the_file(image: Path, at: int, value: int) -> None:
    """Whatever a number is: the parts, or a clear error."""
    whole = bytearray(write_sif(image).read_bytes())
    whole[at : at + 8] = struct.pack("<q", value)
    image.write_bytes(whole)
    try:
        found = sif.parts(image)
    except ChecksFailedError as error:
        assert "is truncated or damaged" in error.what  # noqa: PT017 - either of the two is right
    else:
        size = image.stat().st_size
        assert all(0 <= part.offset <= part.offset + part.size <= size for part in found)
    with image.open("rb") as file:
        try:
            assert sif.tree(image, file).kind == "partition"
        except ChecksFailedError as error:
            assert error.exit_code == 1  # noqa: PT017


def test_a_part_that_is_too_large_to_be_read(image: Path) -> None:
    write_sif(image)
    with image.open("r+b") as file:
        file.truncate(1 << 40)
        file.seek(4096 + 17 + 8)
        file.write(struct.pack("<2q", 1 << 39, 1 << 39))
    (part, *_) = sif.parts(image)
    assert part.size == 1 << 39
    with pytest.raises(ChecksFailedError, match="one of its parts is too large to read: 549756 MB"):
        sif.read(image, part)


@pytest.mark.timeout(60)
def test_pipes_and_devices(image: Path) -> None:
    os.mkfifo(image)
    for path in (image, Path("/dev/zero")):
        for look in (sif.arch, sif.parts, sif.tree, sif.head):
            with pytest.raises(ChecksFailedError, match="it is not a regular file"):
                look(path)
