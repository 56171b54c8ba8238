"""Each attack on a signed release is refused, with a message of its own; nothing is kept."""

import hashlib
import json
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.evidence import folder, keys, kinds, signing
from dlcontainer.evidence.artifact import parts_in
from dlcontainer.evidence.kinds import EvidenceSubject
from tests.integration.signing.tools import PASSWORD, Secured, session_of, typed
from tests.publishing import image_of
from tests.sifs import read_sif
from tests.signers import Authority, Pair

Capture = pytest.CaptureFixture[str]
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


@pytest.fixture
def signed(image: Path, session: Path, signer: Pair, capsys: Capture) -> Path:
    assert typed(capsys, "evidence", "sign", image, "--key", signer.private).code == 0
    words = ("evidence", "attest", image, f"bench={session}", "--key", signer.private)
    assert typed(capsys, *words).code == 0
    return image


@pytest.fixture
def pull(registry: Secured, signer: Pair, tmp_path: Path, capsys: Capture) -> Callable[..., str]:
    """Pull into an empty folder; it must be refused, and nothing may be left."""
    place = tmp_path / "pulled"
    place.mkdir()

    def refused(reference: str, *, code: int = 1, key: Path = signer.public) -> str:
        wanted = ("--key", key, "--require-signed", "--require-evidence", "record,bench")
        done = typed(capsys, "pull", reference, "-o", place / "x.sif", *wanted, *registry.options)
        assert done.code == code, done.err
        assert list(place.iterdir()) == []
        assert "  next: " in done.err
        return done.err

    return refused


def push(registry: Secured, image: Path, name: str, capsys: Capture) -> str:
    done = typed(capsys, "push", image, registry.place(name), *registry.options, "--json")
    assert done.code == 0, done.err
    return str(done.body["digest"])


def test_one_byte(signed: Path, signer: Pair, capsys: Capture) -> None:
    data = bytearray(signed.read_bytes())
    at = data.index(b"hsqs") + 100
    data[at] ^= 1
    signed.write_bytes(data)
    done = typed(capsys, "evidence", "verify", signed, "--key", signer.public)
    assert done.code == 1
    assert "was changed after it was signed" in done.err


def test_another_signer(
    signed: Path, stranger: Pair, registry: Secured, pull: Callable[..., str], capsys: Capture
) -> None:
    push(registry, signed, "attack/signer:1", capsys)
    said = pull(registry.place("attack/signer:1"), key=stranger.public)
    assert "is signed by somebody else" in said


def test_stripped(signed: Path, signer: Pair, engine: Any, capsys: Capture) -> None:
    from dlcontainer.image import sif

    (number,) = [part.number for part in sif.parts(signed) if part.kind == "signature"]
    subprocess.run([engine.program, "sif", "del", str(number), signed], check=True)
    assert 0x4005 not in [kind for kind, *_ in read_sif(signed)]
    done = typed(capsys, "evidence", "verify", signed, "--key", signer.public)
    assert done.code == 1
    assert "is not signed" in done.err


def test_a_part_that_was_added(
    signed: Path, signer: Pair, engine: Any, tmp_path: Path, capsys: Capture
) -> None:
    """In no group, in the group that is signed, and in one of its own.

    Apptainer 1.4.5 refuses each with or without --all, which matters for signatures of before.
    """
    more = tmp_path / "more"
    more.write_text("more")
    whole = signed.read_bytes()
    cases: dict[tuple[str, ...], str] = {
        (): "contains an unsigned part",
        ("1",): "contains an unsigned part",
        ("2",): "is not signed",
    }
    for group, said in cases.items():
        signed.write_bytes(whole)
        own = ("--groupid", *group) if group else ()
        words: list[str | Path] = ["sif", "add", "--datatype", "7", *own, signed, more]
        subprocess.run([engine.program, *words], check=True)
        assert len(signed.read_bytes()) > len(whole)
        done = typed(capsys, "evidence", "verify", signed, "--key", signer.public)
        assert done.code == 1
        assert said in done.err


def test_a_bench_key_releases_no_image(
    image: Path, signer: Pair, stranger: Pair, capsys: Capture
) -> None:
    assert typed(capsys, "evidence", "sign", image, "--key", stranger.private).code == 0
    both = ("--key", f"image={signer.public}", "--key", f"bench={stranger.public}")
    done = typed(capsys, "evidence", "verify", image, *both)
    assert done.code == 1
    assert "is signed with a key that may not sign images" in done.err


def test_evidence_of_strangers_beside_it_stops_nothing(
    signed: Path, signer: Pair, authority: Authority, tmp_path: Path, capsys: Capture
) -> None:
    """Junk, certificates of others, more pieces than anybody needs: by key, and by certificate."""
    own = authority.signer("Release")
    certified = image_of(tmp_path / "certified", b"hsqs" + bytes(9000))
    words = ("--key", own.private, "--certificate", own.public)
    assert typed(capsys, "evidence", "sign", certified, *words).code == 0
    strange = Authority.made(tmp_path / "strange").signer("x")
    for image, option in (
        (signed, ("--key", signer.public)),
        (certified, ("--certificate-roots", authority.roots)),
    ):
        place = folder.beside(image)
        subject = EvidenceSubject(name="x", sha256=hashlib.sha256(image.read_bytes()).hexdigest())
        for number in range(250):
            sealer = signing.Sealer(
                key=keys.read_private(strange.private),
                certificate=(b"junk", strange.public.read_bytes())[number % 2],
            )
            data = f"<p>{number}".encode()
            folder.write(place, signing.piece_of("report", data, subject, sealer))
        (place / "bench-000000000000.dsse.json").symlink_to("/dev/zero")
        done = typed(capsys, "evidence", "verify", image, *option, "--require-evidence", "record")
        assert done.code == 0, done.err
        assert "does not count: and " in done.out


def test_an_expired_certificate(image: Path, authority: Authority, capsys: Capture) -> None:
    old = authority.signer("Old release", days=(-30, -1))
    words = ("--key", old.private, "--certificate", old.public)
    assert typed(capsys, "evidence", "sign", image, *words).code == 0
    done = typed(capsys, "evidence", "verify", image, "--certificate-roots", authority.roots)
    assert done.code == 1
    assert "a certificate that has expired" in done.err


def test_evidence_of_another_image(
    signed: Path, signer: Pair, tmp_path: Path, capsys: Capture
) -> None:
    other = image_of(tmp_path / "other", b"hsqs" + bytes(9000))
    session = session_of(other, tmp_path / "other.jsonl")
    assert typed(capsys, "evidence", "sign", other, "--key", signer.private).code == 0
    words = ("evidence", "attest", other, f"bench={session}", "--key", signer.private)
    assert typed(capsys, *words).code == 0
    # Before it is signed:
    done = typed(capsys, "evidence", "attest", signed, f"bench={session}", "--key", signer.private)
    assert done.code == 1
    assert "the bench evidence belongs to another image" in done.err
    # And a valid piece, moved over:
    shutil.rmtree(folder.beside(signed))
    shutil.copytree(folder.beside(other), folder.beside(signed))
    wanted = ("--key", signer.public, "--require-evidence", "bench")
    done = typed(capsys, "evidence", "verify", signed, *wanted)
    assert done.code == 1
    assert "has no evidence that counts: bench" in done.err
    assert "it belongs to another image" in done.err


def test_a_tag_that_was_moved(
    signed: Path, signer: Pair, registry: Secured, pull: Callable[..., str], tmp_path: Path,
    capsys: Capture,
) -> None:  # fmt: skip
    pinned = push(registry, signed, "attack/tag:1", capsys)
    other = image_of(tmp_path / "other", b"hsqs" + bytes(9000))
    assert typed(capsys, "evidence", "sign", other, "--key", signer.private).code == 0
    assert push(registry, other, "attack/tag:1", capsys) != pinned
    said = pull(registry.place(f"attack/tag:1@{pinned}"), code=6)
    assert "the tag '1' was moved" in said
    assert pinned in said
    # The digest alone is what it was.
    place = registry.place(f"attack/tag@{pinned}")
    done = typed(capsys, "pull", place, "-o", tmp_path / "y.sif", *registry.options)
    assert done.code == 0, done.err
    assert (tmp_path / "y.sif").read_bytes() == signed.read_bytes()
    nowhere = registry.place(f"attack/tag@sha256:{'0' * 64}")
    assert "has no image 127.0.0.1" in pull(nowhere, code=6)


def test_a_referrer_of_another_digest(
    signed: Path, signer: Pair, registry: Secured, pull: Callable[..., str], capsys: Capture
) -> None:
    digest = push(registry, signed, "attack/referrer:1", capsys)
    tag, base = digest.replace(":", "-"), "attack/referrer"
    index = registry.ask("GET", f"{base}/manifests/{tag}", headers={"Accept": INDEX}).json()
    assert len(index["manifests"]) == 3
    for entry in index["manifests"]:
        path = f"{base}/manifests/{entry['digest']}"
        body = registry.ask("GET", path, headers={"Accept": MANIFEST}).json()
        # docker-registry 2.8 deletes by digest, and the tags with it.
        registry.ask("DELETE", path).raise_for_status()
        body["subject"]["digest"] = f"sha256:{'1' * 64}"
        data = json.dumps(body).encode()
        made = f"sha256:{hashlib.sha256(data).hexdigest()}"
        own = {"Content-Type": MANIFEST}
        path = f"{base}/manifests/{made}"
        registry.ask("PUT", path, data=data, headers=own).raise_for_status()
        entry |= {"digest": made, "size": len(data)}
    own = {"Content-Type": INDEX}
    path = f"{base}/manifests/{tag}"
    registry.ask("PUT", path, data=json.dumps(index), headers=own).raise_for_status()
    said = pull(registry.place("attack/referrer:1"))
    assert "has no evidence that counts: record, bench" in said
    assert f"but it refers to sha256:{'1' * 64}" in said


def test_a_blob_that_is_cut(
    signed: Path, registry: Secured, pull: Callable[..., str], capsys: Capture
) -> None:
    push(registry, signed, "attack/cut:1", capsys)
    sha256 = hashlib.sha256(signed.read_bytes()).hexdigest()
    (blob,) = registry.login.parent.glob(f"storage/**/blobs/sha256/*/{sha256}/data")
    blob.write_bytes(blob.read_bytes()[:-100])
    said = pull(registry.place("attack/cut:1"), code=6)
    assert "received" in said or "stopped in the middle" in said


def test_the_registry_itself_is_refused_without_login_and_ca(
    signed: Path, registry: Secured, tmp_path: Path, capsys: Capture
) -> None:
    place = registry.place("attack/login:1")
    done = typed(capsys, "push", signed, place, "--ca", registry.ca)
    assert done.code == 6
    assert "refuses to answer without a login" in done.err
    wrong = tmp_path / "login"
    wrong.write_text("publisher:wrong\n")
    wrong.chmod(0o600)
    done = typed(capsys, "push", signed, place, "--ca", registry.ca, "--login", wrong)
    assert done.code == 6
    assert "refuses this login" in done.err
    assert "wrong\n" not in done.err
    strange = Authority.made(tmp_path / "strange").roots
    done = typed(capsys, "push", signed, place, "--ca", strange, "--login", registry.login)
    assert done.code == 6
    assert "its certificate is not trusted here" in done.err
    wrong.chmod(0o644)
    done = typed(capsys, "push", signed, place, "--ca", registry.ca, "--login", wrong)
    assert done.code == 3
    assert "other users can read or change the login file" in done.err


@pytest.mark.long  # unit/registry/test_referrers.py: an index that was overwritten
def test_two_pushers_at_once_lose_nothing(
    signed: Path, signer: Pair, registry: Secured, tmp_path: Path, capsys: Capture
) -> None:
    """Sixteen pieces of evidence, by two who don't know of each other."""
    from dlcontainer.config.image_names import parse_image
    from dlcontainer.evidence import artifact
    from dlcontainer.registry import login, referrers
    from dlcontainer.registry.artifacts import ArtifactClient
    from dlcontainer.registry.base_image import sha256
    from dlcontainer.registry.connection import RegistryAccess

    digest = push(registry, signed, "attack/race:1", capsys)
    reference = parse_image(f"docker://{registry.address}/attack/race:1")
    known = login.read(registry.login, registry.address)

    def client() -> ArtifactClient:
        way = RegistryAccess(ca=registry.ca, loopback_tls=True)
        return ArtifactClient(reference=reference, access=way, login=known, pushes=True)

    sealer = signing.Sealer(key=keys.read_private(signer.private))
    subject = EvidenceSubject(name="x", sha256=hashlib.sha256(signed.read_bytes()).hexdigest())
    faults: list[BaseException] = []

    def several(who: str) -> None:
        try:
            with client() as own:
                for number in range(8):
                    data = f"<p>{who} {number}".encode()
                    piece = signing.piece_of("report", data, subject, sealer)
                    for part in (piece.envelope, piece.data, artifact.NOTHING):
                        own.upload(sha256(part), part)
                    about = artifact.Blob(media_type=MANIFEST, digest=digest, size=1)
                    body = artifact.of_evidence(piece, about)
                    parts = parts_in(body)
                    assert parts is not None
                    assert parts.subject == digest
                    kind = kinds.artifact_type("report")
                    referrers.attach(own, digest, body, kind)
        except BaseException as error:  # noqa: BLE001 - told below
            faults.append(error)

    both = [threading.Thread(target=several, args=(who,)) for who in ("one", "two")]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert faults == []
    with client() as reader:
        there = list(referrers.found(reader, digest, print))
    assert len([one for one in there if "report" in one.artifact_type]) == 16


def test_no_secret_is_seen(
    signed: Path, signer: Pair, registry: Secured, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: Capture,
) -> None:  # fmt: skip
    """Passphrase, key and password: in no argument, environment, output, record or evidence."""
    from tests.signers import pair

    word = "canary-passphrase-4711"
    locked = pair(tmp_path / "locked", "locked", passphrase=word)
    seen: list[str] = []
    popen = subprocess.Popen

    def noted(argv: list[str], **more: Any) -> Any:
        started = popen(argv, **more)
        for name in ("cmdline", "environ"):
            seen.append(Path(f"/proc/{started.pid}/{name}").read_text(errors="replace"))
        seen.append(" ".join(map(str, argv)))
        return started

    monkeypatch.setattr(subprocess, "Popen", noted)
    image = image_of(tmp_path / "other", b"hsqs" + bytes(9000))
    given = tmp_path / "word"
    given.write_text(f"{word}\n")
    with given.open() as file:
        own = ("--key", locked.private, "--passphrase-fd", file.fileno())
        done = typed(capsys, "evidence", "sign", image, *own, "-v")
    assert done.code == 0, done.err
    pushed = typed(capsys, "push", image, registry.place("secret/x:1"), *registry.options, "-v")
    assert pushed.code == 0, pushed.err
    assert seen
    secrets = [
        word,
        PASSWORD,
        keys.read_private(locked.private, word.encode()).pem.decode().split("\n")[1],
    ]
    texts = [*seen, done.out, done.err, pushed.out, pushed.err]
    texts += [
        path.read_text(errors="replace") for path in image.parent.rglob("*") if path.is_file()
    ]
    for secret in secrets:
        assert not [text for text in texts if secret in text]
    third = image_of(tmp_path / "third")
    without = typed(capsys, "evidence", "sign", third, "--key", locked.private)
    assert without.code == 3
    assert "it has a passphrase, and none was given" in without.err
