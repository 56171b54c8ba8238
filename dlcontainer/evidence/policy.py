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
from dlcontainer.evidence.certificates import Carried, Roots
from dlcontainer.evidence.envelope import Envelope, Signed
from dlcontainer.evidence.image_signature import Engine, Signer
from dlcontainer.evidence.keys import PublicKey
from dlcontainer.evidence.kinds import MOST_BYTES, Kind, Subject
from dlcontainer.evidence.pieces import Deadline, Notes, Offer, Piece, Room, Wanted
from dlcontainer.evidence.statement import Statement
from dlcontainer.evidence.trust import Trust
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
    offers: Iterable[Offer]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """What holds: the signer, the evidence that counts; and why other evidence does not."""

    signer: Signer | None
    evidence: tuple[Piece, ...]
    refused: tuple[str, ...] = ()


@dataclass(kw_only=True, slots=True)
class _Sealed:
    """A statement about this image that somebody signed who may be believed.

    Anybody may offer it again, with another file: each offer is one place to take the file from.
    """

    kind: Kind
    payload: bytes
    says: Statement
    signed: tuple[Signed, ...]
    certificates: tuple[Carried, ...]
    offers: list[Offer]

    def certified(self, signed: Signed) -> Signed:
        """Give a signature with the certificate of its own key, and no other."""
        given = signed.signature.certificate
        own = next((one.pem for one in self.certificates if one.key.id == signed.key.id), None)
        if own is None and given is not None:
            own = certificates.of_key(given, signed.key)
        return replace(signed, signature=replace(signed.signature, certificate=own))


@dataclass(slots=True)
class _Refused:
    """Why evidence does not count; of each kind the first reasons."""

    lines: list[str] = field(default_factory=list)
    by_kind: dict[Kind, list[str]] = field(default_factory=dict)
    notes: Notes = field(init=False)

    def __post_init__(self) -> None:
        self.notes = Notes(tell=self.lines.append)

    def add(self, offer: Offer, error: OSError | DlcontainerError) -> None:
        text = f"{offer.name}: {pieces.said(error)}"
        self.notes.add(text)
        reasons = self.by_kind.setdefault(offer.kind, [])
        if len(reasons) < _REASONS:
            reasons.append(text)


# Of each kind that is missing.
_REASONS = 5


def check(
    given: Given,
    trust: Trust,
    demand: Demand,
    engine: Engine,
    clock: Callable[[], float] = time.monotonic,
) -> Verified:
    """Hold an image against what is demanded; raises ChecksFailedError with each reason."""
    if trust.is_empty:
        raise ChecksFailedError(
            "no signer is named",
            why="a signature proves nothing without the signer's key",
            next_step="give --key, --certificate-roots or --pgp, or write trust.keys in the "
            "site's file",
        )
    refused = _Refused()
    offers = pieces.in_time(given.offers, Deadline(clock=clock), refused.notes.add)
    sealed = _sealed(offers, given, trust, refused)
    signer = None
    # A certificate's key is believed only after the engine has found the certificate good.
    if demand.signed or trust.roots is not None:
        carried = dict.fromkeys(one.pem for each in sealed for one in each.certificates)
        known = replace(trust, certificates=(*trust.certificates, *carried))
        signer = image_signature.verify(given.image, given.path, known, engine)
    believed = trust if signer is None or signer.key is None else trust.with_certified(signer.key)
    taking = _Taking(trust=believed, refused=refused, deadline=Deadline(clock=clock))
    accepted = taking.all(sealed, given)
    _require_kinds(given.path, demand.kinds, accepted, refused)
    refused.notes.end()
    return Verified(signer=signer, evidence=accepted, refused=tuple(refused.lines))


def _sealed(
    offers: Iterable[Offer], given: Given, trust: Trust, refused: _Refused
) -> list[_Sealed]:
    """Read each envelope by itself; keep the statements that may count. No file is read yet."""
    roots = Roots(trust.roots) if trust.roots is not None else None
    believed = tuple(one.key for one in trust.keys)
    found: dict[bytes, _Sealed] = {}
    for offer in offers:
        try:
            one = _unsealed(offer, given.subject, believed, roots)
        except (OSError, DlcontainerError) as error:
            refused.add(offer, error)
            continue
        known = found.setdefault(one.payload, one)
        known.offers.append(offer)
        known.signed = tuple({each.key.id: each for each in (*one.signed, *known.signed)}.values())
        known.certificates = tuple(dict.fromkeys((*known.certificates, *one.certificates)))
    return list(found.values())


def _unsealed(
    offer: Offer, subject: Subject, believed: Iterable[PublicKey], roots: Roots | None
) -> _Sealed:
    sealed = envelope.read(offer.envelope(), "its envelope")
    carried = _certificates(sealed, roots) if roots else ()
    signed = sealed.signed_by((*believed, *(one.key for one in carried)))
    if not signed:
        raise keys.unsigned("it is signed by nobody who is trusted", "")
    says = statement.read(sealed.payload, "its envelope")
    statement.require_about(says, subject, "it")
    if says.kind != offer.kind:
        raise keys.unsigned("it was signed as something else", f"as {says.kind}")
    return _Sealed(
        kind=says.kind,
        payload=sealed.payload,
        says=says,
        signed=signed,
        certificates=carried,
        offers=[],
    )


def _certificates(sealed: Envelope, roots: Roots) -> tuple[Carried, ...]:
    """Give its certificates that a root issued and whose key signed it: strangers have none."""
    carried = (roots.issued(one.certificate) for one in sealed.signatures if one.certificate)
    return tuple(one for one in carried if one is not None and sealed.signed_by([one.key]))


@dataclass(kw_only=True, slots=True)
class _Taking:
    """The files of what may count are read, and held against the image and its record."""

    trust: Trust
    refused: _Refused
    deadline: Deadline
    room: Room = field(default_factory=Room)

    def all(self, sealed: Iterable[_Sealed], given: Given) -> tuple[Piece, ...]:
        """Give the pieces that count; the record first, since the rest is held against it."""
        accepted = []
        for one in sorted(sealed, key=lambda one: one.kind != "record"):
            piece = self._one(one, given)
            if piece is None:
                continue
            accepted.append(piece)
            if piece.kind == "record" and given.record is None:
                said = foreign_files.loads(piece.data)
                subject = subject_of(given.path, given.subject.sha256, said)
                given = replace(given, record=piece.data, subject=subject)
        return tuple(accepted)

    def _one(self, one: _Sealed, given: Given) -> Piece | None:
        """Take the file from the first place that has it."""
        for offer in one.offers:
            if self.deadline.is_over:
                self.refused.notes.add(pieces.OVER)
                return None
            try:
                _require_role(one, self.trust)
                return self._piece(one, offer, given)
            except (OSError, DlcontainerError) as error:
                self.refused.add(offer, error)
        return None

    def _piece(self, one: _Sealed, offer: Offer, given: Given) -> Piece:
        """Require of a file all that makes it count; raises ChecksFailedError."""
        kind, says = one.kind, one.says
        if not 0 <= says.size <= MOST_BYTES:
            raise keys.unsigned("its file is too large", f"{says.size} bytes")
        data = offer.file(Wanted(most=min(says.size, self.room.left), sha256=says.sha256))
        if says.sha256 != hashlib.sha256(data).hexdigest() or says.size != len(data):
            raise keys.unsigned("its file was changed after it was signed", "another SHA-256")
        kinds.require_about(kind, data, given.subject)
        if kind == "record" and given.record and not record.is_same(given.record, data):
            raise keys.unsigned("the record beside the image is another one", "it was changed")
        # These signatures alone: what strangers wrote around them is left out.
        sealed = envelope.text(one.payload, map(one.certified, one.signed))
        self.room.take(len(data) + len(sealed))
        return Piece(kind=kind, data=data, envelope=sealed)


def _require_role(one: _Sealed, trust: Trust) -> None:
    """Require a signer whose key counts for this kind; raises ChecksFailedError."""
    role = role_of(one.kind)
    counting = {key.id for key in trust.keys_for(role)}
    if any(each.key.id in counting for each in one.signed):
        return
    known = {key.id for key in trust.keys_besides(role)}
    whose = [each.key.where for each in one.signed if each.key.id in known]
    if whose:
        raise keys.unsigned(f"its signer's key does not count for {one.kind}", ", ".join(whose))
    raise keys.unsigned("it is signed by nobody who is trusted", "")


def _require_kinds(
    path: Path, wanted: Iterable[Kind], accepted: Iterable[Piece], refused: _Refused
) -> None:
    there = {piece.kind for piece in accepted}
    missing = [kind for kind in wanted if kind not in there]
    if not missing:
        return
    reasons = [text for kind in missing for text in refused.by_kind.get(kind, ())]
    raise ChecksFailedError(
        f"{path} has no evidence that counts: {', '.join(missing)}",
        why="\n       ".join(reasons) or "nobody signed such evidence for this image",
        next_step="ask those who made it: dlcontainer evidence attest IMAGE --key FILE KIND=FILE",
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
