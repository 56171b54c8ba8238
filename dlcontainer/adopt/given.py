"""What is asked to be adopted: an image of a registry, an archive, a SIF; and how it is called."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dlcontainer.config.field_types import Arch
from dlcontainer.config.image_names import ImageReference, parse_image
from dlcontainer.errors import DlcontainerError, UsageError
from dlcontainer.image import file_kinds, sif
from dlcontainer.registry import base_image
from dlcontainer.registry.connection import RegistryAccess
from dlcontainer.system import digests

_ARCHIVE = "oci-archive:"


@dataclass(frozen=True, kw_only=True, slots=True)
class AdoptionSource:
    """What was given: a pinned image of a registry, or a file of one of two kinds."""

    kind: Literal["registry", "archive", "sif"]
    reference: ImageReference | None = None
    path: Path = Path()


def read(source: str, arch: Arch, access: RegistryAccess, site: str) -> AdoptionSource:
    """Read the argument; raises UsageError for a tag without a digest, with the line to type."""
    if source.startswith("docker://"):
        try:
            reference = parse_image(source)
        except ValueError as error:
            raise UsageError(str(error), next_step="dlcontainer adopt --help") from None
        if reference.digest is None:
            raise _unpinned(reference, arch, access, site)
        return AdoptionSource(kind="registry", reference=reference)
    path = Path(source.removeprefix(_ARCHIVE))
    kind = file_kinds.kind(path, "give docker://NAME@sha256:DIGEST, an OCI archive or a SIF")
    if kind == "sif":
        sif.tree(path)
    return AdoptionSource(kind=kind, path=path.absolute())


def sha256_of(path: Path) -> str:
    """Return a file's digest, as registries write it."""
    return f"sha256:{digests.of_file(path)}"


def name_of(adoption_source: AdoptionSource, digest: str) -> tuple[str, str]:
    """Return a name and a version for the module: of the image's own name, or of the file's."""
    tag = None
    if adoption_source.reference is not None:
        last, tag = adoption_source.reference.name.rpartition("/")[2], adoption_source.reference.tag
    else:
        last = re.sub(r"(\.oci)?\.(sif|tar|img)$", "", adoption_source.path.name)
    name = re.sub(r"[^a-z0-9._-]+", "-", last.lower()).strip("-._")[:62]
    # A version begins with a letter or a digit; a tag may be longer, too.
    version = (tag or "").lstrip("._-")[:62]
    return name or "image", version or digest.removeprefix("sha256:")[:12]


def shown(adoption_source: AdoptionSource, digest: str) -> str:
    """Return one line that says where an image came from; no folder of this host."""
    if adoption_source.reference is not None:
        return f"docker://{adoption_source.reference.tagged}@{adoption_source.reference.digest}"
    name = adoption_source.path.name if adoption_source.path.name.isprintable() else "a file"
    return f"{name} ({'SIF' if adoption_source.kind == 'sif' else 'OCI archive'}), {digest}"


def _unpinned(
    reference: ImageReference, arch: Arch, access: RegistryAccess, site: str
) -> UsageError:
    line = f"dlcontainer adopt docker://{reference.tagged}@"
    try:
        now: str | None = base_image.find_digest(reference, arch, access)
        why = "a tag may name another image tomorrow"
    except DlcontainerError as error:
        now = None
        why = f"a tag may name another image tomorrow; can't look up its digest: {error.what}"
    return UsageError(
        f"{reference} has no digest",
        why=why,
        next_step=f"{line}{now or 'sha256:DIGEST'} --site {site}",
    )
