"""What must hold of an image: statements, kinds and demands, with an engine that only answers."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.errors import ChecksFailedError, ConfigError
from dlcontainer.evidence import envelope, folder, keys, kinds, policy, signing, statement
from dlcontainer.evidence.image_signature import SignatureEngine
from dlcontainer.evidence.kinds import KINDS, EvidenceSubject, Kind
from dlcontainer.evidence.pieces import Piece
from dlcontainer.evidence.policy import EvidenceDemand, OpenImage
from dlcontainer.evidence.signing import EvidenceSource, Sealer
from dlcontainer.evidence.trust_anchors import TrustAnchors, TrustedKey
from dlcontainer.system.process import CommandFailedError, CompletedCommand
from tests.fakes import RecordingRunner, completed
from tests.publishing import Quiet, image_of
from tests.signers import Pair, pair, pieces_in

SHA, PLAN, OLD = "a" * 64, "b" * 64, "c" * 64
SUBJECT = EvidenceSubject(name="x.sif", sha256=SHA, earlier=OLD, plan=PLAN)
RECORD = {
    "schema": "dlcontainer/record/1",
    "digest": PLAN,
    "image": {"sha256": SHA},
    "signed": {"unsigned_sha256": OLD},
}


@pytest.fixture
def signer(tmp_path: Path) -> Pair:
    return pair(tmp_path, "release")


@pytest.fixture
def sealer(signer: Pair) -> Sealer:
    return Sealer(key=keys.read_private(signer.private))


def engine(tmp_path: Path, *answers: CompletedCommand | Exception) -> SignatureEngine:
    runner = RecordingRunner(answers=list(answers))
    return SignatureEngine(
        program=Apptainer(program=Path("/opt/apptainer")),
        start=lambda inherited: runner,
        environ={},
        scratch=tmp_path,
    )


def trusting(*pairs: Pair) -> TrustAnchors:
    return TrustAnchors(keys=tuple(TrustedKey(key=keys.read_public(one.public)) for one in pairs))


def failed(said: str) -> CommandFailedError:
    return CommandFailedError(replace(completed("verify"), returncode=255, stderr=said))


def data_of(kind: Kind, *, plan: str = PLAN, image: str = SHA) -> bytes:
    declared = {"plan_digest": plan, "image_sha256": image}
    bodies: dict[Kind, Any] = {
        "record": {**RECORD, "digest": plan, "image": {"sha256": image}},
        "bill": {"bomFormat": "CycloneDX"},
        "validate": {"schema": "dlcontainer/validate/1", "ok": True, "plan": plan, "sha256": image},
        "proof": {"schema": "dlcontainer/proof/1", "content": {"image": {"plan": plan}}},
        "bench": {"kind": "session", "declared": declared},
        "report": "<p>",
    }
    return json.dumps(bodies[kind]).encode()


def given(*pieces: Piece, record: bytes | None = None) -> OpenImage:
    offers = [piece.offer for piece in pieces]
    return OpenImage(path=Path("x.sif"), image=0, subject=SUBJECT, record=record, offers=offers)


def made(kind: Kind, sealer: Sealer, **about: str) -> Piece:
    subject = replace(SUBJECT, sha256=about.get("image", SHA), plan=about.get("plan", PLAN))
    return signing.piece_of(kind, data_of(kind, **about), subject, sealer)


@pytest.fixture
def check(tmp_path: Path, signer: Pair) -> Callable[..., policy.PolicyResult]:
    trust = trusting(signer)

    def check(*pieces: Piece, wanted: tuple[Kind, ...] = (), **more: Any) -> policy.PolicyResult:
        demand = EvidenceDemand(kinds=wanted)
        return policy.check(given(*pieces, **more), trust, demand, engine(tmp_path))

    return check


def test_each_kind_counts_when_it_is_of_this_image(
    sealer: Sealer, check: Callable[..., policy.PolicyResult]
) -> None:
    pieces = [made(kind, sealer) for kind in KINDS]
    verified = check(*pieces, wanted=KINDS)
    assert {piece.kind for piece in verified.evidence} == set(KINDS)
    assert verified.refused == ()
    assert verified.signer is None


@pytest.mark.parametrize("kind", ["record", "validate", "proof", "bench"])
def test_of_another_plan_or_image_it_is_not_signed(kind: Kind, sealer: Sealer) -> None:
    with pytest.raises(ChecksFailedError, match="belongs to another image"):
        signing.piece_of(kind, data_of(kind, plan="d" * 64), SUBJECT, sealer)
    if kind == "bench":
        assert signing.piece_of(kind, data_of(kind, image=OLD), SUBJECT, sealer)
    if kind != "proof":
        with pytest.raises(ChecksFailedError, match="belongs to another image"):
            signing.piece_of(kind, data_of(kind, image="d" * 64), SUBJECT, sealer)


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        ("validate", '{"schema": "dlcontainer/validate/1", "ok": false}', "a failed check"),
        ("validate", '{"schema": "dlcontainer/validate/2"}', "its schema is not"),
        ("record", "[]", "not a JSON object"),
        ("bill", "{}", "not a CycloneDX bill of materials"),
        ("proof", '{"schema": "dlcontainer/proof/1"}', "'content' is missing"),
        ("bench", "{}", "'declared' is missing"),
        ("bench", "", "Expecting value"),
    ],
)
def test_files_that_are_no_such_evidence(kind: Kind, text: str, why: str) -> None:
    with pytest.raises(ChecksFailedError) as caught:
        kinds.require_about(kind, text.encode(), SUBJECT)
    assert why in str(caught.value)


def test_what_does_not_count_and_why(
    tmp_path: Path, sealer: Sealer, check: Callable[..., policy.PolicyResult]
) -> None:
    stranger = Sealer(key=keys.read_private(pair(tmp_path, "stranger").private))
    good = made("bench", sealer)
    odd = {
        "no trusted key signed it": made("bench", stranger),
        "belongs to another image": made("bench", sealer, image="d" * 64),
        "its file was changed": replace(good, data=good.data + b"\n"),
        "signed as another kind": replace(made("report", sealer), kind="bench"),
        "not a signed envelope": replace(good, envelope=b"{}"),
    }
    for why, piece in odd.items():
        with pytest.raises(ChecksFailedError) as caught:
            check(piece, wanted=("bench",))
        assert why in str(caught.value)
        assert "has no evidence that counts: bench" in str(caught.value)
        # One that is good beside it is enough: nobody can block a release with a bad one.
        verified = check(piece, good, wanted=("bench",))
        assert verified.evidence == (good,)
        assert why in verified.refused[0]
    with pytest.raises(ChecksFailedError, match="counts: proof, report"):
        check(good, wanted=("bench", "proof", "report"))


def test_the_record_beside_must_be_the_signed_one(
    sealer: Sealer, check: Callable[..., policy.PolicyResult]
) -> None:
    record = made("record", sealer)
    assert check(record, wanted=("record",), record=record.data)
    with pytest.raises(ChecksFailedError) as caught:
        check(record, wanted=("record",), record=record.data + b" ")
    assert "the record beside the image is not the signed one" in str(caught.value)


def test_without_a_signer_nothing_is_believed(tmp_path: Path, sealer: Sealer) -> None:
    with pytest.raises(ChecksFailedError, match="no trusted signer is given"):
        policy.check(
            given(made("bench", sealer)), TrustAnchors(), EvidenceDemand(), engine(tmp_path)
        )


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        ("FATAL: integrity: data object integrity compromised: 1", "was changed after"),
        ("FATAL: signature not found for object group 1", "is not signed"),
        ("FATAL: openpgp: signature made by unknown entity", "is signed by somebody else"),
        ("FATAL: object 4: object not signed", "contains an unsigned part"),
        ("FATAL: something new", "has an invalid signature"),
    ],
)
def test_the_engine_s_words_are_explained(
    tmp_path: Path, signer: Pair, said: str, meaning: str
) -> None:
    trust = trusting(signer)
    with pytest.raises(ChecksFailedError) as caught:
        policy.check(given(), trust, EvidenceDemand(signed=True), engine(tmp_path, failed(said)))
    assert meaning in str(caught.value)
    assert said.removeprefix("FATAL: ") in str(caught.value)


def test_the_second_key_may_be_the_signer_s(tmp_path: Path, signer: Pair) -> None:
    both = trusting(pair(tmp_path, "other"), signer)
    answers = (failed("FATAL: do not match threshold"), completed("verify"))
    verified = policy.check(given(), both, EvidenceDemand(signed=True), engine(tmp_path, *answers))
    assert verified.signer is not None
    assert verified.signer.key == both.keys[1].key


def test_signing_changes_image_and_record_together(tmp_path: Path, sealer: Sealer) -> None:
    image = image_of(tmp_path / "images")
    before = image.read_bytes()
    hand = signing.ImageSigner(
        put=lambda copy: copy.write_bytes(copy.read_bytes() + b"signature"),  # type: ignore[arg-type]
        by="the test",
        sealer=sealer,
    )
    signed = signing.sign(image, hand, RecordingRunner(), Quiet())
    assert image.read_bytes() == before + b"signature"
    written = json.loads(image.with_suffix(".json").read_text())
    assert written["image"] == {"sha256": signed.sha256, "size": len(before) + 9}
    assert written["signed"]["unsigned_sha256"] == signed.unsigned_sha256
    (piece,) = pieces_in(folder.beside(image))
    said = statement.read(envelope.read(piece.envelope, "x").payload, "x")
    assert (said.kind, said.image) == ("record", signed.sha256)
    # Killed between record and image: the next run takes the image of before.
    image.write_bytes(before)
    assert signing.sign(image, hand, RecordingRunner(), Quiet()).sha256 == signed.sha256
    image.write_bytes(b"\0".join((before, b"other")))
    with pytest.raises(ChecksFailedError, match="does not match its record"):
        signing.sign(image, hand, RecordingRunner(), Quiet())


def test_a_signing_that_fails_changes_nothing(tmp_path: Path, sealer: Sealer) -> None:
    image = image_of(tmp_path / "images")
    there = {path: path.read_bytes() for path in image.parent.iterdir()}

    def fail(copy: Path) -> None:
        raise ConfigError("no key")

    hand = signing.ImageSigner(put=fail, by="the test", sealer=sealer)
    with pytest.raises(ConfigError, match="no key"):
        signing.sign(image, hand, RecordingRunner(), Quiet())
    assert {path: path.read_bytes() for path in image.parent.iterdir()} == there
    other = tmp_path / "other.json"
    other.write_bytes(data_of("validate", plan="d" * 64))
    with pytest.raises(ChecksFailedError, match="belongs to another image"):
        signing.attest(image, [EvidenceSource(kind="validate", path=other)], sealer)
    assert {path: path.read_bytes() for path in image.parent.iterdir()} == there
