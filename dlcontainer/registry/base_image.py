"""Whether a base image is there, is what was pinned, and is for the right machine."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dlcontainer.config.field_types import OCI_ARCH, Arch
from dlcontainer.config.image_names import ImageReference, is_digest
from dlcontainer.errors import BuildError, DlcontainerError
from dlcontainer.registry.client import Client, RegistryResponse
from dlcontainer.registry.connection import RegistryAccess
from dlcontainer.system import foreign_files

_OS = "linux"


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseImage:
    """A base image as its registry has it; digests as `sha256:…`."""

    name: str
    tag: str | None
    digest: str
    # of the image for the plan's machine: another one where `digest` is an index's
    platform_digest: str
    notes: tuple[str, ...] = ()
    # of a bundle: a layout of it alone, in a private folder
    layout: Path | None = None


def check(reference: ImageReference, arch: Arch, access: RegistryAccess) -> BaseImage:
    """Ask the registry for a pinned image; raises BuildError with what is wrong with it.

    What a tag names by now is only noted: what is pinned is what is built.
    """
    digest = str(reference.digest)
    with Client(reference=reference, access=access) as client:
        answer = client.manifest(digest)
        if answer is None:
            raise _gone(client)
        _same(client, answer, digest)
        return BaseImage(
            name=reference.name,
            tag=reference.tag,
            digest=digest,
            platform_digest=_platform_digest(client, answer, arch),
            notes=tuple(_moved(client)),
        )


def find_digest(reference: ImageReference, arch: Arch, access: RegistryAccess) -> str:
    """Ask the registry which digest a tag has now, for pinning it.

    Raises BuildError where there is no such tag, or nothing for this machine.
    """
    with Client(reference=replace(reference, digest=None), access=access) as client:
        answer = client.manifest(str(reference.tag))
        if answer is None:
            raise BuildError(
                f"registry {reference.address} has no tag {reference.tag!r} "
                f"in {reference.repository} (HTTP 404)",
                where=str(reference),
                next_step="check the image's name",
            )
        digest = sha256(answer.body)
        if answer.digest and answer.digest != digest:
            _same(client, answer, answer.digest)
        _platform_digest(client, answer, arch)
        return digest


def sha256(body: bytes) -> str:
    """Return the digest of bytes, as registries write it."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _same(client: Client, answer: RegistryResponse, digest: str) -> None:
    computed = sha256(answer.body)
    if computed != digest:
        raise BuildError(
            f"registry {client.reference.address} returned content that does not match the "
            "requested digest",
            where=str(client.reference),
            why=f"expected: {digest}\n       received: {computed}",
            next_step="do not build from it: a proxy or mirror changes the content, or the "
            "registry is damaged",
        )


def _gone(client: Client) -> BuildError:
    reference = client.reference
    why = "its publisher removed it, or it never existed"
    next_step = "choose another image, and pin it"
    if reference.tag:
        try:
            now = _tag_digest(client)
        except DlcontainerError as error:
            why += f"; can't look up the digest of the tag {reference.tag!r}: {error.what}"
        else:
            if now:
                why += f"; the tag {reference.tag!r} is now {now}"
                next_step = f"to use that image: --set base.digest={now}"
    return BuildError(
        f"registry {reference.address} does not have this image any more (HTTP 404)",
        where=str(reference),
        why=why,
        next_step=next_step,
    )


def _tag_digest(client: Client) -> str | None:
    tag = str(client.reference.tag)
    # HEAD is cheap, and public registries do not count it against their limits.
    head = client.manifest(tag, head=True)
    if head is None or head.digest:
        return head.digest if head else None
    answer = client.manifest(tag)
    return sha256(answer.body) if answer else None


def _moved(client: Client) -> list[str]:
    reference = client.reference
    if reference.tag is None:
        return []
    try:
        now = _tag_digest(client)
    except DlcontainerError as error:
        return [f"base: can't look up the tag {reference.tag!r}: {error.what}"]
    if now == reference.digest:
        return []
    moved = f"is now {now}" if now else "is gone"
    return [
        f"base: the tag {reference.tag!r} {moved}; the build uses {reference.digest}, as pinned"
    ]


def _platform_digest(client: Client, answer: RegistryResponse, arch: Arch) -> str:
    body = _json(client, answer.body)
    if "manifests" not in body:
        _check_config(client, body, arch)
        return sha256(answer.body)
    entry = entry_for(body, arch)
    if entry is None:
        platforms = [
            f"{platform.get('os')}/{platform.get('architecture')}" for platform in _named(body)
        ]
        raise _other_platform(client, arch, platforms)
    digest = _digest_of(client, entry)
    image = client.manifest(digest)
    if image is None:
        raise _incomplete(client, f"the image for {_OS}/{OCI_ARCH[arch]}, {digest}")
    _same(client, image, digest)
    return digest


def entry_for(index: Mapping[str, Any], arch: Arch) -> Mapping[str, Any] | None:
    """Return the entry of an index that is for an architecture; None where there is none."""
    pair = (_OS, OCI_ARCH[arch])
    for entry in _entries(index):
        platform = _platform(entry)
        if (platform.get("os"), platform.get("architecture")) == pair:
            return entry
    return None


def _named(index: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    # Attestations stand in an index as images for unknown/unknown.
    platforms = map(_platform, _entries(index))
    return [platform for platform in platforms if platform.get("os") not in (None, "unknown")]


def _entries(index: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = index["manifests"] if isinstance(index["manifests"], list) else []
    return [entry for entry in listed if isinstance(entry, dict)]


def _platform(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    platform = entry.get("platform")
    return platform if isinstance(platform, dict) else {}


def _check_config(client: Client, manifest: dict[str, Any], arch: Arch) -> None:
    digest = _digest_of(client, manifest.get("config"))
    config = client.blob(digest)
    if config is None:
        raise _incomplete(client, f"its configuration, {digest}")
    _same(client, config, digest)
    body = _json(client, config.body)
    if (body.get("os"), body.get("architecture")) != (_OS, OCI_ARCH[arch]):
        raise _other_platform(client, arch, [f"{body.get('os')}/{body.get('architecture')}"])


def _digest_of(client: Client, described: object) -> str:
    digest = described.get("digest") if isinstance(described, dict) else None
    # It becomes a part of an address.
    if not isinstance(digest, str) or not is_digest(digest):
        raise _no_manifest(client, "it lists no blobs by SHA-256, like images from before 2016")
    return digest


def _json(client: Client, body: bytes) -> dict[str, Any]:
    try:
        data = foreign_files.loads(body)
    except ValueError as error:
        raise _no_manifest(client, str(error)) from None
    if not isinstance(data, dict):
        raise _no_manifest(client, "no JSON object")
    return data


def _no_manifest(client: Client, why: str) -> BuildError:
    return BuildError(
        f"registry {client.reference.address} returned no image manifest",
        where=str(client.reference),
        why=why,
        next_step="check the image's name",
    )


def _incomplete(client: Client, what: str) -> BuildError:
    return BuildError(
        f"registry {client.reference.address} has only a part of the base image",
        where=str(client.reference),
        why=f"{what} is missing",
        next_step="ask its publisher, or pin another image",
    )


def _other_platform(client: Client, arch: Arch, platforms: list[str]) -> BuildError:
    # What a registry says is shown as text, whatever it says.
    names = ", ".join(sorted({ascii(name)[1:-1] for name in platforms})) or "no platform is named"
    return BuildError(
        f"the base image is not available for {_OS}/{OCI_ARCH[arch]}",
        where=str(client.reference),
        why=f"available: {names}",
        next_step=f"choose an image for {OCI_ARCH[arch]}, or a site with another architecture",
    )
