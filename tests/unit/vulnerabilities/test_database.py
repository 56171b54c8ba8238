"""Databases on disk: folders and zips, what is no record, and archives that lie."""

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from dlcontainer.vulnerabilities import database, records
from dlcontainer.vulnerabilities.database import UnreadableRecord
from tests.unit.vulnerabilities import cases

GOOD = cases.record("MADE-1", cases.affected("PyPI", "requests", {"introduced": "0"}))


def read(path: Path) -> tuple[list[str], list[UnreadableRecord]]:
    """Read a database: the ids, and what could not be read."""
    ids, wrong = [], []
    for record in database.read(path):
        if isinstance(record, UnreadableRecord):
            wrong.append(record)
        else:
            ids.append(record.id)
    return ids, wrong


def packed(path: Path, names: Sequence[str] = ("a.json",), method: int = 8) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name in names:
            archive.writestr(name, json.dumps({**GOOD, "id": name}))
    return path


def test_folders_of_files_and_zips(tmp_path: Path) -> None:
    cases.put(tmp_path / "PyPI", GOOD)
    (tmp_path / "Debian").mkdir()
    packed(tmp_path / "Debian/all.zip", ("x/b.json", "a.json", "README"))
    (tmp_path / "notes.txt").write_text("no record")
    assert read(tmp_path) == (["x/b.json", "a.json", "MADE-1", "MADE-cover"], [])
    assert read(tmp_path / "Debian/all.zip") == (["x/b.json", "a.json"], [])
    assert read(tmp_path / "PyPI/MADE-1.json") == (["MADE-1"], [])
    ids, (missing,) = read(tmp_path / "none")
    assert (ids, missing.why) == ([], "No such file or directory")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"schema_version": "2.0.0"}, "schema_version '2.0.0' is not known"),
        ({"schema_version": "banana"}, "schema_version 'banana' is not known"),
        ({"schema_version": 1}, "schema_version '1' is not known"),
        ({"id": None}, "id: "),
        ({"id": "a\nb"}, "id: "),
        ({"modified": "yesterday"}, "modified: "),
        ({"modified": "2026-11-20T00:00:00"}, "a time without its zone"),
        ({"affected": [{"package": {"name": "x"}}]}, "affected.0.package.ecosystem"),
        ({"affected": [{"versions": "1.0"}]}, "affected.0.versions"),
        ({"affected": [{"versions": [1.0]}]}, "affected.0.versions.0"),
        ({"affected": [{"ranges": [{"type": "ECOSYSTEM", "events": []}]}]}, "events"),
        ({"affected": [{"ranges": [{"type": "CALVER", "events": [{}]}]}]}, "ranges.0.type"),
        ({"affected": [cases.affected("PyPI", "x", {"fixed": "1"})]}, "no 'introduced'"),
        (
            {"affected": [cases.affected("PyPI", "x", {"introduced": "0", "fixed": "1"})]},
            "exactly one of",
        ),
        (
            {
                "affected": [
                    cases.affected(
                        "PyPI", "x", {"introduced": "0"}, {"fixed": "1"}, {"last_affected": "1"}
                    )
                ]
            },
            "both 'fixed' and 'last_affected'",
        ),
    ],
)
def test_what_is_no_record(change: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why.replace("(", r"\(")):
        records.parse(json.dumps({**GOOD, **change}).encode())


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"\xff\xfe", b"{" * 10_000, b'{"id": "a", "id": "b"}', b"[" * 100 + b"]" * 100],
)
def test_what_is_no_json_is_counted(data: bytes, tmp_path: Path) -> None:
    cases.put(tmp_path, GOOD)
    (tmp_path / "wrong.json").write_bytes(data)
    ids, (wrong,) = read(tmp_path)
    assert ids == ["MADE-1", "MADE-cover"]
    assert (wrong.id, bool(wrong.why)) == ("wrong", True)


def test_old_records_and_those_to_come() -> None:
    without = {key: value for key, value in GOOD.items() if key != "schema_version"}
    assert records.parse(json.dumps(without).encode()).id == "MADE-1"
    more = {**GOOD, "schema_version": "1.99.0", "a_new_key": {"x": 1}, "aliases": None}
    assert records.parse(json.dumps(more).encode()).names == {"MADE-1"}


def bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", b"0" * 50_000_000)


def encrypted(path: Path) -> None:
    data = bytearray(packed(path).read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1
    path.write_bytes(data)


def of_a_wrong_size(path: Path) -> None:
    """Let the directory say that a member has one byte."""
    data = bytearray(packed(path).read_bytes())
    struct.pack_into("<I", data, data.index(b"PK\x01\x02") + 24, 1)
    path.write_bytes(data)


def damaged(path: Path) -> None:
    data = bytearray(packed(path).read_bytes())
    data[60] ^= 0xFF
    path.write_bytes(data)


def otherwise_packed(path: Path) -> None:
    packed(path, method=zipfile.ZIP_LZMA)


def no_zip(path: Path) -> None:
    path.write_bytes(b"PK\x03\x04 and nothing else")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (bomb, "more than 16 MB"),
        (encrypted, "encrypted"),
        (of_a_wrong_size, ""),
        (damaged, ""),
        (otherwise_packed, "not packed by deflate"),
        (no_zip, "not a zip file"),
        (os.mkfifo, "not a regular file"),
    ],
)
def test_archives_that_lie(make: Callable[[Path], None], why: str, tmp_path: Path) -> None:
    path = tmp_path / "all.zip"
    make(path)
    cases.put(tmp_path, GOOD)
    ids, (wrong,) = read(tmp_path)
    assert ids == ["MADE-1", "MADE-cover"]
    assert wrong.name.startswith(str(path))
    assert why in wrong.why


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed(tmp_path / "all.zip", ("a.json", "b.json", "c.json"))
    monkeypatch.setattr(database, "_MOST_RECORDS", 2)
    ids, (wrong,) = read(tmp_path)
    assert (ids, wrong.why) == (
        ["a.json", "b.json"],
        "the rest is not read: more than 2 records or 40 GB",
    )


def test_a_link_to_a_folder_is_named(tmp_path: Path) -> None:
    cases.put(tmp_path / "elsewhere", GOOD)
    (tmp_path / "db").mkdir()
    (tmp_path / "db/PyPI").symlink_to(tmp_path / "elsewhere")
    ids, (wrong,) = read(tmp_path / "db")
    assert (ids, wrong.why) == ([], "a link to a folder is not followed")
    # The database itself may be a link: to the newest of several.
    (tmp_path / "db/PyPI").unlink()
    (tmp_path / "current").symlink_to(tmp_path / "elsewhere")
    assert read(tmp_path / "current")[0] == ["MADE-1", "MADE-cover"]


def test_a_stream(tmp_path: Path) -> None:
    """A member is read when its turn comes, and the first one before the last is looked at."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for number in range(3):
            archive.writestr(f"{number}.json", json.dumps({**GOOD, "id": str(number)}))
    cut = bytearray(data.getvalue())
    cut[cut.rindex(b"PK\x03\x04") + 2] = 0
    (tmp_path / "all.zip").write_bytes(cut)
    stream = database.read(tmp_path)
    first = next(stream)
    assert not isinstance(first, UnreadableRecord)
    assert [isinstance(record, UnreadableRecord) for record in stream] == [False, True]
