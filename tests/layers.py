"""Layers of images for tests: tars in memory, and an image of them in a registry of the tests'."""

import gzip
import io
import json
import tarfile
from collections.abc import Mapping, Sequence

from dlcontainer.config.field_types import OCI_ARCH, Arch
from dlcontainer.config.image_names import ImageReference
from tests import fakeregistry
from tests.fakeregistry import FakeRegistry, Reply

STATUS = "var/lib/dpkg/status"
OS_RELEASE = "usr/lib/os-release"
BOOKWORM = (
    b'PRETTY_NAME="Debian GNU/Linux 12"\nID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n'
)
BASH = b"""\
Package: bash
Essential: yes
Status: install ok installed
Priority: required
Architecture: amd64
Version: 5.2.15-2+b7
Pre-Depends: libc6 (>= 2.36), libtinfo6 (>= 6)
Description: GNU Bourne Again SHell
 Bash is an sh-compatible command language interpreter.
"""


def tar(files: Mapping[str, bytes | None]) -> bytes:
    """Pack files; one of None is a symbolic link."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            if content is None:
                entry.type, entry.linkname = tarfile.SYMTYPE, "elsewhere"
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def put(
    fake: FakeRegistry,
    layers: Sequence[bytes],
    *,
    arch: Arch = "x86_64",
    in_index: bool = False,
    sizes: Mapping[int, int] | None = None,
) -> ImageReference:
    """Put an image of packed layers, the lowest first; some may be announced with another size."""
    described = []
    config = json.dumps({"architecture": OCI_ARCH[arch], "os": "linux"}).encode()
    for number, body in enumerate([config, *layers]):
        digest = fakeregistry.sha256(body)
        fake.replies[f"/v2/{fakeregistry.NAME}/blobs/{digest}"] = Reply(body=body)
        size = (sizes or {}).get(number - 1, len(body))
        described.append({"digest": digest, "size": size})
    manifest = {
        "mediaType": fakeregistry.OCI_MANIFEST,
        "config": described[0],
        "layers": described[1:],
    }
    digest = fake.put("only", json.dumps(manifest).encode())
    if in_index:
        platform = {"os": "linux", "architecture": OCI_ARCH[arch]}
        entries = [{"digest": digest, "platform": platform}]
        body = json.dumps({"mediaType": fakeregistry.OCI_INDEX, "manifests": entries}).encode()
        digest = fake.put("index", body)
    return fake.reference(tag=None, digest=digest)


def packed(files: Mapping[str, bytes | None]) -> bytes:
    """Pack files as a layer that registries have."""
    return gzip.compress(tar(files), mtime=0)
