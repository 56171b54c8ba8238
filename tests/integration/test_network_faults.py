"""Mirrors and registries at fault in mid-build: refused, explained, nothing half left behind."""

import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.config.field_types import OCI_ARCH, Arch
from dlcontainer.system.machine import read_host
from tests import fakeregistry
from tests.fakeregistry import NAME, FakeRegistry, Reply
from tests.integration.world import World, write_bare

ARCH: Arch = read_host({}).arch  # type: ignore[assignment]
DEB = b"!<arch>\nno package at all\n" * 400


@pytest.fixture
def server() -> Iterator[FakeRegistry]:
    with fakeregistry.serving() as serving:
        yield serving


def asks(server: FakeRegistry, reply: Reply) -> str:
    """Serve an index that lists one package, and its file as told; give a step that installs it."""
    listed = (
        "Package: dlcgone\nVersion: 1.0\nArchitecture: all\nMaintainer: none <none@e.org>\n"
        f"Filename: ./dlcgone_1.0_all.deb\nSize: {len(DEB)}\n"
        f"SHA256: {hashlib.sha256(DEB).hexdigest()}\nDescription: for tests\n"
    )
    for path, body in (("Packages", Reply(body=listed.encode())), ("dlcgone_1.0_all.deb", reply)):
        server.replies[f"/{path}"] = server.replies[f"/./{path}"] = body
    # The way out is the build's own otherwise; one more mirror would have to be signed.
    options = (
        "-o Dir::Etc::SourceList=/tmp/own.list -o Dir::Etc::SourceParts=/dev/null "
        "-o Acquire::http::Proxy::127.0.0.1=DIRECT -o Acquire::Retries=0"
    )
    return (
        f"echo 'deb [trusted=yes] http://{server.address}/ ./' > /tmp/own.list\n"
        f"apt-get {options} update\napt-get {options} install --yes dlcgone"
    )


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply(status=404), "the mirror's index lists a package that the mirror does not have"),
        pytest.param(Reply(status=500), "a server failed (HTTP 5xx)", marks=pytest.mark.long),
        (
            Reply(body=DEB[:-8] + b"changed!"),
            "a downloaded file does not have the expected checksum",
        ),
        pytest.param(
            Reply(body=DEB, cut=4000), "a download was incomplete", marks=pytest.mark.long
        ),
    ],
    ids=["out of date", "500", "checksum", "cut"],
)
def test_a_mirror_at_fault(
    alone: World, server: FakeRegistry, tmp_path: Path, reply: Reply, says: str
) -> None:
    output = tmp_path / "out"
    recipe = write_bare(tmp_path / "recipe", asks(server, reply))
    said = alone.run("build", recipe, "--site", "local", "-o", output, code=5).stderr
    assert f"failed in step 'work': {says}" in said, said
    assert "dlcgone" in said
    assert [path.name for path in output.iterdir()] == ["bare-1.0-local.failed.log"]
    assert list(Path(alone.environ["TMPDIR"]).iterdir()) == []


def pushed(server: FakeRegistry, reply: Reply, layer: bytes) -> tuple[str, ...]:
    """Have an image of one layer, which is served as told; give the options of a base."""
    body = {"architecture": OCI_ARCH[ARCH], "os": "linux", "config": {}}
    rootfs = {"type": "layers", "diff_ids": [fakeregistry.sha256(gzip.decompress(layer))]}
    config = json.dumps({**body, "rootfs": rootfs}).encode()
    kinds = {"config": "config.v1+json", "layer": "layer.v1.tar+gzip"}
    parts = {
        name: {
            "mediaType": f"application/vnd.oci.image.{kinds[name]}",
            "digest": fakeregistry.sha256(data),
            "size": len(data),
        }
        for name, data in (("config", config), ("layer", layer))
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": fakeregistry.OCI_MANIFEST,
        "config": parts["config"],
        "layers": [parts["layer"]],
    }
    server.replies["/v2/"] = Reply(body=b"{}")
    server.replies[f"/v2/{NAME}/blobs/{parts['config']['digest']}"] = Reply(body=config)
    server.replies[f"/v2/{NAME}/blobs/{parts['layer']['digest']}"] = reply
    kind = {"Content-Type": fakeregistry.OCI_MANIFEST}
    digest = server.put("1", json.dumps(manifest).encode(), **kind)
    image = f"docker://{server.address}/{NAME}"
    return ("--set", f"base.image={image}", "--set", f"base.digest={digest}")


# A tree without a single program, and some bytes so that there is something to cut.
LAYER = gzip.compress(b"\0" * 10240 + bytes(range(256)) * 40, mtime=0)


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply(status=500), "'unpack': a server failed (HTTP 5xx)"),
        (Reply(body=LAYER, cut=len(LAYER) // 2), "'unpack': a download was incomplete"),
        (
            Reply(body=LAYER[:-8] + b"changed!"),
            "'unpack': a downloaded file does not have the expected checksum",
        ),
        # Slow is not at fault: what fails is the first step, in a tree without a program.
        (Reply(body=LAYER, silence_s=8.0), "'note'"),
    ],
    ids=["500", "cut in mid-blob", "checksum", "slow"],
)
def test_a_registry_at_fault_in_mid_blob(
    alone: World, server: FakeRegistry, tmp_path: Path, reply: Reply, says: str
) -> None:
    recipe, output = write_bare(tmp_path / "recipe"), tmp_path / "out"
    sets = pushed(server, reply, LAYER)
    user = alone.having(no_proxy="127.0.0.1")
    said = user.run("build", recipe, "--site", "local", "-o", output, *sets, code=5).stderr
    assert f"failed in step {says}" in said, said
    assert [path.name for path in output.iterdir()] == ["bare-1.0-local.failed.log"]
    assert list(Path(user.environ["TMPDIR"]).iterdir()) == []
