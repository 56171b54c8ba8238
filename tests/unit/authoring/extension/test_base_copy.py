"""The copy of an image: by digests, its record, and whether it is still the same."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from dlcontainer.authoring.extension import base_copy
from dlcontainer.authoring.extension.base_copy import BaseCopy
from dlcontainer.errors import ChecksFailedError, MisfitError
from dlcontainer.system.guarded_files import MINE
from tests import sifs


def take(path: Path, work: Path) -> BaseCopy:
    work.mkdir(exist_ok=True)
    return base_copy.take(path, work / "base.sif", MINE, lambda _: None)


def test_file_and_partition_have_a_digest_each(tmp_path: Path) -> None:
    path = sifs.write_sif(tmp_path / "x.sif")
    image = take(path, tmp_path / "work")
    assert image.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert image.tree_sha256 == hashlib.sha256(b"hsqs").hexdigest()
    assert image.copy.read_bytes() == path.read_bytes()
    assert image.record is None
    image.require_same()


@pytest.mark.parametrize("way", ["written", "replaced", "removed", "restored time"])
def test_a_change_is_seen(tmp_path: Path, way: str) -> None:
    path = sifs.write_sif(tmp_path / "x.sif")
    image = take(path, tmp_path / "work")
    if way == "removed":
        path.unlink()
    elif way == "replaced":
        other = tmp_path / "other"
        other.write_bytes(path.read_bytes())
        os.replace(other, path)  # noqa: PTH105
    else:
        times = path.stat()
        with path.open("r+b") as file:
            file.write(b"#")
        if way == "restored time":
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(ChecksFailedError, match="changed while it was extended"):
        image.require_same()


def test_a_change_during_the_copy(tmp_path: Path) -> None:
    path = sifs.write_sif(tmp_path / "x.sif", [sifs.TREE, (0x4007, "big", bytes(3 << 20), b"")])

    def write(_: str) -> None:
        with path.open("r+b") as file:
            file.write(b"#")

    (tmp_path / "work").mkdir()
    with pytest.raises(ChecksFailedError, match="changed while it was extended"):
        base_copy.take(path, tmp_path / "work/base.sif", MINE, write)


def test_what_is_no_sif(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(bytes(1000))
    with pytest.raises(MisfitError, match="is not a SIF"):
        take(tmp_path / "x.tar", tmp_path / "work")


def record(sha256: str) -> str:
    adopted = {
        "name": "x",
        "version": "1",
        "summary": "s",
        "prefix": "/usr",
        "exposes": [],
        "source": "x",
        "digest": f"sha256:{'0' * 64}",
        "python": "/usr/bin/python3",
    }
    return json.dumps(
        {
            "schema": "dlcontainer/record/1",
            "image": {"sha256": sha256, "size": 1},
            "digest": "0" * 64,
            "content": {"site": "local", "adopted": adopted},
        }
    )


@pytest.mark.parametrize(("image", "beside"), [("x.sif", "x.json"), ("image.sif", "record.json")])
def test_the_record_beside_it_and_in_a_published_tree(
    tmp_path: Path, image: str, beside: str
) -> None:
    path = sifs.write_sif(tmp_path / image)
    (tmp_path / beside).write_text(record(hashlib.sha256(path.read_bytes()).hexdigest()))
    written = take(path, tmp_path / "work").record
    assert written is not None
    assert written.record.content.is_foreign
    (tmp_path / beside).write_text(record("1" * 64))
    with pytest.raises(ChecksFailedError, match=f"does not match its record {beside}"):
        take(path, tmp_path / "again")
