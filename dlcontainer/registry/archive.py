"""An OCI archive (tar) becomes a layout in a folder; only names that a layout has are taken.

The manifest of a layout that lies in a folder already is read with the same checks.
"""

import hashlib
import json
import re
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from dlcontainer.config.field_types import OCI_ARCH, Arch
from dlcontainer.errors import BuildError, ChecksFailedError, MisfitError
from dlcontainer.registry import pull
from dlcontainer.system import digests, foreign_files, foreign_tars

_BLOB = re.compile(r"(?:\./)?blobs/sha256/([0-9a-f]{64})")
_INDEX = re.compile(r"(?:\./)?index\.json")
_MOST_JSON = 4 * 1024 * 1024
_CHUNK = 1 << 20
_MOST_INDEXES = 3


def unpack(archive: Path, arch: Arch, folder: Path, most: int) -> str:
    """Take an archive's image for an architecture; return its manifest's digest.

    Raises ChecksFailedError for a file that is no archive, BuildError for a part whose bytes are
    not its digest's, MisfitError where there is nothing for this architecture.
    """
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    try:
        with tarfile.open(archive, "r:", tarinfo=foreign_tars.Member) as tar:
            index = _laid_out(tar, blobs, most, archive)
    except (tarfile.TarError, OSError, ValueError) as error:
        raise ChecksFailedError(
            f"{archive} can't be read as an OCI archive",
            why=str(error),
            next_step="give a SIF, or an archive made by `skopeo copy … oci-archive:FILE`",
        ) from None
    if index is None:
        raise ChecksFailedError(
            f"{archive} is not an OCI archive",
            why="it contains no index.json",
            next_step="make one: skopeo copy docker-archive:FILE oci-archive:NEW",
        )
    digest, manifest = _image(index, arch, blobs, archive)
    pull.write(folder, _blob(blobs, digest, archive), digest, manifest)
    return digest


def is_layout(folder: Path) -> bool:
    """Return whether a folder holds an OCI layout, as `skopeo copy … oci:FOLDER` makes it."""
    return (folder / "index.json").is_file() and (folder / "blobs" / "sha256").is_dir()


def manifest_in(folder: Path, arch: Arch) -> Any:
    """Return the manifest of a layout's image for an architecture; all its blobs are checked.

    Raises what `unpack` raises.
    """
    blobs = folder / "blobs" / "sha256"
    try:
        index = foreign_files.loads(foreign_files.read(folder / "index.json", _MOST_JSON))
    except (OSError, ValueError) as error:
        raise ChecksFailedError(
            f"{folder} can't be read as an OCI layout",
            why=str(error),
            next_step="make it again: skopeo copy … oci:FOLDER:TAG",
        ) from None
    _, manifest = _image(index, arch, blobs, folder)
    for part in pull.parts(manifest, folder):
        _require_digest(part, digests.of_file(blobs / part.removeprefix("sha256:")), folder)
    return manifest


def _image(index: Any, arch: Arch, blobs: Path, origin: Path) -> tuple[str, Any]:
    """Return digest and manifest of the image for an architecture, whose parts are all there."""
    digest = _chosen(index, arch, blobs, origin)
    manifest = _document(_blob(blobs, digest, origin), origin)
    sizes = pull.parts(manifest, origin)
    _require_arch(manifest, arch, blobs, origin)
    for part, size in sizes.items():
        path = blobs / part.removeprefix("sha256:")
        if not path.is_file() or path.stat().st_size != size:
            raise _damaged(origin, f"{part} is missing, or its size is not {size} bytes")
    return digest, manifest


def _laid_out(tar: tarfile.TarFile, blobs: Path, most: int, archive: Path) -> Any:
    index, remaining = None, most
    for member in tar:
        source = tar.extractfile(member) if member.isreg() else None
        if source is None:
            continue
        remaining -= member.size
        if remaining < 0:
            raise _damaged(archive, f"it contains more than {most / 1e9:.1f} GB")
        match = _BLOB.fullmatch(member.name)
        if match:
            _copy(source, blobs / match[1], archive)
        elif _INDEX.fullmatch(member.name) and member.size <= _MOST_JSON:
            index = foreign_files.loads(source.read())
    return index


def _copy(source: IO[bytes], target: Path, archive: Path) -> None:
    digest = hashlib.sha256()
    with target.open("wb") as file:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
    _require_digest(f"sha256:{target.name}", digest.hexdigest(), archive)


def _require_digest(digest: str, received: str, origin: Path) -> None:
    if digest != f"sha256:{received}":
        raise _damaged(origin, f"expected: {digest}\n       received: sha256:{received}")


def _chosen(index: Any, arch: Arch, blobs: Path, archive: Path) -> str:
    """Follow indexes to the one manifest for an architecture."""
    for _ in range(_MOST_INDEXES):
        entries = index.get("manifests") if isinstance(index, dict) else None
        if not isinstance(entries, list) or not entries:
            raise _damaged(archive, "its index lists no image")
        digest = _fitting([entry for entry in entries if isinstance(entry, dict)], arch, archive)
        body = _document(_blob(blobs, digest, archive), archive)
        if isinstance(body, dict) and "manifests" not in body:
            return digest
        index = body
    raise _damaged(archive, "its indexes are nested too deeply")


def _fitting(entries: Iterable[dict[str, Any]], arch: Arch, archive: Path) -> str:
    entries, oci_arch = list(entries), OCI_ARCH[arch]
    # Attestations stand in an index as images for unknown/unknown.
    for entry in entries:
        platform = entry.get("platform")
        named = platform.get("architecture") if isinstance(platform, dict) else None
        if named == oci_arch or (named is None and len(entries) == 1):
            return str(entry.get("digest"))
    raise _other_platform(archive, arch, f"none of its {len(entries)} images is")


def _require_arch(manifest: Any, arch: Arch, blobs: Path, archive: Path) -> None:
    config = _document(_blob(blobs, manifest["config"]["digest"], archive), archive)
    image_arch = config.get("architecture") if isinstance(config, dict) else None
    if image_arch != OCI_ARCH[arch]:
        raise _other_platform(archive, arch, f"the image is for {image_arch!a}, not")


def _document(body: bytes, archive: Path) -> Any:
    try:
        return foreign_files.loads(body)
    except ValueError as error:
        raise _damaged(archive, f"a manifest in it is not JSON: {error}") from None


def _blob(blobs: Path, digest: str, archive: Path) -> bytes:
    path = blobs / digest.removeprefix("sha256:")
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest) or not path.is_file():
        raise _damaged(archive, f"{digest!a} is missing")
    if path.stat().st_size > _MOST_JSON:
        raise _damaged(archive, f"{digest} is too large for a manifest")
    body = path.read_bytes()
    _require_digest(digest, hashlib.sha256(body).hexdigest(), archive)
    return body


def _damaged(archive: Path, why: str) -> BuildError:
    return BuildError(
        f"{archive} is refused", why=why, next_step="do not use it; copy the image again"
    )


def _other_platform(archive: Path, arch: Arch, what: str) -> MisfitError:
    return MisfitError(
        f"{archive} contains no image for {arch}",
        why=f"{what} for linux/{OCI_ARCH[arch]}",
        next_step=f"choose an image for {OCI_ARCH[arch]}, or a site with another architecture",
    )


def manifest_of(folder: Path) -> Any:
    """Return the manifest of a layout that `unpack` or `pull` wrote."""
    index = json.loads((folder / "index.json").read_text())
    digest = index["manifests"][0]["digest"].removeprefix("sha256:")
    return json.loads((folder / "blobs" / "sha256" / digest).read_text())
