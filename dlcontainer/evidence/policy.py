"""What an image must have before it is taken: a believed signature, and evidence of given kinds.

Evidence may come from anybody. Its envelope is judged first: only where somebody who may be
believed signed it, for this image, its file is read. What does not count is named, and stops
nothing else.
"""

import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlcontainer.config.field_types import role_of
from dlcontainer.errors import ChecksFailedError, DlcontainerError
from dlcontainer.evidence import (
    certificates,
    envelope,
    image_signature,
    keys,
    kinds,
    pieces,
    statement,
)
from dlcontainer.evidence.certificates import LeafCertificate, Roots
from dlcontainer.evidence.envelope import Envelope, VerifiedSignature
from dlcontainer.evidence.image_signature import SignatureEngine, Signer
from dlcontainer.evidence.keys import PublicKey
from dlcontainer.evidence.kinds import MOST_BYTES, EvidenceSubject, Kind
from dlcontainer.evidence.pieces import (
    ByteAllowance,
    Deadline,
    EvidenceOffer,
    Piece,
    PieceLimit,
    RefusalNotes,
)
from dlcontainer.evidence.statement import Statement
from dlcontainer.evidence.trust_anchors import TrustAnchors
from dlcontainer.image import record
from dlcontainer.system import foreign_files


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceDemand:
    """What is asked of an image; nothing, unless it says so."""

    signed: bool = False
    kinds: tuple[Kind, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is asked."""
        return not (self.signed or self.kinds)


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenImage:
    """An image, opened, with what lies beside it; nothing of it is believed yet."""

    path: Path
    image: int
    subject: EvidenceSubject
    record: bytes | None
    offers: Iterable[EvidenceOffer]


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyResult:
    """What holds: the signer, the evidence that counts; and why other evidence does not."""

    signer: Signer | None
    evidence: tuple[Piece, ...]
    refused: tuple[str, ...] = ()


@dataclass(kw_only=True, slots=True)
class _SignedStatement:
    """A statement about this image that somebody signed who may be believed.

    Anybody may offer it again, with another file: each offer is one place to take the file from.
    """

    kind: Kind
    payload: bytes
    says: Statement
    signed: tuple[VerifiedSignature, ...]
    certificates: tuple[LeafCertificate, ...]
    offers: list[EvidenceOffer]

    def certified(self, signed: VerifiedSignature) -> VerifiedSignature:
        """Return a signature with the certificate of its own key, and no other."""
        certificate = signed.signature.certificate
        pem = next((leaf.pem for leaf in self.certificates if leaf.key.id == signed.key.id), None)
        if pem is None and certificate is not None:
            pem = certificates.of_key(certificate, signed.key)
        return replace(signed, signature=replace(signed.signature, certificate=pem))


@dataclass(slots=True)
class _RefusalLog:
    """Why evidence does not count; of each kind the first reasons."""

    lines: list[str] = field(default_factory=list)
    by_kind: dict[Kind, list[str]] = field(default_factory=dict)
    notes: RefusalNotes = field(init=False)

    def __post_init__(self) -> None:
        self.notes = RefusalNotes(tell=self.lines.append)

    def add(self, offer: EvidenceOffer, error: OSError | DlcontainerError) -> None:
        text = f"{offer.name}: {pieces.said(error)}"
        self.notes.add(text)
        reasons = self.by_kind.setdefault(offer.kind, [])
        if len(reasons) < _REASONS:
            reasons.append(text)


# Of each kind that is missing.
_REASONS = 5


def check(
    opened_image: OpenImage,
    trust: TrustAnchors,
    demand: EvidenceDemand,
    engine: SignatureEngine,
    clock: Callable[[], float] = time.monotonic,
) -> PolicyResult:
    """Hold an image against what is demanded; raises ChecksFailedError with each reason."""
    if trust.is_empty:
        raise ChecksFailedError(
            "no trusted signer is given",
            why="a signature proves nothing without the signer's key",
            next_step="give --key, --certificate-roots or --pgp, or set trust.keys in the "
            "site config",
        )
    refused = _RefusalLog()
    offers = pieces.in_time(opened_image.offers, Deadline(clock=clock), refused.notes.add)
    sealed = _sealed(offers, opened_image, trust, refused)
    signer = None
    # A certificate's key is believed only after the engine has found the certificate good.
    if demand.signed or trust.roots is not None:
        carried = dict.fromkeys(
            leaf.pem for signed_statement in sealed for leaf in signed_statement.certificates
        )
        anchors = replace(trust, certificates=(*trust.certificates, *carried))
        signer = image_signature.verify(opened_image.image, opened_image.path, anchors, engine)
    believed = trust if signer is None or signer.key is None else trust.with_certified(signer.key)
    taking = _EvidenceReader(trust=believed, refused=refused, deadline=Deadline(clock=clock))
    accepted = taking.all(sealed, opened_image)
    _require_kinds(opened_image.path, demand.kinds, accepted, refused)
    refused.notes.end()
    return PolicyResult(signer=signer, evidence=accepted, refused=tuple(refused.lines))


def _sealed(
    offers: Iterable[EvidenceOffer],
    opened_image: OpenImage,
    trust: TrustAnchors,
    refused: _RefusalLog,
) -> list[_SignedStatement]:
    """Read each envelope by itself; keep the statements that may count. No file is read yet."""
    roots = Roots(trust.roots) if trust.roots is not None else None
    believed = tuple(trusted.key for trusted in trust.keys)
    statements: dict[bytes, _SignedStatement] = {}
    for offer in offers:
        try:
            signed_statement = _unsealed(offer, opened_image.subject, believed, roots)
        except (OSError, DlcontainerError) as error:
            refused.add(offer, error)
            continue
        merged = statements.setdefault(signed_statement.payload, signed_statement)
        merged.offers.append(offer)
        merged.signed = tuple(
            {
                signature.key.id: signature
                for signature in (*signed_statement.signed, *merged.signed)
            }.values()
        )
        merged.certificates = tuple(
            dict.fromkeys((*merged.certificates, *signed_statement.certificates))
        )
    return list(statements.values())


def _unsealed(
    offer: EvidenceOffer,
    subject: EvidenceSubject,
    believed: Iterable[PublicKey],
    roots: Roots | None,
) -> _SignedStatement:
    sealed = envelope.read(offer.envelope(), "its envelope")
    carried = _certificates(sealed, roots) if roots else ()
    signed = sealed.signed_by((*believed, *(leaf.key for leaf in carried)))
    if not signed:
        raise keys.unsigned("no trusted key signed it", "")
    says = statement.read(sealed.payload, "its envelope")
    statement.require_about(says, subject, "it")
    if says.kind != offer.kind:
        raise keys.unsigned("it was signed as another kind of evidence", f"as {says.kind}")
    return _SignedStatement(
        kind=says.kind,
        payload=sealed.payload,
        says=says,
        signed=signed,
        certificates=carried,
        offers=[],
    )


def _certificates(sealed: Envelope, roots: Roots) -> tuple[LeafCertificate, ...]:
    """Return its certificates that a root issued and whose key signed it: strangers have none."""
    carried = (
        roots.issued(signature.certificate)
        for signature in sealed.signatures
        if signature.certificate
    )
    return tuple(leaf for leaf in carried if leaf is not None and sealed.signed_by([leaf.key]))


@dataclass(kw_only=True, slots=True)
class _EvidenceReader:
    """The files of what may count are read, and held against the image and its record."""

    trust: TrustAnchors
    refused: _RefusalLog
    deadline: Deadline
    room: ByteAllowance = field(default_factory=ByteAllowance)

    def all(self, sealed: Iterable[_SignedStatement], opened_image: OpenImage) -> tuple[Piece, ...]:
        """Return the pieces that count; the record first, since the rest is held against it."""
        accepted = []
        for signed_statement in sorted(
            sealed, key=lambda signed_statement: signed_statement.kind != "record"
        ):
            piece = self._one(signed_statement, opened_image)
            if piece is None:
                continue
            accepted.append(piece)
            if piece.kind == "record" and opened_image.record is None:
                body = foreign_files.loads(piece.data)
                subject = subject_of(opened_image.path, opened_image.subject.sha256, body)
                opened_image = replace(opened_image, record=piece.data, subject=subject)
        return tuple(accepted)

    def _one(self, signed_statement: _SignedStatement, opened_image: OpenImage) -> Piece | None:
        """Take the file from the first place that has it."""
        for offer in signed_statement.offers:
            if self.deadline.is_over:
                self.refused.notes.add(pieces.OVER)
                return None
            try:
                _require_role(signed_statement, self.trust)
                return self._piece(signed_statement, offer, opened_image)
            except (OSError, DlcontainerError) as error:
                self.refused.add(offer, error)
        return None

    def _piece(
        self, signed_statement: _SignedStatement, offer: EvidenceOffer, opened_image: OpenImage
    ) -> Piece:
        """Require of a file all that makes it count; raises ChecksFailedError."""
        kind, says = signed_statement.kind, signed_statement.says
        if not 0 <= says.size <= MOST_BYTES:
            raise keys.unsigned("its file is too large", f"{says.size} bytes")
        data = offer.file(PieceLimit(most=min(says.size, self.room.remaining), sha256=says.sha256))
        if says.sha256 != hashlib.sha256(data).hexdigest() or says.size != len(data):
            raise keys.unsigned("its file was changed after it was signed", "another SHA-256")
        kinds.require_about(kind, data, opened_image.subject)
        if (
            kind == "record"
            and opened_image.record
            and not record.is_same(opened_image.record, data)
        ):
            raise keys.unsigned(
                "the record beside the image is not the signed one", "it was changed"
            )
        # These signatures alone: what strangers wrote around them is left out.
        sealed = envelope.text(
            signed_statement.payload, map(signed_statement.certified, signed_statement.signed)
        )
        self.room.take(len(data) + len(sealed))
        return Piece(kind=kind, data=data, envelope=sealed)


def _require_role(signed_statement: _SignedStatement, trust: TrustAnchors) -> None:
    """Require a signer whose key counts for this kind; raises ChecksFailedError."""
    role = role_of(signed_statement.kind)
    counting = {key.id for key in trust.keys_for(role)}
    if any(signature.key.id in counting for signature in signed_statement.signed):
        return
    ids = {key.id for key in trust.keys_besides(role)}
    whose = [
        signature.key.where for signature in signed_statement.signed if signature.key.id in ids
    ]
    if whose:
        raise keys.unsigned(
            f"its signer's key does not count for {signed_statement.kind}", ", ".join(whose)
        )
    raise keys.unsigned("no trusted key signed it", "")


def _require_kinds(
    path: Path, kinds: Iterable[Kind], accepted: Iterable[Piece], refused: _RefusalLog
) -> None:
    accepted_kinds = {piece.kind for piece in accepted}
    missing = [kind for kind in kinds if kind not in accepted_kinds]
    if not missing:
        return
    reasons = [text for kind in missing for text in refused.by_kind.get(kind, ())]
    raise ChecksFailedError(
        f"{path} has no evidence that counts: {', '.join(missing)}",
        why="\n       ".join(reasons) or "no such evidence was signed for this image",
        next_step="ask the signer to run: dlcontainer evidence attest IMAGE --key FILE KIND=FILE",
    )


def subject_of(path: Path, sha256: str, body: object) -> EvidenceSubject:
    """Return an image as evidence names it, by its record's JSON; without a record by its bytes."""
    plan = earlier = None
    if isinstance(body, dict):
        signed = body.get("signed")
        plan = body["digest"] if isinstance(body.get("digest"), str) else None
        if isinstance(signed, dict) and isinstance(signed.get("unsigned_sha256"), str):
            earlier = signed["unsigned_sha256"]
    return EvidenceSubject(name=path.name, sha256=sha256, earlier=earlier, plan=plan)
