"""Evidence of strangers, beside an image or in its registry: it stops nothing and fills nothing."""

import base64
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.errors import ChecksFailedError
from dlcontainer.evidence import envelope, folder, keys, pieces, policy, signing
from dlcontainer.evidence.image_signature import SignatureEngine
from dlcontainer.evidence.kinds import EvidenceSubject
from dlcontainer.evidence.pieces import EvidenceOffer, Piece, PieceLimit
from dlcontainer.evidence.policy import EvidenceDemand, OpenImage, PolicyResult
from dlcontainer.evidence.signing import Sealer
from dlcontainer.evidence.trust_anchors import TrustAnchors, TrustedKey
from dlcontainer.system.process import CommandFailedError
from tests.fakes import completed
from tests.signers import Authority, pair

PEM = serialization.Encoding.PEM
SHA = "a" * 64
SUBJECT = EvidenceSubject(name="x.sif", sha256=SHA, plan="b" * 64)
HUGE = 10_000_000_000


@dataclass
class Verifying:
    """An engine that finds good the keys or certificates that it is told; it notes what it saw."""

    tmp: Path
    good: tuple[bytes, ...]
    seen: list[bytes] = field(default_factory=list)

    @property
    def engine(self) -> SignatureEngine:
        return SignatureEngine(
            program=Apptainer(program=Path("/opt/apptainer")),
            start=lambda inherited: self._run,  # type: ignore[arg-type,return-value]
            environ={},
            scratch=self.tmp,
        )

    def _run(self, argv: list[str], **_: Any) -> Any:
        assert argv[2:4] == ["verify", "--all"]
        given = Path(argv[argv.index("--key" if "--key" in argv else "--certificate") + 1])
        self.seen.append(given.read_bytes())
        if self.seen[-1] in self.good:
            return completed("verify")
        raise CommandFailedError(replace(completed("verify"), returncode=255, stderr="FATAL: x"))


def sealer(folder: Path, name: str = "release") -> Sealer:
    return Sealer(key=keys.read_private(pair(folder, name).private))


def report(by: Sealer, text: str = "<p>") -> Piece:
    return signing.piece_of("report", text.encode(), SUBJECT, by)


def trusting(*sealers: Sealer) -> TrustAnchors:
    return TrustAnchors(keys=tuple(TrustedKey(key=one.key.public) for one in sealers))


def check(
    tmp: Path, trust: TrustAnchors, offers: Iterable[EvidenceOffer], *good: bytes, **demand: Any
) -> PolicyResult:
    given = OpenImage(path=Path("x.sif"), image=0, subject=SUBJECT, record=None, offers=offers)
    return policy.check(given, trust, EvidenceDemand(**demand), Verifying(tmp, good).engine)


def never(wanted: PieceLimit) -> bytes:
    raise AssertionError("a stranger's file was read")


def test_a_file_is_read_only_when_its_envelope_is_believed(tmp_path: Path) -> None:
    own, stranger = sealer(tmp_path), sealer(tmp_path, "stranger")
    good = report(own)
    foreign = [replace(report(stranger, str(n)).offer, file=never) for n in range(1500)]
    # All of them sort and come first.
    verified = check(tmp_path, trusting(own), [*foreign, good.offer], kinds=("report",))
    assert verified.evidence == (good,)
    assert len(verified.refused) == 21
    assert verified.refused[-1] == "and 1480 more"


def broken(error: Exception) -> Callable[..., bytes]:
    def read(*_: object) -> bytes:
        raise error

    return read


def test_what_can_t_be_read_stops_no_other(tmp_path: Path) -> None:
    own = sealer(tmp_path)
    good, other = report(own), report(own, "another")
    odd = [
        replace(good.offer, envelope=broken(OSError(5, "Input/output error"))),
        replace(good.offer, envelope=broken(ChecksFailedError("sends more than it said"))),
        replace(good.offer, file=broken(OSError(2, "No such file or directory"))),
        replace(good.offer, file=broken(ChecksFailedError("announces a part of 10 GB"))),
        replace(good.offer, file=lambda wanted: b"other bytes"),
        replace(good.offer, envelope=lambda: b"[" * 100_000),
        replace(good.offer, kind="bench"),
    ]
    verified = check(tmp_path, trusting(own), [*odd, good.offer, other.offer], kinds=("report",))
    assert set(verified.evidence) == {good, other}
    for why in (
        "Input/output error",
        "sends more",
        "No such file",
        "10 GB",
        "its file was changed",
    ):
        assert why in "\n".join(verified.refused)


def test_a_list_that_breaks_off_stops_nothing_before_it(tmp_path: Path) -> None:
    own = sealer(tmp_path)
    good = report(own)

    def offers() -> Iterable[EvidenceOffer]:
        yield good.offer
        raise ChecksFailedError("the registry went away")

    verified = check(tmp_path, trusting(own), offers(), kinds=("report",))
    assert verified.evidence == (good,)
    assert verified.refused == ("the registry went away",)


def padded(piece: Piece, number: int) -> bytes:
    """Write an envelope again, larger, with a junk certificate and a signature of nobody."""
    body = json.loads(piece.envelope)
    body["signatures"][0]["cert"] = "no certificate é" * number
    body["signatures"].append({"sig": base64.b64encode(b"x" * number).decode()})
    return json.dumps(body).encode() + b" " * 1_000_000


def copy_of(piece: Piece, number: int) -> EvidenceOffer:
    return replace(piece.offer, envelope=lambda: padded(piece, number), file=lambda _: b"<p")


def test_copies_of_good_evidence_use_up_nothing(tmp_path: Path) -> None:
    """A stranger's copies of the honest envelope, padded, each with a file of its own."""
    own = sealer(tmp_path)
    good = report(own)
    copies = [copy_of(good, number) for number in range(30)]
    verified = check(tmp_path, trusting(own), [*copies, good.offer], kinds=("report",))
    # The honest file, and around it the honest signature alone.
    assert verified.evidence == (good,)
    one = replace(copy_of(good, 3), file=good.offer.file)
    assert check(tmp_path, trusting(own), [one], kinds=("report",)).evidence == (good,)


def test_all_together_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = sealer(tmp_path)
    large, small = report(own, "x" * 3000), report(own, "<p>")
    monkeypatch.setattr(
        pieces.ByteAllowance, "__init__", lambda self: setattr(self, "remaining", 2500)
    )
    verified = check(tmp_path, trusting(own), [large.offer, small.offer])
    assert verified.evidence == (small,)
    notes = pieces.RefusalNotes(tell=lambda text: None)
    assert 0 < len(list(pieces.loaded([small.offer] * 20, notes))) < 20


def test_time_ends_it_and_says_so(tmp_path: Path) -> None:
    own = sealer(tmp_path)
    good, now = report(own), iter(range(0, 10_000, 100))
    given = OpenImage(
        path=Path("x"), image=0, subject=SUBJECT, record=None, offers=[good.offer] * 50
    )
    engine = Verifying(tmp_path, ()).engine
    verified = policy.check(given, trusting(own), EvidenceDemand(), engine, clock=lambda: next(now))
    assert verified.evidence == (good,)
    assert verified.refused == ("the rest was not read: the limit of 600 s was reached",)


def odd_certificates(tmp_path: Path) -> dict[str, bytes]:
    """Make certificates as strangers have them; the names say what is odd."""
    strange = Authority.made(tmp_path / "strange", "Somebody's CA")
    whole = strange.signer("x").public.read_bytes()
    old = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "old")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(1)
    parsed = x509.load_pem_x509_certificate(whole)
    dated = builder.not_valid_before(parsed.not_valid_before_utc).not_valid_after(
        parsed.not_valid_after_utc
    )
    edwards = ed25519.Ed25519PrivateKey.generate()
    by_old = dated.public_key(edwards.public_key()).sign(old, hashes.SHA256())
    # Its key's algorithm becomes one that nobody knows.
    unknown = by_old.public_bytes(serialization.Encoding.DER).replace(
        b"\x2b\x65\x70", b"\x2b\x65\x01"
    )
    curve = ec.generate_private_key(ec.SECP521R1())
    return {
        "junk": b"junk",
        "cut": whole[:200],
        "RSA": dated.public_key(old.public_key()).sign(old, hashes.SHA256()).public_bytes(PEM),
        "unknown algorithm": b"-----BEGIN CERTIFICATE-----\n"
        + base64.encodebytes(unknown)
        + b"-----END CERTIFICATE-----\n",
        "P-521": dated.public_key(curve.public_key())
        .sign(curve, hashes.SHA256())
        .public_bytes(PEM),
        "another authority": whole,
    }


def with_certificate(piece: Piece, certificate: bytes) -> EvidenceOffer:
    body = json.loads(piece.envelope)
    body["signatures"][0]["cert"] = certificate.decode()
    return replace(piece, envelope=json.dumps(body).encode()).offer


def certified(authority: Authority, name: str) -> Sealer:
    made = authority.signer(name)
    return Sealer(key=keys.read_private(made.private), certificate=made.public.read_bytes())


def test_strangers_certificates_use_up_nothing(tmp_path: Path) -> None:
    authority = Authority.made(tmp_path / "centre")
    trust = TrustAnchors(roots=authority.roots.read_bytes())
    own, stranger = certified(authority, "Release"), sealer(tmp_path, "stranger")
    assert own.certificate is not None
    good = report(own)
    odd = [
        with_certificate(report(stranger, name), one)
        for name, one in odd_certificates(tmp_path).items()
    ]
    strange = Authority.made(tmp_path / "another")
    many = [report(certified(strange, f"s{n}"), str(n)).offer for n in range(40)]
    # A good certificate, which anybody can copy, in an envelope that its key did not sign.
    copied = [with_certificate(report(stranger, str(n)), own.certificate) for n in range(40)]
    given = OpenImage(
        path=Path("x.sif"), image=0, subject=SUBJECT, record=None,
        offers=[*odd, *many, *copied, good.offer],
    )  # fmt: skip
    verifying = Verifying(tmp_path, (own.certificate,))
    verified = policy.check(given, trust, EvidenceDemand(signed=True), verifying.engine)
    assert verified.evidence == (good,)
    # The engine, which reads the whole image, was asked once.
    assert verifying.seen == [own.certificate]


def test_an_odd_certificate_around_a_good_signature_is_dropped(tmp_path: Path) -> None:
    own = sealer(tmp_path)
    good = report(own)
    for certificate in odd_certificates(tmp_path).values():
        offers = [with_certificate(good, certificate)]
        verified = check(tmp_path, trusting(own), offers, kinds=("report",))
        assert verified.evidence == (good,)


def test_each_certificate_of_the_authority_is_judged(tmp_path: Path) -> None:
    """Twelve signers of one CA: the engine finds the last one good."""
    authority = Authority.made(tmp_path / "centre")
    trust = TrustAnchors(roots=authority.roots.read_bytes())
    signers = [certified(authority, f"Release {n}") for n in range(12)]
    offers = [report(one, str(n)).offer for n, one in enumerate(signers)]
    last = signers[-1].certificate
    assert last is not None
    verified = check(tmp_path, trust, offers, last, signed=True)
    assert verified.signer is not None
    assert verified.signer.key is not None
    assert [piece.data for piece in verified.evidence] == [b"11"]


def test_a_certificate_counts_where_its_own_key_signed(tmp_path: Path) -> None:
    """Beside a believed key's signature, the certificates of others cost no look of the engine."""
    authority = Authority.made(tmp_path / "centre")
    bench, other = sealer(tmp_path, "bench"), certified(authority, "Another release")
    assert other.certificate is not None
    known = replace(trusting(bench), roots=authority.roots.read_bytes())
    verifying = Verifying(tmp_path, (bench.key.public.pem,))
    offers = [with_certificate(report(bench), other.certificate)]
    given = OpenImage(path=Path("x.sif"), image=0, subject=SUBJECT, record=None, offers=offers)
    verified = policy.check(given, known, EvidenceDemand(signed=True), verifying.engine)
    assert len(verified.evidence) == 1
    assert other.certificate.split(b"\n")[1] not in verified.evidence[0].envelope
    verifying = Verifying(tmp_path, ())
    with pytest.raises(ChecksFailedError):
        policy.check(given, known, EvidenceDemand(signed=True), verifying.engine)
    assert verifying.seen == [bench.key.public.pem]


def test_evidence_of_another_image_brings_no_certificate(tmp_path: Path) -> None:
    authority = Authority.made(tmp_path / "centre")
    own = certified(authority, "Release")
    other = replace(SUBJECT, sha256="d" * 64)
    old = signing.piece_of("report", b"<p>", other, own)
    with pytest.raises(
        ChecksFailedError, match="it came without a certificate from these authorities"
    ):
        check(tmp_path, TrustAnchors(roots=authority.roots.read_bytes()), [old.offer], signed=True)


@pytest.fixture
def beside(tmp_path: Path) -> tuple[Path, Piece, Sealer]:
    place, own = tmp_path / "x.evidence", sealer(tmp_path)
    good = report(own)
    folder.write(place, good)
    return place, good, own


def test_hostile_neighbours_in_a_folder(beside: tuple[Path, Piece, Sealer], tmp_path: Path) -> None:
    place, good, own = beside
    secret = tmp_path / "secret"
    secret.write_bytes(good.data)
    for n, kind in enumerate(("link", "fifo", "folder", "missing", "empty", "large", "bad name")):
        stem = f"bench-{n:012x}"
        (place / f"{stem}.dsse.json").write_bytes(good.envelope)
        file = place / f"{stem}.jsonl"
        if kind == "link":
            file.symlink_to(secret)
        elif kind == "fifo":
            os.mkfifo(file)
        elif kind == "folder":
            file.mkdir()
        elif kind == "empty":
            file.touch()
        elif kind == "large":
            file.touch()
            os.truncate(file, HUGE)
        elif kind == "bad name":
            (place / "bench-\n.dsse.json").write_bytes(good.envelope)
    for n in range(10):
        (place / f"report-{n:012x}.dsse.json").symlink_to(secret)
        os.mkfifo(place / f"report-{n + 100:012x}.dsse.json")
        (place / f"report-{n + 200:012x}.dsse.json").mkdir()
    for n in range(300):
        (place / f"bill-{n:012x}.dsse.json").write_text("{}")
    verified = check(tmp_path, trusting(own), folder.offers(place), kinds=("report",))
    assert verified.evidence == (good,)


def test_no_link_is_followed(beside: tuple[Path, Piece, Sealer], tmp_path: Path) -> None:
    """Neither that of a file nor that of an envelope, though what it leads to is good."""
    place, good, own = beside
    for name in good.files:
        (tmp_path / name).write_bytes((place / name).read_bytes())
        (place / name).unlink()
        (place / name).symlink_to(tmp_path / name)
        verified = check(tmp_path, trusting(own), folder.offers(place))
        assert verified.evidence == ()
        assert "it is a symbolic link" in "\n".join(verified.refused)
        (place / name).unlink()
        (place / name).write_bytes((tmp_path / name).read_bytes())
    assert check(tmp_path, trusting(own), folder.offers(place)).evidence == (good,)


@pytest.mark.parametrize("kind", ["file", "link into nothing", "nothing"])
def test_what_is_no_folder_of_evidence(kind: str, tmp_path: Path) -> None:
    place, own = tmp_path / "x.evidence", sealer(tmp_path)
    if kind == "file":
        place.touch()
    elif kind == "link into nothing":
        place.symlink_to(tmp_path / "none")
    verified = check(tmp_path, trusting(own), folder.offers(place))
    assert verified.evidence == ()
    assert len(verified.refused) == (kind == "file")


def test_every_part_of_an_image_must_be_signed(tmp_path: Path) -> None:
    """`Verifying` holds the words: without --all the engine looks at the first group alone."""
    own = sealer(tmp_path)
    assert check(tmp_path, trusting(own), [], own.key.public.pem, signed=True).signer
    with pytest.raises(ChecksFailedError, match="has an invalid signature"):
        check(tmp_path, trusting(own), [], signed=True)


def test_a_copied_signature_beside_another_is_one_envelope(tmp_path: Path) -> None:
    own = sealer(tmp_path)
    read = envelope.read(report(own).envelope, "x")
    doubled = envelope.Envelope(payload=read.payload, signatures=read.signatures * 3)
    assert len(doubled.signed_by([own.key.public])) == 1
