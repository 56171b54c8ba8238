"""Who vouches for an image: a record of a stranger's, or one that was pulled, lifts nothing."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.adopt import trust
from dlcontainer.bench.measure import bench_image
from dlcontainer.errors import BenchDataError, PublishError
from dlcontainer.image import record
from dlcontainer.publish import offered, releases
from dlcontainer.system.guarded_files import MINE, Owners
from tests.publishing import image_of
from tests.skips import skip
from tests.values import site_of

STRANGER = 65534
SOURCE = "oras://registry.example/demo@sha256:" + "0" * 64


def pulled(folder: Path) -> Path:
    image = image_of(folder)
    path = record.beside(image)
    path.write_bytes(record.unverified(path.read_bytes(), SOURCE))
    return image


def strange(folder: Path) -> Path:
    if os.getuid() != 0:
        skip("a file of another user is needed", elsewhere="a run as root")
    image = image_of(folder)
    for path in (image, record.beside(image)):
        os.chown(path, STRANGER, -1)
    return image


def read(image: Path, known: Owners = MINE) -> record.Record:
    found = record.read(record.beside(image), known)
    assert found is not None
    return found


def test_ones_own_is_not_contained(tmp_path: Path) -> None:
    assert not read(image_of(tmp_path)).is_contained


def test_what_was_pulled_unverified_is_contained_until_trusted(tmp_path: Path) -> None:
    image = pulled(tmp_path)
    found = read(image)
    assert found.is_contained
    assert found.came == "was pulled unverified"
    file = trust.of_others(image, MINE)
    assert file is not None
    trust.write(image, file, "ada")
    assert not read(image).is_contained


def test_a_record_that_brings_its_own_trust_is_not_believed(tmp_path: Path) -> None:
    image = image_of(tmp_path)
    path = record.beside(image)
    body = json.loads(path.read_text())
    said = {"by": "ada", "sha256": body["image"]["sha256"], "at": "2026-01-01T00:00:00Z"}
    path.write_bytes(record.unverified(json.dumps({**body, "trust": said}).encode(), SOURCE))
    assert read(image).is_contained


def test_it_is_neither_published_nor_measured_without_an_engine(tmp_path: Path) -> None:
    image = pulled(tmp_path)
    with (
        offered.opened(image, MINE) as given,
        pytest.raises(PublishError, match="was pulled unverified, and nobody"),
    ):
        releases.described(given, site_of(name="lab").value)
    seen = bench_image.read(image, "x86_64")
    assert seen.is_contained
    with pytest.raises(BenchDataError, match="was pulled unverified"):
        bench_image.require_trust(seen, "lab")


def test_the_signed_record_is_the_one_beside_but_for_the_mark(tmp_path: Path) -> None:
    data = record.beside(image_of(tmp_path)).read_bytes()
    marked = record.unverified(data, SOURCE)
    assert record.is_same(marked, data)
    assert record.is_same(data, data)
    # The other way round, and with anything else changed, it is another record.
    assert not record.is_same(data, marked)
    body = json.loads(data)
    other = json.dumps({**body, "digest": "1" * 64}).encode()
    assert not record.is_same(marked, other)
    assert not record.is_same(data, other)
    for broken in (b"", b"[]", b"{", b"\xff"):
        assert not record.is_same(marked, broken)


@pytest.mark.parametrize("said", [None, "ada", 1])
def test_what_a_record_says_of_its_owner_means_nothing(tmp_path: Path, said: Any) -> None:
    image = strange(tmp_path)
    path = record.beside(image)
    body = {**json.loads(path.read_text())}
    if isinstance(said, str):
        body["stranger"] = said
    path.write_text(json.dumps(body))
    os.chown(path, STRANGER, -1)
    assert read(image).is_contained
    assert read(image).came.startswith("has a record that belongs to ")
    os.chown(path, os.getuid(), -1)
    assert not read(image).is_contained


def test_whose_records_count(tmp_path: Path) -> None:
    image = strange(tmp_path / "a")
    tree = tmp_path / "tree"
    tree.mkdir()
    name = Owners().stranger(STRANGER)
    assert name is not None
    assert read(image, Owners(tree=tree)).is_contained
    assert read(image, Owners(tree=tmp_path / "none")).is_contained
    assert not read(image, Owners(names=(name,))).is_contained
    os.chown(tree, STRANGER, -1)
    assert not read(image, Owners(tree=tree)).is_contained
    site = site_of(name="lab", modules={"root": str(tree)}).value
    assert not read(image, site.owners).is_contained
    assert bench_image.read(image, "x86_64").is_contained
    # A publisher may publish it; it is looked at contained.
    with offered.opened(image, MINE) as given:
        assert given.record.record.is_contained
        assert not given.record.record.needs_trust


def test_a_stranger_s_own_trust_is_none(tmp_path: Path) -> None:
    image = strange(tmp_path)
    path = record.beside(image)
    body = json.loads(path.read_text())
    said = {"by": "root", "sha256": body["image"]["sha256"], "at": "2026-01-01T00:00:00Z"}
    path.write_text(json.dumps({**body, "trust": said}))
    os.chown(path, STRANGER, -1)
    assert read(image).is_contained
    file = trust.of_others(image, MINE)
    assert file is not None
    trust.write(image, file, "ada")
    assert not read(image).is_contained
