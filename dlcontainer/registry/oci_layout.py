"""An image in a folder of blobs, found and checked from its pinned digest on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlcontainer.config.field_types import Arch
from dlcontainer.config.image_names import is_digest
from dlcontainer.errors import BuildError
from dlcontainer.registry import base_image, pull
from dlcontainer.registry.connection import LIMIT
from dlcontainer.system import digests, foreign_files

BLOBS = "blobs/sha256"


class DamagedLayoutError(Exception):
    """Blobs are missing, or are not what their names say: one line each."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, kw_only=True, slots=True)
class OciLayout:
    """An image whose blobs all have their digests; `manifest` is its manifest's."""

    folder: Path
    manifest: str
    blobs: tuple[str, ...]


def follow(folder: Path, pinned: str, arch: Arch) -> OciLayout:
    """Find the image of a pinned digest; raises DamagedLayoutError.

    What the folder says of itself (index.json) counts for nothing.
    """
    chain = [pinned]
    body = _document(folder, pinned)
    if "manifests" in body:
        entry = base_image.entry_for(body, arch)
        digest = str(entry.get("digest")) if entry else ""
        if not is_digest(digest):
            raise DamagedLayoutError([f"{pinned} lists no image for {arch}"])
        chain.append(digest)
        body = _document(folder, digest)
    try:
        parts = pull.parts(body, folder)
    except BuildError as error:
        raise DamagedLayoutError([f"{chain[-1]}: {error.why}"]) from None
    faults = [fault for digest in parts for fault in _faults(folder, digest)]
    if faults:
        raise DamagedLayoutError(faults)
    return OciLayout(folder=folder, manifest=chain[-1], blobs=(*chain, *parts))


def lay(layout: OciLayout, target: Path) -> None:
    """Make a layout of one image, of the checked one's blobs, in a private folder."""
    (target / "blobs").mkdir(parents=True)
    (target / BLOBS).symlink_to(layout.folder / BLOBS)
    body = _document(layout.folder, layout.manifest)
    size = _path(layout.folder, layout.manifest).stat().st_size
    pull.write_index(target, layout.manifest, size, body)


def remove_strays(layout: OciLayout) -> None:
    """Remove blobs that are not the image's."""
    needed = {_path(layout.folder, digest) for digest in layout.blobs}
    for path in (layout.folder / BLOBS).iterdir():
        if path not in needed:
            path.unlink()


def _document(folder: Path, digest: str) -> Mapping[str, Any]:
    for fault in _faults(folder, digest):
        raise DamagedLayoutError([fault])
    try:
        body = foreign_files.loads(foreign_files.read(_path(folder, digest), LIMIT))
    except (OSError, ValueError) as error:
        raise DamagedLayoutError([f"{digest} is not a manifest: {error}"]) from None
    if not isinstance(body, dict):
        raise DamagedLayoutError([f"{digest} is not a manifest: not a JSON object"])
    return body


def _faults(folder: Path, digest: str) -> Iterator[str]:
    path, expected = _path(folder, digest), digest.removeprefix("sha256:")
    name = path.relative_to(folder)
    try:
        sha256 = digests.of_file(path)
    except FileNotFoundError:
        yield f"{name} is missing"
        return
    except OSError as error:
        yield f"{name} can't be read: {error.strerror}"
        return
    if sha256 != expected:
        yield f"{name} has a wrong checksum: {sha256[:12]}…"


def _path(folder: Path, digest: str) -> Path:
    return folder / BLOBS / digest.removeprefix("sha256:")
