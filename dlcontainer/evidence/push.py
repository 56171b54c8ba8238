"""Push: an image and its evidence to a registry; the tag comes last, when all else is there."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.evidence import artifact, kinds
from dlcontainer.evidence.artifact import NOTHING, Blob
from dlcontainer.evidence.pieces import Piece
from dlcontainer.registry import referrers
from dlcontainer.registry.artifacts import MANIFEST, ArtifactClient
from dlcontainer.registry.base_image import sha256
from dlcontainer.registry.upload import Upload
from dlcontainer.system import foreign_files
from dlcontainer.system.progress import Meter, Progress


@dataclass(frozen=True, kw_only=True, slots=True)
class PushResult:
    """What is in the registry now: the digest of the image's manifest, and the evidence's kinds."""

    digest: str
    evidence: tuple[str, ...]


def push(
    image: Path, digest: str, pieces: Iterable[Piece], client: ArtifactClient, progress: Progress
) -> PushResult:
    """Push an image of this SHA-256, with its evidence; raises PublishError.

    The registry checks each digest: an image that changes meanwhile is refused.
    """
    with foreign_files.opened(image) as file:
        size = os.fstat(file.fileno()).st_size
        body = artifact.of_image(
            Blob(media_type=artifact.SIF_LAYER, digest=digest, size=size), image.name
        )
        progress.step(f"push {image.name}: {size / 1e6:.0f} MB")
        client.upload(sha256(NOTHING), NOTHING)
        meter = Meter(tell=progress.phase, title="push", total=size)
        sent = Upload(file=file, size=size, meter=meter, rate=client.access.rate)
        client.upload(digest, sent)
    subject = artifact.of(body, MANIFEST)
    client.put_manifest(subject.digest, body, MANIFEST)
    pushed = []
    for piece in pieces:
        progress.step(f"push evidence: {piece.file}")
        for data in (piece.envelope, piece.data):
            client.upload(sha256(data), data)
        manifest = artifact.of_evidence(piece, subject)
        referrers.attach(client, subject.digest, manifest, kinds.artifact_type(piece.kind))
        pushed.append(piece.kind)
    tag = client.reference.tag
    if tag is not None:
        client.put_manifest(tag, body, MANIFEST)
    return PushResult(digest=subject.digest, evidence=tuple(pushed))
