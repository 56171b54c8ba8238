"""What an image must have before it is taken: a believed signature, and evidence of given kinds."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.errors import ChecksFailedError
from dlcontainer.evidence import envelope, image_signature, keys, kinds, statement
from dlcontainer.evidence.folder import Piece
from dlcontainer.evidence.image_signature import Engine, Signer, Trust
from dlcontainer.evidence.keys import PublicKey
from dlcontainer.evidence.kinds import Kind, Subject
from dlcontainer.image import record
from dlcontainer.system import foreign_files


@dataclass(frozen=True, kw_only=True, slots=True)
class Demand:
    """What is asked of an image; nothing, unless it says so."""

    signed: bool = False
    kinds: tuple[Kind, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is asked."""
        return not (self.signed or self.kinds)


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """An image, opened, with what lies beside it; nothing of it is believed yet."""

    path: Path
    image: int
    subject: Subject
    record: bytes | None
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """What holds: the signer, the evidence that counts; and why other evidence does not."""

    signer: Signer | None
    evidence: tuple[Piece, ...]
    refused: tuple[str, ...] = ()


def check(given: Given, trust: Trust, demand: Demand, engine: Engine) -> Verified:
    """Hold an image against what is demanded; raises ChecksFailedError with each reason."""
    if trust.is_empty:
        raise ChecksFailedError(
            "no signer is named",
            why="a signature proves nothing without the signer's key",
            next_step="give --key, --certificate-roots or --pgp, or write trust.keys in the "
            "site's file",
        )
    known = replace(trust, certificates=(*trust.certificates, *_carried(given.pieces)))
    signer = None
    # A certificate's key is believed only after the engine has found the certificate good.
    if demand.signed or known.roots is not None:
        signer = image_signature.verify(given.image, given.path, known, engine)
    believed = (*trust.keys, *([signer.key] if signer and signer.key else []))
    verified = replace(_judged(given, believed), signer=signer)
    _require_kinds(given.path, demand.kinds, verified)
    return verified


def _judged(given: Given, believed: Iterable[PublicKey]) -> Verified:
    """Tell evidence that counts from other; the record first, since the rest is held against it."""
    accepted: list[Piece] = []
    refused = []
    for piece in sorted(given.pieces, key=lambda one: one.kind != "record"):
        try:
            _require(piece, given, believed)
        except ChecksFailedError as error:
            refused.append(f"{piece.file}: {error.what}" + (f" ({error.why})" if error.why else ""))
            continue
        accepted.append(piece)
        if piece.kind == "record" and given.record is None:
            said = foreign_files.loads(piece.data)
            subject = subject_of(given.path, given.subject.sha256, said)
            given = replace(given, record=piece.data, subject=subject)
    return Verified(signer=None, evidence=tuple(accepted), refused=tuple(refused))


def _carried(pieces: Iterable[Piece]) -> tuple[bytes, ...]:
    """Give the certificates that came with evidence; each is to be checked below the roots."""
    carried: dict[bytes, None] = {}
    for piece in pieces:
        try:
            signatures = envelope.read(piece.envelope, piece.stem).signatures
        except ChecksFailedError:
            continue
        for one in signatures:
            if one.certificate is not None:
                carried[one.certificate] = None
    return tuple(carried)[:8]


def _require(piece: Piece, given: Given, believed: Iterable[PublicKey]) -> None:
    """Require of a piece of evidence all that makes it count; raises ChecksFailedError."""
    sealed = envelope.read(piece.envelope, "its envelope")
    if sealed.signer(believed) is None:
        raise keys.unsigned("it is signed by nobody who is trusted", "")
    said = statement.read(sealed.payload, "its envelope")
    statement.require_about(said, given.subject, "it")
    if said.kind != piece.kind:
        raise keys.unsigned("it was signed as something else", f"as {said.kind}")
    if said.sha256 != hashlib.sha256(piece.data).hexdigest() or said.size != len(piece.data):
        raise keys.unsigned("its file was changed after it was signed", "another SHA-256")
    kinds.require_about(piece.kind, piece.data, given.subject)
    if piece.kind == "record" and given.record and not record.is_same(given.record, piece.data):
        raise keys.unsigned("the record beside the image is another one", "it was changed")


def _require_kinds(path: Path, wanted: Iterable[Kind], verified: Verified) -> None:
    there = {piece.kind for piece in verified.evidence}
    missing = [kind for kind in wanted if kind not in there]
    if not missing:
        return
    reasons = [text for text in verified.refused if text.partition("-")[0] in missing]
    raise ChecksFailedError(
        f"{path} has no evidence that counts: {', '.join(missing)}",
        why="\n       ".join(reasons) or "nobody signed such evidence for this image",
        next_step="ask those who made it: dlcontainer attest IMAGE --key FILE KIND=FILE",
    )


def subject_of(path: Path, sha256: str, body: object) -> Subject:
    """Give an image as evidence names it, by its record's JSON; without a record by its bytes."""
    plan = earlier = None
    if isinstance(body, dict):
        signed = body.get("signed")
        plan = body["digest"] if isinstance(body.get("digest"), str) else None
        if isinstance(signed, dict) and isinstance(signed.get("unsigned_sha256"), str):
            earlier = signed["unsigned_sha256"]
    return Subject(name=path.name, sha256=sha256, earlier=earlier, plan=plan)
