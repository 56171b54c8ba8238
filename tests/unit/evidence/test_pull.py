"""Pull: what anybody may have pushed beside an image stops nothing, and is not even fetched."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from dlcontainer.errors import ChecksFailedError
from dlcontainer.evidence import artifact, keys, kinds, signing
from dlcontainer.evidence.artifact import NOTHING, Blob
from dlcontainer.evidence.kinds import EvidenceSubject
from dlcontainer.evidence.pieces import Piece
from dlcontainer.evidence.policy import EvidenceDemand
from dlcontainer.evidence.pull import PullContext, PullResult, pull
from dlcontainer.evidence.signing import Sealer
from dlcontainer.evidence.trust_anchors import TrustAnchors, TrustedKey
from dlcontainer.registry import referrers
from dlcontainer.registry.artifacts import MANIFEST, ArtifactClient
from dlcontainer.registry.connection import RegistryAccess
from tests import fakeartifacts
from tests.fakeartifacts import NAME, FakeArtifacts
from tests.fakeregistry import sha256
from tests.fakes import RecordingRunner
from tests.publishing import Quiet
from tests.signers import pair
from tests.unit.evidence.test_strangers import Verifying

IMAGE = b"an image"
HUGE = 10_000_000_000


@dataclass
class World:
    """A registry with an image, and the honest release engineer's evidence about it."""

    fake: FakeArtifacts
    tmp: Path
    own: Sealer
    stranger: Sealer
    progress: Quiet = field(default_factory=Quiet)

    @property
    def image(self) -> Blob:
        return artifact.of(IMAGE, artifact.SIF_LAYER)

    @property
    def manifest(self) -> Blob:
        return artifact.of(artifact.of_image(self.image, "x.sif"), MANIFEST)

    def client(self, *, pushes: bool = False) -> ArtifactClient:
        return ArtifactClient(
            reference=self.fake.reference(), access=RegistryAccess(), pushes=pushes
        )

    def put_image(self) -> None:
        body = artifact.of_image(self.image, "x.sif")
        self.fake.blobs |= {self.image.digest: IMAGE, sha256(NOTHING): NOTHING}
        self.fake.manifests |= {"1": body, self.manifest.digest: body}

    def piece(self, by: Sealer, text: str) -> Piece:
        subject = EvidenceSubject(name="x.sif", sha256=hashlib.sha256(IMAGE).hexdigest())
        return signing.piece_of("report", text.encode(), subject, by)

    def put(self, piece: Piece, subject: Blob | None = None) -> None:
        """Push a piece as `push` does."""
        for data in (piece.envelope, piece.data):
            self.fake.blobs[sha256(data)] = data
        self.attach(artifact.of_evidence(piece, subject or self.manifest))

    def attach(self, body: bytes) -> None:
        with self.client(pushes=True) as client:
            referrers.attach(client, self.manifest.digest, body, kinds.artifact_type("report"))

    def pull(self, *, trusted: bool = True) -> PullResult:
        keys = (TrustedKey(key=self.own.key.public),) if trusted else ()
        engine = Verifying(self.tmp, (self.own.key.public.pem,)).engine
        with self.client() as client:
            context = PullContext(
                client=client,
                trust=TrustAnchors(keys=keys),
                demand=EvidenceDemand(kinds=("report",)) if trusted else EvidenceDemand(),
                engine=engine if trusted else None,
                runner=RecordingRunner(),
                progress=self.progress,
            )
            return pull(self.tmp / "place/x.sif", context)

    def fetched(self, data: bytes) -> bool:
        return f"GET /v2/{NAME}/blobs/{sha256(data)}" in self.fake.asked


@pytest.fixture(params=[False, True], ids=["an index", "a list"])
def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    (tmp_path / "place").mkdir()
    own, stranger = (
        Sealer(key=keys.read_private(pair(tmp_path, name).private)) for name in ("own", "other")
    )
    with fakeartifacts.serving() as fake:
        fake.lists = request.param
        made = World(fake=fake, tmp=tmp_path, own=own, stranger=stranger)
        made.put_image()
        yield made


def test_a_stranger_s_file_is_not_fetched(world: World) -> None:
    good, foreign = world.piece(world.own, "good"), world.piece(world.stranger, "foreign")
    for piece in (foreign, good):
        world.put(piece)
    done = world.pull()
    assert done.verified.evidence == (good,)
    assert world.fetched(good.data)
    assert world.fetched(foreign.envelope)
    assert not world.fetched(foreign.data)
    assert (world.tmp / "place/x.sif").read_bytes() == IMAGE


def hostile(world: World, kind: str) -> bytes:
    """Write a stranger's manifest; the honest piece's own envelope makes it more believable."""
    good = world.piece(world.own, "good")
    body = json.loads(artifact.of_evidence(good, world.manifest))
    first, second = body["layers"]
    if kind == "huge envelope":
        first["size"] = HUGE
    elif kind == "huge file":
        second["size"] = HUGE
    elif kind == "missing envelope":
        first["digest"] = f"sha256:{'0' * 64}"
    elif kind == "missing file":
        second["digest"] = f"sha256:{'0' * 64}"
    elif kind in ("other bytes", "other bytes of the envelope"):
        one = second if kind == "other bytes" else first
        one["digest"] = sha256(kind.encode())
        world.fake.blobs[one["digest"]] = b"something else"
    elif kind == "no layers":
        body["layers"] = []
    elif kind == "another file":
        world.fake.blobs[sha256(b"another")] = b"another"
        second |= {"digest": sha256(b"another"), "size": 7}
    elif kind == "another image":
        body["subject"]["digest"] = f"sha256:{'1' * 64}"
    body["note"] = "of a stranger" * (500_000 if kind == "huge manifest" else 1)
    return json.dumps(body).encode()


KINDS = [
    "huge envelope", "huge file", "missing envelope", "missing file", "other bytes",
    "other bytes of the envelope", "no layers", "another file",
    "huge manifest",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_referrer_stops_nothing(world: World, kind: str) -> None:
    good = world.piece(world.own, "good")
    world.attach(hostile(world, kind))
    world.put(good)
    done = world.pull()
    assert done.verified.evidence == (good,)
    assert done.verified.refused or world.progress.said
    assert (world.tmp / "place/x.sif").read_bytes() == IMAGE


@pytest.mark.parametrize("kind", KINDS)
def test_nor_where_nothing_is_verified(world: World, kind: str) -> None:
    good = world.piece(world.own, "good")
    world.attach(hostile(world, kind))
    world.put(good)
    assert good in world.pull(trusted=False).verified.evidence


def test_a_referrer_of_another_image_does_not_count(world: World) -> None:
    """Listed under this image, its subject is another; the envelope and the file are good."""
    good = world.piece(world.own, "good")
    for data in (good.envelope, good.data):
        world.fake.blobs[sha256(data)] = data
    body = hostile(world, "another image")
    world.fake.manifests[sha256(body)] = body
    entry = {
        "digest": sha256(body),
        "size": len(body),
        "artifactType": kinds.artifact_type("report"),
    }
    index = json.dumps({"manifests": [entry]}).encode()
    world.fake.lists = False
    world.fake.manifests[referrers.tag_of(world.manifest.digest)] = index
    with pytest.raises(ChecksFailedError, match="has no evidence that counts: report"):
        world.pull()
    assert f"but it refers to sha256:{'1' * 64}" in "\n".join(world.progress.said)
    assert not list((world.tmp / "place").iterdir())


def test_more_referrers_than_a_list_used_to_hold(world: World) -> None:
    """1,200 strangers' entries that come first; each is a question, none an end."""
    good = world.piece(world.own, "good")
    world.put(good)
    tag = referrers.tag_of(world.manifest.digest)
    world.fake.lists = False
    kind = kinds.artifact_type("report")
    body = artifact.of_evidence(good, world.manifest)
    entries = [{"digest": f"sha256:{n:064x}", "size": 1, "artifactType": kind} for n in range(1200)]
    entries.append({"digest": sha256(body), "size": len(body), "artifactType": kind})
    world.fake.manifests[tag] = json.dumps({"manifests": entries}).encode()
    assert world.pull().verified.evidence == (good,)
    assert world.progress.said[-1] == "and 1180 more"


def test_an_index_that_is_none_stops_nothing(world: World) -> None:
    good = world.piece(world.own, "good")
    world.put(good)
    world.fake.manifests[referrers.tag_of(world.manifest.digest)] = b"{}"
    assert world.pull().verified.evidence == (good,)


def test_the_same_piece_twice_is_kept_once(world: World) -> None:
    good = world.piece(world.own, "good")
    world.put(good)
    world.attach(hostile(world, "a copy"))
    assert world.pull().verified.evidence == (good,)


def test_what_signed_it_is_kept_and_no_more(world: World) -> None:
    good = world.piece(world.own, "good")
    more = json.loads(good.envelope) | {"unknown": "x" * 1000}
    world.put(replace(good, envelope=json.dumps(more).encode()))
    assert world.pull().verified.evidence == (good,)


def test_all_questions_about_evidence_have_an_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dlcontainer.evidence.pull.MOST_S", 0.0)
    world.put(world.piece(world.own, "good"))
    with pytest.raises(ChecksFailedError, match="has no evidence that counts: report"):
        world.pull()
    assert "took too long to answer" in "\n".join(world.progress.said)
    assert not list((world.tmp / "place").iterdir())
