"""Single files of an image: layers over each other, whiteouts, and layers that do harm."""

import gzip
import tracemalloc
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from dlcontainer.errors import BuildError
from dlcontainer.registry import image_files
from dlcontainer.registry.connection import RegistryAccess
from dlcontainer.registry.image_files import ImageReader
from dlcontainer.registry.layer_files import Bounds
from tests import fakeregistry
from tests.fakeregistry import FakeRegistry, Reply
from tests.fakes import Quiet
from tests.layers import STATUS, packed, put, tar

WANTED = (f"/{STATUS}", "/etc/os-release")
OLD, NEW = {STATUS: b"old", "etc/os-release": b"ID=a"}, {f"./{STATUS}": b"new"}


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with fakeregistry.serving() as fake:
        yield fake


def reader(tmp_path: Path, **bounds: int) -> ImageReader:
    way = RegistryAccess(silence_s=2, answer_s=5)
    return ImageReader(
        access=way, cache=tmp_path / "cache", progress=Quiet(), bounds=Bounds(**bounds)
    )


def read(fake: FakeRegistry, tmp_path: Path, *layers: bytes) -> Mapping[str, str]:
    return image_files.read(put(fake, layers), "x86_64", WANTED, reader(tmp_path))


def refused(fake: FakeRegistry, tmp_path: Path, body: bytes, /, **bounds: int) -> BuildError:
    with pytest.raises(BuildError) as caught:
        image_files.read(put(fake, [body]), "x86_64", WANTED, reader(tmp_path, **bounds))
    assert not list((tmp_path / "cache").rglob("*.json"))
    return caught.value


@pytest.mark.parametrize(
    ("above", "status"),
    [
        ({}, "old"),
        (NEW, "new"),
        ({"var/lib/dpkg/.wh.status": b""}, None),
        ({"var/.wh.lib": b""}, None),
        ({"var/lib/dpkg/.wh..wh..opq": b""}, None),
        ({"var/lib/dpkg/.wh..wh..opq": b"", **NEW}, "new"),
        ({**NEW, "var/lib/dpkg/.wh..wh..opq": b""}, "new"),
        ({"var/lib/dpkg/.wh.status-old": b"", "var/li": b""}, "old"),
        ({"var/lib": None}, None),
        ({STATUS: None}, None),
        ({**NEW, "var/lib": None}, None),
        ({"var/lib/x/../dpkg/status": b"new"}, "new"),
    ],
)
def test_layers_over_each_other(
    fake: FakeRegistry, tmp_path: Path, above: dict[str, bytes | None], status: str | None
) -> None:
    read_files = read(fake, tmp_path, packed(dict(OLD)), packed(above))
    assert read_files.get(f"/{STATUS}") == status
    assert read_files["/etc/os-release"] == "ID=a"


def test_a_layer_is_asked_for_once_and_lower_ones_only_if_needed(
    fake: FakeRegistry, tmp_path: Path
) -> None:
    low, high = packed({"bin/sh": b"x"}), packed(dict(OLD))
    for _ in range(2):
        assert read(fake, tmp_path, low, high)[f"/{STATUS}"] == "old"
    asked = [path for _, path, _ in fake.asked]
    assert sum(fakeregistry.sha256(high) in path for path in asked) == 1
    assert not any(fakeregistry.sha256(low) in path for path in asked)
    # A damaged note is no answer.
    (note,) = (tmp_path / "cache/layers").iterdir()
    note.write_text(note.read_text()[:-5])
    assert read(fake, tmp_path, low, high)[f"/{STATUS}"] == "old"


def test_plain_tars_several_gzip_members_and_an_index(fake: FakeRegistry, tmp_path: Path) -> None:
    body = tar(dict(OLD))
    assert read(fake, tmp_path, body)[f"/{STATUS}"] == "old"
    members = gzip.compress(body[:700]) + gzip.compress(body[700:])
    reference = put(fake, [members], in_index=True)
    found = image_files.read(reference, "x86_64", WANTED, reader(tmp_path))
    assert found[f"/{STATUS}"] == "old"


def test_zstd_is_refused(fake: FakeRegistry, tmp_path: Path) -> None:
    error = refused(fake, tmp_path, b"\x28\xb5\x2f\xfd" + b"x" * 100)
    assert "layer sha256:" in error.what
    assert "compressed with zstd, which can't be read here; gzip can" in str(error.why)


def test_a_layer_without_end(fake: FakeRegistry, tmp_path: Path) -> None:
    layer = packed({"zeros": b"\0" * 30_000_000, **OLD})
    assert len(layer) < 100_000
    tracemalloc.start()
    error = refused(fake, tmp_path, layer, layer=20_000_000)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "it unpacks to more than 20000000 bytes" in str(error.why)
    assert most < 10_000_000


def test_a_status_without_end_and_a_header_without_end(fake: FakeRegistry, tmp_path: Path) -> None:
    error = refused(fake, tmp_path, packed({STATUS: b"x" * 3000}), file=2000)
    assert f"/{STATUS} is larger than 2000 bytes" in str(error.why)
    # The name alone is larger than any that a file system takes.
    long_name = gzip.compress(tar({"x" * 3_000_000: b""}))
    assert "one of its headers is" in str(refused(fake, tmp_path, long_name).why)


def test_a_header_of_less_than_nothing(fake: FakeRegistry, tmp_path: Path) -> None:
    # Found by trying: a size of -1024 was read for ever.
    body = bytearray(tar({"x" * 300: b""}))
    body[124:136] = (-1024).to_bytes(12, signed=True)
    body[148:156] = b"%06o\0 " % (sum(body[:148]) + 8 * ord(" ") + sum(body[156:512]))
    why = str(refused(fake, tmp_path, bytes(body)).why)
    # Python 3.13's own reader refuses it first.
    assert "one of its headers is -1024 bytes" in why or "invalid offset" in why


@pytest.mark.parametrize(
    "layer",
    [b"no tar at all" * 100, gzip.compress(b"no tar at all" * 100, mtime=0)],
    ids=["plain", "gzip"],
)
def test_no_tar(fake: FakeRegistry, tmp_path: Path, layer: bytes) -> None:
    assert "it is not a readable tar archive" in str(refused(fake, tmp_path, layer).why)


def test_a_layer_that_is_another_than_announced(fake: FakeRegistry, tmp_path: Path) -> None:
    layer = packed(dict(OLD))
    reference = put(fake, [layer])
    path = f"/v2/{fakeregistry.NAME}/blobs/{fakeregistry.sha256(layer)}"
    other = packed({STATUS: b"evil", "etc/os-release": b"ID=a"})
    for body in (layer[:-20], other, layer + b"x"):
        fake.replies[path] = Reply(body=body)
        with pytest.raises(BuildError, match="does not match the requested digest"):
            image_files.read(reference, "x86_64", WANTED, reader(tmp_path))
    fake.replies[path] = Reply(body=layer, cut=30)
    with pytest.raises(BuildError, match="registry"):
        image_files.read(reference, "x86_64", WANTED, reader(tmp_path))
    assert not (tmp_path / "cache/layers").exists()
    del fake.replies[path]
    with pytest.raises(BuildError, match="has only a part of the image"):
        image_files.read(reference, "x86_64", WANTED, reader(tmp_path))


def test_layers_of_more_than_anybody_has(fake: FakeRegistry, tmp_path: Path) -> None:
    reference = put(fake, [packed(dict(OLD))], sizes={0: 10**12})
    with pytest.raises(BuildError, match="is refused") as caught:
        image_files.read(reference, "x86_64", WANTED, reader(tmp_path))
    assert "its layers are 1000 GB" in str(caught.value.why)
