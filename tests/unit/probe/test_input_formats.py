"""The formats of the input probe: round trips, TFRecord's sums, shards that are damaged."""

import ast
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

STANDARD = ("files", "tar", "raw", "npz", "tfrecord")
SAMPLES = [bytes([number]) * 5000 + bytes(range(200)) for number in range(7)]


@pytest.mark.parametrize("name", STANDARD)
def test_what_is_written_is_read(probe: Any, tmp_path: Path, name: str) -> None:
    chosen = probe("input_formats").FORMATS[name]
    chosen.write(str(tmp_path), 3, SAMPLES)
    opened = chosen(str(tmp_path), 3, len(SAMPLES))
    opened.verify = True
    assert list(opened.stream()) == SAMPLES
    assert [opened.read(at) for at in (6, 0, 3, 3)] == [SAMPLES[at] for at in (6, 0, 3, 3)]
    opened.close()
    opened.close()


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        # The check value of the catalogue of CRCs (reveng, CRC-32/ISCSI).
        (b"123456789", 0xE3069283),
        # RFC 3720, appendix B.4; there the bytes stand in the order of transmission.
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_crc_of_known_vectors(probe: Any, data: bytes, crc: int) -> None:
    assert probe("input_crc32c").of(data) == crc


def test_the_mask_is_that_of_tensorflow(probe: Any) -> None:
    # Undone by the rule of tensorflow/core/lib/hash/crc32c.h, `Unmask`.
    crc32c = probe("input_crc32c")
    for crc in (0, 1, 0xE3069283, 0xFFFFFFFF):
        rotated = (crc32c.masked(crc) - 0xA282EAD8) & 0xFFFFFFFF
        assert ((rotated >> 17) | (rotated << 15)) & 0xFFFFFFFF == crc
        assert crc32c.masked(crc) != crc


def test_a_record_is_framed_as_tensorflow_frames_it(probe: Any) -> None:
    record = probe("input_formats").framed(b"123456789")
    assert struct.unpack("<Q", record[:8]) == (9,)
    assert record[12:21] == b"123456789"
    crc = 0xE3069283
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    assert struct.unpack("<I", record[21:]) == (masked,)


@pytest.mark.parametrize(
    ("at", "says"),
    [(0, "the CRC-32C of record 0's length"), (5217 + 16, "the CRC-32C of record 1")],
)
def test_a_damaged_record_is_seen(probe: Any, tmp_path: Path, at: int, says: str) -> None:
    formats = probe("input_formats")
    formats.TFRecord.write(str(tmp_path), 0, SAMPLES)
    path = tmp_path / "shard-00000.tfrecord"
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    opened = formats.TFRecord(str(tmp_path), 0, len(SAMPLES))
    opened.verify = True
    with pytest.raises(formats.FormatError, match=says):
        list(opened.stream())


def test_a_file_that_is_cut_off(probe: Any, tmp_path: Path) -> None:
    formats = probe("input_formats")
    for name in ("raw", "tfrecord"):
        chosen = formats.FORMATS[name]
        chosen.write(str(tmp_path), 0, SAMPLES)
        path = tmp_path / f"shard-00000{chosen.end}"
        path.write_bytes(path.read_bytes()[:-100])
        opened = chosen(str(tmp_path), 0, len(SAMPLES))
        with pytest.raises(formats.FormatError, match="it ends within"):
            opened.read(len(SAMPLES) - 1)
        opened.close()


def test_npz_is_as_numpy_describes_it(probe: Any, tmp_path: Path) -> None:
    probe("input_formats").Npz.write(str(tmp_path), 0, SAMPLES)
    path = tmp_path / "shard-00000.npz"
    with zipfile.ZipFile(path) as archive:
        header = archive.read("000002.npy")[:128]
    # Format version 1.0 (numpy/lib/format.py): magic, length of the header; data at 64 bytes.
    assert header[:8] == b"\x93NUMPY\x01\x00"
    length = struct.unpack("<H", header[8:10])[0]
    assert (10 + length) % 64 == 0
    assert ast.literal_eval(header[10 : 10 + length].decode()) == {
        "descr": "|u1", "fortran_order": False, "shape": (5200,)
    }  # fmt: skip


def test_a_missing_library_is_named(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    libraries = probe("input_libraries")
    assert libraries.missing("tar") == ""
    assert libraries.missing("hdf5").startswith("hdf5: no module h5py here")
