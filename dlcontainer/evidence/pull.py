"""Pull: an image and its evidence of a registry. What does not hold is never in its place."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import ChecksFailedError, PublishError
from dlcontainer.evidence import artifact, envelope, folder, kinds, pieces, policy
from dlcontainer.evidence.artifact import Blob, Parts
from dlcontainer.evidence.image_signature import SignatureEngine
from dlcontainer.evidence.kinds import FORMS, Kind
from dlcontainer.evidence.pieces import MOST_S, EvidenceOffer, Piece, PieceLimit, RefusalNotes
from dlcontainer.evidence.policy import EvidenceDemand, OpenImage, PolicyResult
from dlcontainer.evidence.trust_anchors import TrustAnchors
from dlcontainer.image import record, sbom
from dlcontainer.registry import referrers
from dlcontainer.registry.artifacts import ArtifactClient
from dlcontainer.registry.base_image import sha256
from dlcontainer.system import atomic_files, foreign_files, workspace
from dlcontainer.system.machine import free_mb
from dlcontainer.system.process import Runner
from dlcontainer.system.progress import Progress


@dataclass(frozen=True, kw_only=True, slots=True)
class PullContext:
    """Everything a pull needs; without trust and demand nothing is verified, and that is said."""

    client: ArtifactClient
    trust: TrustAnchors
    demand: EvidenceDemand
    engine: SignatureEngine | None
    runner: Runner
    progress: Progress


@dataclass(frozen=True, kw_only=True, slots=True)
class PullResult:
    """An image that was pulled: the digest of its manifest, and what was found to hold."""

    digest: str
    sha256: str
    verified: PolicyResult


def pull(target: Path, context: PullContext) -> PullResult:
    """Fetch an image into its place, with record, bill and evidence beside it.

    Raises PublishError for what the registry gives otherwise than announced, for a tag that was
    moved, ChecksFailedError where the image does not meet the demand. Then nothing is left.
    """
    progress = context.progress
    body = _manifest(context.client)
    digest = sha256(body)
    image = artifact.image_in(body, context.client.reference)
    _require_room(image, target.parent)
    with workspace.workspace(target.parent, context.runner, progress.note, hands_on=True) as aside:
        copy = aside / target.name
        progress.step(f"pull {digest}: {image.size / 1e6:.0f} MB")
        context.client.save_blob(image.digest, image.size, copy)
        progress.step("read the image's evidence")
        with context.client.within(MOST_S):
            verified = _verified(copy, image.digest.removeprefix("sha256:"), digest, context)
        origin = None if context.engine else f"oras://{context.client.reference.name}@{digest}"
        _settle(target, copy, verified.evidence, origin)
    return PullResult(digest=digest, sha256=image.digest.removeprefix("sha256:"), verified=verified)


def _manifest(client: ArtifactClient) -> bytes:
    """Ask for the manifest; with a tag and a digest, both must mean it."""
    named = client.reference
    answer = client.manifest(named.digest or named.tag or "latest")
    if answer is None:
        raise PublishError(
            f"the registry has no image {named.source}",
            where=f"oras://{named.source}",
            next_step="check the name",
        )
    actual = sha256(answer.body)
    if named.digest is not None and actual != named.digest:
        raise PublishError(
            "the registry returned a manifest that does not match the pinned digest",
            where=f"oras://{named.source}",
            why=f"expected: {named.digest}\n       received: {actual}",
            next_step="do not use it: the registry, or a proxy on the way, returns wrong content",
        )
    if named.digest is not None and named.tag is not None:
        _require_tag(client, named.digest, named.tag)
    return answer.body


def _require_tag(client: ArtifactClient, pinned: str, tag: str) -> None:
    answer = client.manifest(tag)
    now = sha256(answer.body) if answer else None
    if now != pinned:
        name = client.reference.name
        raise PublishError(
            f"the tag {tag!r} was moved" if now else f"the tag {tag!r} is gone",
            where=f"oras://{name}:{tag}",
            why=f"pinned: {pinned}\n       now:    {now}",
            next_step="ask the publisher why; to use the pinned image anyway: "
            f"oras://{name}@{pinned}",
        )


def _require_room(image: Blob, place: Path) -> None:
    needed_mb, free = image.size // 1_000_000 + 1, free_mb(place)
    if free < needed_mb:
        raise PublishError(
            f"the image needs {needed_mb} MB, but {place} has {free} MB free",
            next_step="free some space, or choose another file: -o FILE",
        )


def _offers(context: PullContext, digest: str, notes: RefusalNotes) -> Iterator[EvidenceOffer]:
    """Yield what refers to the image and is evidence of ours; anybody may have put it there."""
    for referrer in referrers.found(context.client, digest, notes.add):
        kind = artifact.kind_of(referrer.artifact_type)
        if kind is None:
            continue
        try:
            answer = context.client.manifest(referrer.digest)
        except PublishError as error:
            notes.add(f"{referrer.digest}: {error.what}")
            continue
        parts = artifact.parts_in(answer.body) if answer else None
        if parts is None or answer is None or sha256(answer.body) != referrer.digest:
            notes.add(f"{referrer.digest}: listed as {kind} evidence, but it is not")
        elif parts.subject != digest:
            notes.add(
                f"{referrer.digest}: listed as {kind} evidence of this image, but it refers to "
                f"{parts.subject}"
            )
        else:
            yield _offer(context.client, kind, parts)
    notes.end()


def _offer(client: ArtifactClient, kind: Kind, parts: Parts) -> EvidenceOffer:
    def file(limit: PieceLimit) -> bytes:
        if limit.sha256 is not None and parts.file.digest != f"sha256:{limit.sha256}":
            raise ChecksFailedError("its file is not the one that was signed")
        return client.fetched(parts.file.digest, parts.file.size, limit.most)

    return EvidenceOffer(
        kind=kind,
        name=f"{kind}-{parts.file.digest[7:19]}{FORMS[kind].suffix}",
        envelope=lambda: client.fetched(
            parts.envelope.digest, parts.envelope.size, envelope.MOST_BYTES
        ),
        file=file,
    )


def _verified(copy: Path, image: str, digest: str, context: PullContext) -> PolicyResult:
    subject = policy.subject_of(copy, image, None)
    notes = RefusalNotes(tell=context.progress.note)
    offers = _offers(context, digest, notes)
    if context.engine is None:
        loaded = pieces.loaded(offers, notes)
        usable = tuple(piece for piece in loaded if _is_usable(piece, subject))
        return PolicyResult(signer=None, evidence=usable)
    with foreign_files.opened(copy) as file:
        opened_image = OpenImage(
            path=copy, image=file.fileno(), subject=subject, record=None, offers=offers
        )
        return policy.check(opened_image, context.trust, context.demand, context.engine)


def _is_usable(piece: Piece, subject: kinds.EvidenceSubject) -> bool:
    try:
        kinds.require_about(piece.kind, piece.data, subject)
    except ChecksFailedError:
        return False
    return True


def _settle(target: Path, copy: Path, evidence: tuple[Piece, ...], origin: str | None) -> None:
    """Put all in place; the image comes last. With an origin nothing of it was verified."""
    targets = {"record": record.beside(target), "bill": target.with_suffix(sbom.SUFFIX)}
    try:
        with workspace.settling(target.parent):
            for piece in evidence:
                folder.write(folder.beside(target), piece)
                if piece.kind in targets:
                    data = piece.data
                    if piece.kind == "record" and origin is not None:
                        data = record.unverified(data, origin)
                    atomic_files.write(targets[piece.kind], data)
            workspace.settle(copy, target)
    except OSError as error:
        raise PublishError(f"can't write {target}: {error.strerror}") from None
