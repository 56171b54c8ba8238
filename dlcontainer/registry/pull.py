"""A whole image of a registry, as an OCI layout in a folder: every part has its digest's bytes."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlcontainer.config.field_types import Arch
from dlcontainer.config.image_names import ImageReference, is_digest
from dlcontainer.errors import BuildError
from dlcontainer.registry import base_image
from dlcontainer.registry.client import Client
from dlcontainer.registry.connection import RegistryAccess
from dlcontainer.system import atomic_files, digests, foreign_files

MOST_LAYERS = 1000


def pull(
    reference: ImageReference, arch: Arch, access: RegistryAccess, folder: Path, most: int
) -> str:
    """Fetch a pinned image into a folder; return its manifest's digest.

    Blobs that are there and right stay. Raises BuildError for parts that are not as they were
    announced, and for an image whose layers have more than `most` bytes.
    """
    checked = base_image.check(reference, arch, access)
    named = replace(reference, digest=checked.platform_digest)
    with Client(reference=named, access=access) as client:
        body = manifest_of(client, checked.platform_digest)
        index = b"" if named.digest == checked.digest else manifest_of(client, checked.digest)
        manifest = foreign_files.loads(body)
        sizes = parts(manifest, named)
        if sum(sizes.values()) > most:
            size = sum(sizes.values()) / 1e9
            raise refused(named, f"its layers are {size:.1f} GB, the limit is {most / 1e9:.1f} GB")
        blobs = folder / "blobs" / "sha256"
        blobs.mkdir(parents=True, exist_ok=True)
        for digest, size in sizes.items():
            _save(client, digest, size, blobs)
    if index:
        # What was pinned is there too: from it all the rest can be checked.
        (blobs / checked.digest.removeprefix("sha256:")).write_bytes(index)
    write(folder, body, checked.platform_digest, manifest)
    return checked.platform_digest


def manifest_of(client: Client, digest: str) -> bytes:
    """Ask again for a manifest that was checked; raises BuildError where it is another by now."""
    answer = client.manifest(digest)
    body = answer.body if answer else b""
    if base_image.sha256(body) != digest:
        raise refused(client.reference, "the manifest changed between two requests")
    return body


def _save(client: Client, digest: str, size: int, blobs: Path) -> None:
    target = blobs / digest.removeprefix("sha256:")
    part = target.with_name(f"{target.name}.part")
    with contextlib.suppress(FileNotFoundError):
        if f"sha256:{digests.of_file(target)}" == digest:
            return
    part.unlink(missing_ok=True)
    client.save_blob(digest, size, part)
    atomic_files.move(part, target)


def layers(manifest: Mapping[str, Any], where: object) -> dict[str, int]:
    """Return digest and announced size of the layers, the topmost first; raises BuildError."""
    parts(manifest, where)
    return dict(reversed(list(_described(manifest["layers"]))))


def parts(manifest: Mapping[str, Any], where: object) -> dict[str, int]:
    """Return digest and announced size of configuration and layers; raises BuildError."""
    try:
        layers = manifest["layers"]
        if not isinstance(layers, list) or not 0 < len(layers) <= MOST_LAYERS:
            raise TypeError
        return dict(_described([manifest["config"], *layers]))
    except (KeyError, TypeError, AttributeError):
        raise refused(where, "its manifest lists no blobs by SHA-256 and size") from None


def _described(entries: list[Any]) -> Iterator[tuple[str, int]]:
    for entry in entries:
        digest, size = entry["digest"], entry["size"]
        # The digest becomes a part of an address and of a path.
        if not isinstance(digest, str) or not is_digest(digest):
            raise TypeError
        if type(size) is not int or size < 0:
            raise TypeError
        yield digest, size


def write(folder: Path, body: bytes, digest: str, manifest: Mapping[str, Any]) -> None:
    """Write what makes a folder of blobs a layout of one image."""
    (folder / "blobs" / "sha256" / digest.removeprefix("sha256:")).write_bytes(body)
    write_index(folder, digest, len(body), manifest)


def write_index(folder: Path, digest: str, size: int, manifest: Mapping[str, Any]) -> None:
    """Write which of the blobs in a folder is the manifest of its one image."""
    kind = manifest.get("mediaType") or "application/vnd.oci.image.manifest.v1+json"
    entry = {"mediaType": kind, "digest": digest, "size": size}
    index = {"schemaVersion": 2, "manifests": [entry]}
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


def refused(where: object, why: str) -> BuildError:
    """Return why an image is not taken."""
    return BuildError(
        "the image is refused",
        where=str(where),
        why=why,
        next_step="ask its publisher, or choose another image",
    )
