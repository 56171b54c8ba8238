"""An image and its evidence as a registry holds them: manifests, and what they are made of.

The image is what Apptainer pushes and pulls as `oras://`: one layer, the SIF itself. Evidence is an
artefact of its own whose `subject` is the image's manifest.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dlcontainer.config.image_names import ImageReference, is_digest, parse_image
from dlcontainer.errors import PublishError, UsageError
from dlcontainer.evidence import kinds
from dlcontainer.evidence.kinds import ENVELOPE_TYPE, FORMS, KINDS, Kind
from dlcontainer.evidence.pieces import Piece
from dlcontainer.registry.artifacts import MANIFEST
from dlcontainer.registry.base_image import sha256
from dlcontainer.system import foreign_files

# Source: github.com/apptainer/apptainer, internal/pkg/client/oras.
SIF_CONFIG = "application/vnd.sylabs.sif.config.v1+json"
SIF_LAYER = "application/vnd.sylabs.sif.layer.v1.sif"
# Source: github.com/opencontainers/image-spec, manifest.md.
EMPTY = "application/vnd.oci.empty.v1+json"
NOTHING = b"{}"
_TITLE = "org.opencontainers.image.title"
_SCHEME = "oras://"


@dataclass(frozen=True, kw_only=True, slots=True)
class Blob:
    """One part of a manifest."""

    media_type: str
    digest: str
    size: int

    def described(self, name: str | None = None) -> dict[str, object]:
        """Return it as a manifest lists it."""
        more = {"annotations": {_TITLE: name}} if name else {}
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size, **more}


def of(data: bytes, media_type: str) -> Blob:
    """Describe bytes."""
    return Blob(media_type=media_type, digest=sha256(data), size=len(data))


def reference(text: str) -> ImageReference:
    """Read oras://NAME[:TAG][@sha256:DIGEST]; raises UsageError."""
    try:
        if not text.startswith(_SCHEME):
            raise ValueError
        return parse_image(f"docker://{text.removeprefix(_SCHEME)}")
    except ValueError:
        raise UsageError(
            f"{text!r} is not a registry reference",
            why=f"expected: {_SCHEME}HOST/NAME[:TAG][@sha256:DIGEST], in lower case",
        ) from None


def of_image(image: Blob, name: str) -> bytes:
    """Write the manifest of an image."""
    return _manifest(of(NOTHING, SIF_CONFIG), [image.described(name)])


def of_evidence(piece: Piece, subject: Blob) -> bytes:
    """Write the manifest of a piece of evidence about an image's manifest."""
    form = FORMS[piece.kind]
    layers = [
        of(piece.envelope, ENVELOPE_TYPE).described(),
        of(piece.data, form.media_type).described(piece.file),
    ]
    more = {"artifactType": kinds.artifact_type(piece.kind), "subject": subject.described()}
    return _manifest(of(NOTHING, EMPTY), layers, more)


def _manifest(
    config: Blob, layers: list[dict[str, object]], more: Mapping[str, object] | None = None
) -> bytes:
    body = {"schemaVersion": 2, "mediaType": MANIFEST, **(more or {})}
    return json.dumps({**body, "config": config.described(), "layers": layers}).encode()


def image_in(manifest: bytes, where: object) -> Blob:
    """Find the image in its manifest; raises PublishError for another kind of artefact."""
    body = _read(manifest)
    layers = _layers(body)
    if body.get("subject") is not None or [layer.media_type for layer in layers] != [SIF_LAYER]:
        raise PublishError(
            f"{where} is not a SIF image",
            why="its manifest does not describe a single SIF file",
            next_step="pull an image that `dlcontainer push` or `apptainer push` pushed; for a "
            "Docker image: dlcontainer adopt docker://NAME",
        )
    return layers[0]


def kind_of(artifact_type: str) -> Kind | None:
    """Return which kind of evidence an artefact's type is; None for what is none of ours."""
    return next((kind for kind in KINDS if kinds.artifact_type(kind) == artifact_type), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What the manifest of a piece of evidence names."""

    subject: str
    envelope: Blob
    file: Blob


def parts_in(manifest: bytes) -> Parts | None:
    """Find the parts of a piece of evidence; None for another artefact."""
    body = _read(manifest)
    layers, subject = _layers(body), body.get("subject")
    about = subject.get("digest") if isinstance(subject, dict) else None
    if len(layers) != 2 or layers[0].media_type != ENVELOPE_TYPE or not isinstance(about, str):
        return None
    return Parts(subject=about, envelope=layers[0], file=layers[1])


def _read(manifest: bytes) -> Mapping[str, Any]:
    try:
        body = foreign_files.loads(manifest)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _layers(body: Mapping[str, Any]) -> list[Blob]:
    layers = body.get("layers")
    if not isinstance(layers, list) or len(layers) > 8:
        return []
    return [
        Blob(media_type=str(layer.get("mediaType")), digest=layer["digest"], size=layer["size"])
        for layer in layers
        if isinstance(layer, dict)
        and isinstance(layer.get("digest"), str)
        and is_digest(layer["digest"])
        and type(layer.get("size")) is int
        and layer["size"] >= 0
    ]
