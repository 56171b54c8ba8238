"""A registry of the tests' own on loopback, and images put into it over its HTTP API."""

import contextlib
import gzip
import hashlib
import io
import json
import os
import socket
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import requests

from dlcontainer.system import machine
from tests.integration.world import missing
from tests.processes import poll

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_TIMEOUT_S = 60

_SETTINGS = """\
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage:
  filesystem: {{rootdirectory: {storage}}}
  delete: {{enabled: true}}
http: {{addr: "{address}"}}
"""


def sha256(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pushed:
    """One thing in a registry: its digest, its size in bytes, its media type."""

    digest: str
    size: int
    media_type: str

    def described(self, **more: object) -> dict[str, object]:
        own = {"mediaType": self.media_type, "digest": self.digest, "size": self.size}
        return {**own, **more}


@dataclass(frozen=True, kw_only=True, slots=True)
class Repository:
    """One repository of a registry, to be written to."""

    address: str
    name: str
    session: requests.Session = field(default_factory=requests.Session)

    @property
    def image(self) -> str:
        return f"docker://{self.address}/{self.name}"

    @property
    def _url(self) -> str:
        return f"http://{self.address}/v2/{self.name}"

    def blob(self, body: bytes, media_type: str) -> Pushed:
        digest = sha256(body)
        begun = self.session.post(f"{self._url}/blobs/uploads/", timeout=_TIMEOUT_S)
        begun.raise_for_status()
        self.session.put(
            begun.headers["Location"],
            params={"digest": digest},
            data=body,
            headers={"Content-Type": "application/octet-stream"},
            timeout=_TIMEOUT_S,
        ).raise_for_status()
        return Pushed(digest=digest, size=len(body), media_type=media_type)

    def _put(self, data: Mapping[str, object], tag: str | None) -> Pushed:
        body = json.dumps(data).encode()
        name, media_type = tag or sha256(body), str(data["mediaType"])
        self.session.put(
            f"{self._url}/manifests/{name}",
            data=body,
            headers={"Content-Type": media_type},
            timeout=_TIMEOUT_S,
        ).raise_for_status()
        return Pushed(digest=sha256(body), size=len(body), media_type=media_type)

    def push(
        self,
        layer: bytes,
        arch: str,
        *,
        tag: str | None = None,
        note: str = "",
        variables: Sequence[str] = ("PATH=/usr/local/bin:/usr/bin:/bin",),
    ) -> Pushed:
        """Push an image of one layer (a tar); another `note` makes another digest."""
        packed = gzip.compress(layer, compresslevel=1, mtime=0)
        config = {
            "architecture": arch,
            "os": "linux",
            "author": note,
            "config": {"Env": list(variables), "Cmd": ["/bin/sh"]},
            "rootfs": {"type": "layers", "diff_ids": [sha256(layer)]},
            # Podman goes on from no image without it.
            "history": [{"created": "2026-01-01T00:00:00Z", "created_by": "a test"}],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.blob(json.dumps(config).encode(), CONFIG).described(),
            "layers": [self.blob(packed, LAYER).described()],
        }
        return self._put(manifest, tag)

    def push_again(self, tag: str, note: str) -> Pushed:
        """Push the manifest of a tag with a note in it: an image of the same layers."""
        url = f"{self._url}/manifests/{tag}"
        answer = self.session.get(url, headers={"Accept": MANIFEST}, timeout=_TIMEOUT_S)
        return self._put({**answer.json(), "annotations": {"note": note}}, None)

    def push_index(self, images: Mapping[str, Pushed], *, tag: str | None = None) -> Pushed:
        """Push an index of images by architecture."""
        listed = [
            image.described(platform={"architecture": arch, "os": "linux"})
            for arch, image in images.items()
        ]
        return self._put({"schemaVersion": 2, "mediaType": INDEX, "manifests": listed}, tag)

    def delete(self, digest: str) -> None:
        url = f"{self._url}/manifests/{digest}"
        self.session.delete(url, timeout=_TIMEOUT_S).raise_for_status()


@contextlib.contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run a real registry with a folder as its storage; give HOST:PORT."""
    program = machine.find_program("docker-registry", os.environ)
    if program is None:
        missing("docker-registry")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    settings = folder / "config.yml"
    settings.write_text(_SETTINGS.format(storage=folder / "storage", address=address))
    with (
        (folder / "registry.log").open("wb") as log,
        subprocess.Popen([program, "serve", settings], stdout=log, stderr=log) as server,
    ):
        try:
            assert poll(lambda: _answers(port), 60), (folder / "registry.log").read_text()
            yield address
        finally:
            server.kill()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def layer_of(tree: Path) -> bytes:
    """Pack a folder as a layer: all files root's, in a fixed order."""
    packed = io.BytesIO()

    def owned(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in sorted(tree.iterdir()):
            tar.add(path, arcname=path.name, filter=owned)
    return packed.getvalue()
