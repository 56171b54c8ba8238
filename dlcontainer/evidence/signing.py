"""Sign an image, and attest what was found out about it.

A signature is a part of the image's file, so signing changes its SHA-256: image and record change
together, and the record names the SHA-256 of before, by which earlier sessions know the image.
"""

import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import ChecksFailedError
from dlcontainer.evidence import envelope, folder, kinds, policy, statement
from dlcontainer.evidence.keys import SigningKey
from dlcontainer.evidence.kinds import MOST_BYTES, EvidenceSubject, Kind
from dlcontainer.evidence.pieces import Piece
from dlcontainer.evidence.policy import OpenImage
from dlcontainer.image import record, sbom, sif
from dlcontainer.image.record import RecordFile
from dlcontainer.system import atomic_files, digests, foreign_files, workspace
from dlcontainer.system.process import Runner
from dlcontainer.system.progress import Progress


@dataclass(frozen=True, kw_only=True, slots=True)
class Sealer:
    """The key that evidence is signed with, and the certificate that goes along."""

    key: SigningKey
    certificate: bytes | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageSigner:
    """The signer's hand: `put` signs a private copy of the image; `by` names the key.

    With a `sealer` the record and the bill of materials are attested too.
    """

    put: Callable[[Path], None]
    by: str
    sealer: Sealer | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SigningResult:
    """An image that was signed: its SHA-256 now and before, and the evidence written with it."""

    sha256: str
    unsigned_sha256: str
    evidence: tuple[str, ...]


def opened(image: Path, number: int, *, note: Callable[[str], None] | None = None) -> OpenImage:
    """Read what lies beside an open image; raises ChecksFailedError."""
    return beside(image, number, record.opened(record.beside(image)), note=note)


def beside(
    image: Path,
    number: int,
    file: RecordFile | None,
    *,
    note: Callable[[str], None] | None = None,
) -> OpenImage:
    """Return an open image with its record, read before, and the evidence beside it."""
    sha256 = digests.of_open(number, tell=note)
    return OpenImage(
        path=image,
        image=number,
        subject=policy.subject_of(image, sha256, file.body if file else None),
        record=file.data if file else None,
        offers=folder.offers(folder.beside(image)),
    )


def sign(image: Path, hand: ImageSigner, runner: Runner, progress: Progress) -> SigningResult:
    """Sign an image in its place, and its record with it; raises ChecksFailedError.

    Killed anywhere, the
    image is the unsigned or the signed one, and the next run works.
    """
    image = image.resolve()
    _require_unsigned(image)
    file = record.opened(record.beside(image))
    if file is None:
        raise ChecksFailedError(
            f"{image.name} has no record: there is no {record.beside(image).name} beside it",
            next_step=record.copy_too(record.beside(image)),
        )
    with workspace.workspace(image.parent, runner, progress.note, hands_on=True) as aside:
        copy = aside / image.name
        progress.step(f"sign {image.name}")
        before = _copied(image, copy, progress)
        _require_same(image, before, file.body)
        hand.put(copy)
        sha256 = digests.of_file(copy)
        body = _signed_record(file.body, copy, sha256, before, hand.by)
        data = (json.dumps(body, indent=1) + "\n").encode()
        pieces = _own_evidence(image, data, sha256, hand.sealer)
        with workspace.settling(image.parent):
            for piece in pieces:
                folder.write(folder.beside(image), piece)
            atomic_files.write(record.beside(image), data)
            workspace.settle(copy, image)
    names = tuple(piece.file for piece in pieces)
    return SigningResult(sha256=sha256, unsigned_sha256=before, evidence=names)


def attest(image: Path, sources: Sequence["EvidenceSource"], sealer: Sealer) -> list[str]:
    """Sign files as evidence about an image and put them beside it; return their names.

    Raises ChecksFailedError for a file that is of another kind, or of another image; then nothing
    is written.
    """
    image = image.resolve()
    with foreign_files.opened(image, follow=False) as file:
        about = opened(image, file.fileno())
    _require_record(about)
    pieces = [
        piece_of(source.kind, _read(source.path), about.subject, sealer, where=str(source.path))
        for source in sources
    ]
    for piece in pieces:
        folder.write(folder.beside(image), piece)
    return [piece.file for piece in pieces]


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceSource:
    """A file that is to become evidence."""

    kind: Kind
    path: Path


def piece_of(
    kind: Kind, data: bytes, subject: EvidenceSubject, sealer: Sealer, *, where: str = ""
) -> Piece:
    """Sign one file as evidence; raises ChecksFailedError where it is of another image."""
    try:
        kinds.require_about(kind, data, subject)
    except ChecksFailedError as error:
        error.where = where or None
        raise
    claims = statement.Statement(
        kind=kind,
        image=subject.sha256,
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
    )
    text = statement.text(claims, subject.name)
    return Piece(
        kind=kind, data=data, envelope=envelope.sealed(text, sealer.key, sealer.certificate)
    )


def _require_unsigned(image: Path) -> None:
    if any(part.kind == "signature" for part in sif.parts(image)):
        raise ChecksFailedError(
            f"{image} is already signed",
            why="the engine accepts an image only if one key verifies all its signatures",
            next_step=f"see who signed it: dlcontainer evidence verify {image}; to sign it with "
            "another key, build it again or use an unsigned copy",
        )


def _copied(image: Path, copy: Path, progress: Progress) -> str:
    with foreign_files.opened(image, follow=False) as source, copy.open("xb") as target:
        sha256 = digests.of_open(source, write=target.write, tell=progress.phase)
        os.fchmod(target.fileno(), stat.S_IMODE(os.fstat(source.fileno()).st_mode) | 0o600)
    return sha256


def _require_same(image: Path, sha256: str, body: Mapping[str, object]) -> None:
    # Killed between record and image, a signing leaves the record of the signed one.
    subject = policy.subject_of(image, sha256, body)
    named = body.get("image")
    digest = named.get("sha256") if isinstance(named, dict) else None
    if sha256 not in (digest, subject.earlier):
        raise ChecksFailedError(
            f"{image} does not match its record",
            why=f"its SHA-256 is {sha256[:12]}…, the record has {str(digest)[:12]}…",
            next_step="build it again, or copy it again together with its record",
        )


def _signed_record(
    body: Mapping[str, object], copy: Path, sha256: str, before: str, by: str
) -> dict[str, object]:
    image = body.get("image")
    assert isinstance(image, dict)  # noqa: S101 - the model holds it
    return {
        **body,
        "image": {**image, "sha256": sha256, "size": copy.stat().st_size},
        "signed": {
            "by": by,
            "unsigned_sha256": before,
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        },
    }


def _own_evidence(
    image: Path, data: bytes, sha256: str, sealer: Sealer | None
) -> tuple[Piece, ...]:
    """Attest the new record, and the bill if there is one."""
    if sealer is None:
        return ()
    subject = policy.subject_of(image, sha256, json.loads(data))
    pieces = [piece_of("record", data, subject, sealer)]
    bill = image.with_suffix(sbom.SUFFIX)
    if bill.exists():
        pieces.append(piece_of("bill", _read(bill), subject, sealer, where=str(bill)))
    return tuple(pieces)


def _require_record(about: OpenImage) -> None:
    if about.record is None or about.subject.plan is None:
        raise ChecksFailedError(
            f"{about.path.name} has no record beside it",
            why="evidence is checked against the image's plan",
            next_step=record.copy_too(record.beside(about.path)),
        )
    kinds.require_about("record", about.record, about.subject)


def _read(path: Path) -> bytes:
    try:
        return foreign_files.read(path, MOST_BYTES)
    except OSError as error:
        raise ChecksFailedError(
            f"can't read {path}: {error.strerror}", next_step="give the path of a readable file"
        ) from None
