"""What was verified is what goes live: an owner who rewrites the image meanwhile gains nothing."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.errors import PublishError
from dlcontainer.evidence import folder, keys, signing
from dlcontainer.evidence.image_signature import SignatureEngine
from dlcontainer.evidence.kinds import EvidenceSubject
from dlcontainer.evidence.policy import EvidenceDemand
from dlcontainer.evidence.signing import Sealer
from dlcontainer.evidence.trust_anchors import TrustAnchors, TrustedKey
from dlcontainer.publish.offered import PublishCandidate
from dlcontainer.publish.signed import SignatureDemand
from dlcontainer.system.process import CommandFailedError
from tests.fakes import completed
from tests.publishing import BOTH, hidden, image_of, put, seen
from tests.signers import pair


@dataclass
class Signatures:
    """An engine that knows signed bytes; `before` and `after` it looks, others act."""

    tmp: Path
    sealer: Sealer
    good: bytes = b""
    before: Callable[[], object] = lambda: None
    after: Callable[[], object] = lambda: None
    said: list[str] = field(default_factory=list)

    def _run(self, argv: list[str], **_: Any) -> Any:
        self.before()
        data = Path(argv[-1]).read_bytes()
        self.after()
        if data == self.good:
            return completed("verify")
        failed = replace(completed("verify"), returncode=255, stderr="FATAL: signature not found")
        raise CommandFailedError(failed)

    @property
    def asking(self) -> SignatureDemand:
        engine = SignatureEngine(
            program=Apptainer(program=Path("/opt/apptainer")),
            start=lambda inherited: self._run,  # type: ignore[arg-type,return-value]
            environ={},
            scratch=self.tmp,
        )
        return SignatureDemand(
            trust=TrustAnchors(keys=(TrustedKey(key=self.sealer.key.public),)),
            demand=EvidenceDemand(signed=True),
            engine=lambda: engine,
            note=self.said.append,
        )

    def publish(self, image: Path, root: Path, **more: Any) -> None:
        asking = self.asking

        def verify(given: PublishCandidate) -> dict[str, bytes]:
            held = asking.of_offered(given).evidence
            return {name: data for piece in held for name, data in piece.files.items()}

        put(image, root, verify=verify, admit=asking.admit, **more)


@pytest.fixture
def engine(tmp_path: Path) -> Signatures:
    return Signatures(
        tmp=tmp_path, sealer=Sealer(key=keys.read_private(pair(tmp_path, "own").private))
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "modules"


def rewritten(image: Path, data: bytes) -> None:
    """Write other bytes into the same file, as its owner can while somebody has it open."""
    with image.open("r+b") as file:
        file.write(data)
        file.truncate()


def two(tmp_path: Path) -> tuple[Path, bytes, bytes]:
    """Give an image that nobody signed, with its record, and the bytes of a signed one."""
    image = image_of(tmp_path / "given", b"evil")
    signed = image_of(tmp_path / "signed", b"good")
    return image, image.read_bytes(), signed.read_bytes()


def none_is_live(root: Path) -> bool:
    return not (root / "current").exists() and not hidden(root)


def test_a_signed_image_is_published(engine: Signatures, root: Path, tmp_path: Path) -> None:
    image = image_of(tmp_path / "given", b"good")
    engine.good = image.read_bytes()
    engine.publish(image, root)
    assert seen(root) == BOTH


def test_what_is_verified_must_be_the_record_s(
    engine: Signatures, root: Path, tmp_path: Path
) -> None:
    """Signed bytes while they are verified, those of the record when they are copied."""
    image, evil, engine.good = two(tmp_path)
    rewritten(image, engine.good)
    engine.after = lambda: rewritten(image, evil)
    with pytest.raises(PublishError, match="does not match its record"):
        engine.publish(image, root)
    assert none_is_live(root)


def test_bytes_that_are_signed_only_while_the_engine_looks(
    engine: Signatures, root: Path, tmp_path: Path
) -> None:
    """The SHA-256 before is the record's, and so is the copy's: the copy itself is verified."""
    image, evil, engine.good = two(tmp_path)
    engine.before = lambda: rewritten(image, engine.good)
    engine.after = lambda: rewritten(image, evil)
    with pytest.raises(PublishError) as caught:
        engine.publish(image, root)
    assert "demo/1.0 does not become live" in caught.value.what
    assert "is not signed" in str(caught.value.why)
    assert none_is_live(root)
    assert list((root / "releases").iterdir()) == []


def test_an_unpacked_image_is_made_of_what_was_verified(
    engine: Signatures, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dlcontainer.publish.unpacked import unpack

    image, evil, engine.good = two(tmp_path)
    engine.before = lambda: rewritten(image, engine.good)
    engine.after = lambda: rewritten(image, evil)

    class Never:
        @staticmethod
        def of(*_: object) -> None:
            raise AssertionError("an image that is not signed was unpacked")

    monkeypatch.setattr(unpack, "SquashfsTree", Never)
    with pytest.raises(PublishError, match="is not signed"):
        engine.publish(image, root, unpacked=True)
    assert none_is_live(root)


def test_the_record_that_was_opened_is_the_one_that_is_judged(
    engine: Signatures, root: Path, tmp_path: Path
) -> None:
    """A second record, put there meanwhile, is neither verified nor published."""
    image = image_of(tmp_path / "given", b"good")
    engine.good = image.read_bytes()
    record = image.with_suffix(".json")
    first = record.read_bytes()
    body = json.loads(first)
    subject = EvidenceSubject(name="x", sha256=body["image"]["sha256"], plan=body["digest"])
    folder.write(folder.beside(image), signing.piece_of("record", first, subject, engine.sealer))
    engine.before = lambda: record.write_bytes(b"{}")

    asking = engine.asking
    seen_as: list[bytes | None] = []

    def verify(given: PublishCandidate) -> dict[str, bytes]:
        record.write_bytes(b'{"another": 1}')
        held = asking.of_offered(given).evidence
        seen_as.extend(piece.data for piece in held)
        return {name: data for piece in held for name, data in piece.files.items()}

    done = put(image, root, verify=verify, admit=asking.admit)
    assert seen_as == [first]
    assert (done.folder / "record.json").read_bytes() == first


def test_an_unpacked_release_can_t_be_verified_later(
    engine: Signatures, root: Path, tmp_path: Path
) -> None:
    from dlcontainer.publish.open_folder import Folder

    image = image_of(tmp_path / "given", b"good")
    done = put(image, root)
    (done.folder / "tree").mkdir()
    with (
        Folder.at(done.folder) as release,
        pytest.raises(PublishError, match="does not become live") as caught,
    ):
        engine.asking.admit(release, "demo/1.0")
    assert "it is an unpacked image" in str(caught.value.why)
