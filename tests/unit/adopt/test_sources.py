"""Where an image comes from: registries and archives that lie, names, tags without digest."""

import json
from pathlib import Path

import pytest

from dlcontainer.adopt import given
from dlcontainer.config.image_names import ImageReference
from dlcontainer.errors import BuildError, ChecksFailedError, MisfitError, UsageError
from dlcontainer.registry import archive, pull
from dlcontainer.registry.connection import RegistryAccess
from tests import fakeregistry, foreign
from tests.fakeregistry import FakeRegistry, Reply

GB = 10**9
LAYER = b"a layer" * 100


def put(fake: FakeRegistry, *, size: int = len(LAYER), body: bytes = LAYER) -> ImageReference:
    """Put an image of one layer; the registry gives `body` for it."""
    config = json.dumps({"architecture": "amd64", "os": "linux"}).encode()
    blobs = f"/v2/{fakeregistry.NAME}/blobs"
    fake.replies[f"{blobs}/{foreign.sha256(config)}"] = Reply(body=config)
    fake.replies[f"{blobs}/{foreign.sha256(LAYER)}"] = Reply(body=body)
    manifest = {
        "mediaType": foreign.MANIFEST,
        "config": foreign.described(config, foreign.CONFIG),
        "layers": [{"digest": foreign.sha256(LAYER), "size": size}],
    }
    return fake.reference(digest=fake.put("1", json.dumps(manifest).encode()))


def test_an_honest_registry_gives_a_layout(tmp_path: Path) -> None:
    with fakeregistry.serving() as fake:
        reference = put(fake)
        digest = pull.pull(reference, "x86_64", RegistryAccess(), tmp_path, GB)
    assert digest == reference.digest
    assert (tmp_path / "blobs/sha256" / foreign.sha256(LAYER)[7:]).read_bytes() == LAYER
    assert archive.manifest_of(tmp_path)["layers"][0]["size"] == len(LAYER)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"b layer" * 100, "received: sha256:"),
        (LAYER * 1000, f"more than {len(LAYER)} bytes"),
        (LAYER[:-7], f"{len(LAYER) - 7} bytes"),
    ],
)
def test_a_layer_that_is_another(tmp_path: Path, body: bytes, why: str) -> None:
    with fakeregistry.serving() as fake:
        reference = put(fake, body=body)
        with pytest.raises(BuildError) as caught:
            pull.pull(reference, "x86_64", RegistryAccess(), tmp_path, GB)
    assert why in str(caught.value.why)
    # What came beyond the announced size was not written.
    written = tmp_path / "blobs/sha256" / f"{foreign.sha256(LAYER)[7:]}.part"
    assert written.stat().st_size <= len(LAYER)


def test_a_manifest_that_is_another(tmp_path: Path) -> None:
    with fakeregistry.serving() as fake:
        reference = put(fake)
        path = f"/v2/{fakeregistry.NAME}/manifests/{reference.digest}"
        fake.replies[path] = Reply(body=fake.replies[path].body + b" ")
        with pytest.raises(BuildError, match="does not match the requested digest"):
            pull.pull(reference, "x86_64", RegistryAccess(), tmp_path, GB)
    assert list(tmp_path.iterdir()) == []


def test_layers_of_more_than_is_allowed_are_not_fetched(tmp_path: Path) -> None:
    with fakeregistry.serving() as fake:
        reference = put(fake, size=2 * GB)
        with pytest.raises(BuildError, match="is refused") as caught:
            pull.pull(reference, "x86_64", RegistryAccess(), tmp_path, GB)
        assert not [path for _, path, _ in fake.asked if path.endswith(foreign.sha256(LAYER))]
    assert "2.0 GB, the limit is 1.0" in str(caught.value.why)


@pytest.mark.parametrize(
    "layers", [[], [{"digest": "sha256:../../x", "size": 1}], [{"digest": "sha256:a"}], None, [7]]
)
def test_a_manifest_without_parts(layers: object) -> None:
    config = {"digest": foreign.sha256(b""), "size": 1}
    with pytest.raises(BuildError, match="is refused"):
        pull.parts({"config": config, "layers": layers}, "x")


def test_a_tag_is_refused_with_the_line_to_type() -> None:
    with fakeregistry.serving() as fake:
        digest = fake.put_image("amd64")
        source = f"docker://{fake.address}/{fakeregistry.NAME}:1"
        with pytest.raises(UsageError) as caught:
            given.read(source, "x86_64", RegistryAccess(), "local")
    assert caught.value.next_step == f"dlcontainer adopt {source}@{digest} --site local"


def test_a_tag_where_the_registry_does_not_answer() -> None:
    source = "docker://127.0.0.1:1/a:1"
    with pytest.raises(UsageError) as caught:
        given.read(source, "x86_64", RegistryAccess(), "local")
    assert caught.value.next_step == f"dlcontainer adopt {source}@sha256:DIGEST --site local"
    assert "can't look up its digest" in str(caught.value.why)


def test_names_of_modules() -> None:
    digest = f"sha256:{'ab' * 32}"
    reference = ImageReference(name="nvcr.io/nvidia/pytorch", tag="26.01-py3", digest=digest)
    known = given.AdoptionSource(kind="registry", reference=reference)
    assert given.name_of(known, digest) == ("pytorch", "26.01-py3")
    assert given.shown(known, digest) == f"docker://nvcr.io/nvidia/pytorch:26.01-py3@{digest}"
    file = given.AdoptionSource(kind="sif", path=Path("/home/ada/My Image $(x).sif"))
    assert given.name_of(file, digest) == ("my-image-x", "ab" * 6)
    assert "/home" not in given.shown(file, digest)


def unpack(path: Path, folder: Path, most: int = GB) -> str:
    return archive.unpack(path, "x86_64", folder, most)


def test_an_archive_becomes_a_layout(tmp_path: Path) -> None:
    digest = foreign.oci(tmp_path / "a.tar", foreign.links(usr="x"))
    assert unpack(tmp_path / "a.tar", tmp_path / "out") == digest
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "blobs",
        "index.json",
        "oci-layout",
    }


def test_names_out_of_an_archive_are_passed_over(tmp_path: Path) -> None:
    foreign.oci(tmp_path / "a.tar", foreign.links(usr="x"))
    evil = {"../../canary": b"x", "blobs/sha256/../../canary": b"x", "/canary": b"x"}
    foreign.spoiled(tmp_path / "a.tar", tmp_path / "b.tar", evil)
    unpack(tmp_path / "b.tar", tmp_path / "out" / "of")
    assert not list(tmp_path.rglob("canary"))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"index.json": b"{}"}, BuildError),
        ({"index.json": b"["}, ChecksFailedError),
        ({f"blobs/sha256/{'0' * 64}": b"x"}, BuildError),
        ({"index.json": b'{"manifests": [{"digest": "sha256:../x"}]}'}, BuildError),
    ],
)
def test_archives_that_are_damaged(
    tmp_path: Path, change: dict[str, bytes], error: type[Exception]
) -> None:
    foreign.oci(tmp_path / "a.tar", foreign.links(usr="x"))
    foreign.spoiled(tmp_path / "a.tar", tmp_path / "b.tar", change)
    with pytest.raises(error):
        unpack(tmp_path / "b.tar", tmp_path / "out")


def test_archives_of_another_kind(tmp_path: Path) -> None:
    foreign.write_tar(tmp_path / "docker.tar", {"manifest.json": b"[]"})
    with pytest.raises(ChecksFailedError, match="is not an OCI archive"):
        unpack(tmp_path / "docker.tar", tmp_path / "out")
    foreign.oci(tmp_path / "arm.tar", foreign.links(usr="x"), arch="arm64")
    with pytest.raises(MisfitError, match="contains no image for x86_64"):
        unpack(tmp_path / "arm.tar", tmp_path / "out 2")


def test_an_archive_of_more_than_is_allowed(tmp_path: Path) -> None:
    foreign.oci(tmp_path / "a.tar", foreign.links(usr="x"))
    with pytest.raises(BuildError, match="is refused"):
        unpack(tmp_path / "a.tar", tmp_path / "out", 100)
