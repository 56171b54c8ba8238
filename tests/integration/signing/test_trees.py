"""A site that demands signatures: a real engine verifies whatever brings a release in."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.evidence import keys
from dlcontainer.evidence.image_signature import SignatureEngine
from dlcontainer.evidence.policy import EvidenceDemand
from dlcontainer.evidence.trust_anchors import TrustAnchors, TrustedKey
from dlcontainer.publish.offered import PublishCandidate
from dlcontainer.publish.signed import SignatureDemand
from dlcontainer.system.process import ProcessRunner
from tests.integration.signing.tools import Ran, typed
from tests.publishing import BOTH, image_of, put, seen
from tests.signers import Pair
from tests.values import SITE, write_yaml

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Give another image of the same name and version, unsigned."""
    return image_of(tmp_path / "other", b"hsqs" + bytes(16) + b"\1" + bytes(9000))


@dataclass
class Site:
    """A site's file, its production tree, and a test tree."""

    folder: Path
    file: Path
    capsys: Any

    @property
    def root(self) -> Path:
        return self.folder / "production"

    def modules(self, *words: object) -> Ran:
        return typed(self.capsys, "modules", *words, "--root", self.root, "--site", self.file)


@pytest.fixture
def site(tmp_path: Path, signer: Pair, stranger: Pair, capsys: Capture) -> Site:
    trust = {
        "keys": [
            {"file": str(signer.public), "for": ["image"]},
            {"file": str(stranger.public), "for": ["bench"]},
        ],
        "require_signed": True,
        "remembered": ["keys", "require_signed"],
    }
    file = write_yaml(tmp_path / "lab.yaml", {**SITE, "name": "lab", "trust": trust})
    made = Site(folder=tmp_path, file=file, capsys=capsys)
    made.root.mkdir()
    return made


def signed(capsys: Capture, image: Path, key: Pair) -> Path:
    assert typed(capsys, "evidence", "sign", image, "--key", key.private).code == 0
    return image


def test_promote(site: Site, image: Path, other: Path, signer: Pair, capsys: Capture) -> None:
    test, unsigned = site.folder / "test", site.folder / "unsigned"
    put(signed(capsys, image, signer), test)
    put(other, unsigned)
    done = site.modules("promote", "demo/1.0", "--from", unsigned)
    assert done.code == 6
    assert "demo/1.0 does not become live" in done.err
    assert "is not signed" in done.err
    assert not (site.root / "current").exists()
    assert list((site.root / "releases").iterdir()) == []
    done = site.modules("promote", "demo/1.0", "--from", test)
    assert done.code == 0, done.err
    assert seen(site.root) == BOTH


def test_without_a_site_the_command_line_demands(
    image: Path, signer: Pair, stranger: Pair, tmp_path: Path, capsys: Capture
) -> None:
    root, test = tmp_path / "production", tmp_path / "test"
    root.mkdir()
    put(signed(capsys, image, signer), test)
    words = ("modules", "promote", "demo/1.0", "--from", test, "--root", root, "--require-signed")
    done = typed(capsys, *words, "--key", stranger.public)
    assert done.code == 6
    assert "is signed by somebody else" in done.err
    done = typed(capsys, *words, "--key", f"bench={signer.public}")
    assert "is signed with a key that may not sign images" in done.err
    done = typed(capsys, *words)
    assert "no trusted signer is given" in done.err
    assert not (root / "current").exists()
    assert typed(capsys, *words, "--key", f"image={signer.public}").code == 0


def test_rollback(site: Site, image: Path, other: Path, signer: Pair, capsys: Capture) -> None:
    put(other, site.root)
    assert site.modules("unpublish", "demo/1.0").code == 0
    done = site.modules("rollback", "1")
    assert done.code == 6
    assert "is not signed" in done.err
    assert (site.root / "current").readlink().name == "2"
    # What is live stays so: nothing is brought in.
    put(signed(capsys, image, signer), site.root)
    assert site.modules("default", "demo/1.0").code == 0
    done = site.modules("rollback", "3")
    assert done.code == 0, done.err


def test_an_owner_who_rewrites_it_between_verify_and_copy(
    image: Path, other: Path, signer: Pair, engine: Any, tmp_path: Path, capsys: Capture
) -> None:
    """The file that is open has the signed bytes just while the engine reads them."""
    good, evil = signed(capsys, image, signer).read_bytes(), other.read_bytes()
    looks: list[str] = []

    class Rewriting(ProcessRunner):
        def __call__(self, argv: Any, **more: Any) -> Any:
            looks.append(argv[2])
            rewritten(other, good)
            try:
                return super().__call__(argv, **more)
            finally:
                rewritten(other, evil)

    def rewritten(path: Path, data: bytes) -> None:
        with path.open("r+b") as file:
            file.write(data)
            file.truncate()

    environ: dict[str, str] = {"PATH": "/usr/bin:/bin"}
    real = SignatureEngine(
        program=engine,
        start=lambda inherited: Rewriting(environ=environ, inherited=inherited),
        environ=environ,
        scratch=tmp_path,
    )
    asking = SignatureDemand(
        trust=TrustAnchors(keys=(TrustedKey(key=keys.read_public(signer.public)),)),
        demand=EvidenceDemand(signed=True),
        engine=lambda: real,
        note=lambda text: None,
    )
    held: list[str] = []

    def verify(given: PublishCandidate) -> dict[str, bytes]:
        verified = asking.of_offered(given)
        held.append(str(verified.signer))
        return {}

    root = tmp_path / "modules"
    with pytest.raises(PublishError, match="does not become live") as caught:
        put(other, root, verify=verify, admit=asking.admit)
    # The first look found it good: only the second one, at the copy, could tell.
    assert len(held) == 1
    assert looks == ["verify"] * 2
    assert "is not signed" in str(caught.value.why)
    assert not (root / "current").exists()


def test_what_was_published_before_there_was_a_demand_is_named_by_audit(
    site: Site, other: Path
) -> None:
    done = put(other, site.root)
    audit = site.modules("audit")
    assert audit.code == 1
    assert f"{done.folder}/image.sif is not signed" in audit.out
    # Evidence that strangers laid there does not stop the look.
    evidence = done.folder / "evidence"
    evidence.mkdir()
    (evidence / "bench-000000000000.dsse.json").write_text(json.dumps({"payload": 1}))
    assert f"{done.folder}/image.sif is not signed" in site.modules("audit").out
    shutil.rmtree(evidence)
