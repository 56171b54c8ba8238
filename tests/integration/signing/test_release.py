"""The first release: signed and attested here, pushed, pulled into another home, published."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.errors import PublishError
from dlcontainer.evidence import folder
from dlcontainer.image import record
from dlcontainer.publish.offered import PublishCandidate
from tests.integration.signing.tools import PASSWORD, Secured, session_of, typed
from tests.integration.world import Built, World
from tests.publishing import BOTH, put, seen
from tests.signers import Authority, Pair, pair, pieces_in

Capture = pytest.CaptureFixture[str]
WANTED = ("--require-signed", "--require-evidence", "record,validate,bench")


def release(
    image: Path, validated: Path, session: Path, signer: Pair, place: str, registry: Secured,
    capsys: Capture,
) -> str:  # fmt: skip
    """Sign, attest and push; give the reference by digest."""
    assert typed(capsys, "evidence", "sign", image, "--key", signer.private).code == 0
    given = (f"validate={validated}", f"bench={session}")
    assert typed(capsys, "evidence", "attest", image, *given, "--key", signer.private).code == 0
    pushed = typed(capsys, "push", image, place, *registry.options, "--json")
    assert pushed.code == 0, pushed.err
    assert pushed.body["evidence"] == ["bench", "bill", "record", "validate"]
    assert pushed.body["redistribution"] is None  # its bill, made by hand, does not tell
    return str(pushed.body["reference"])


def test_from_the_build_machine_to_a_published_module(
    image: Path, validated: Path, session: Path, signer: Pair, registry: Secured, home: Path,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture,
) -> None:  # fmt: skip
    place = registry.place("site/demo:1.0")
    by_digest = release(image, validated, session, signer, place, registry, capsys)
    assert list(home.iterdir()) == []
    other = tmp_path / "other home"
    other.mkdir()
    monkeypatch.setenv("HOME", str(other))
    target = tmp_path / "taken" / "demo.sif"
    target.parent.mkdir()
    wanted = ("--key", signer.public, *WANTED)
    pulled = typed(capsys, "pull", place, "-o", target, *wanted, *registry.options, "--json")
    assert pulled.code == 0, pulled.err
    assert pulled.body["reference"] == by_digest
    assert signer.public.name in pulled.body["signer"]
    assert pulled.body["refused"] == []
    assert target.read_bytes() == image.read_bytes()
    for suffix in (".json", ".cdx.json"):
        assert target.with_suffix(suffix).read_text() == image.with_suffix(suffix).read_text()
    assert {piece.kind for piece in pieces_in(folder.beside(target))} == {
        *("record", "bill", "validate", "bench")
    }
    assert list(other.iterdir()) == []
    # By a person: a line each.
    said = typed(capsys, "evidence", "verify", target, "--key", signer.public).out
    assert [line.split()[0] for line in said.splitlines()] == ["ok"] * 5
    held = pieces_in(folder.beside(target))
    files = {name: data for piece in held for name, data in piece.files.items()}
    root = tmp_path / "modules"
    done = put(target, root, verify=lambda given: files)
    assert seen(root) == BOTH
    assert len(list((done.folder / "evidence").iterdir())) == 8
    audit = ("modules", "audit", "--root", root, "--key")
    # Other users can't enter a test's folder; nothing else is found.
    assert "image.sif" not in typed(capsys, *audit, signer.public, *WANTED).out
    lost = typed(capsys, *audit, pair(tmp_path, "other").public, *WANTED)
    assert lost.code == 1
    assert "is signed by somebody else" in lost.out


def test_the_engine_pulls_what_we_pushed_and_the_reverse(
    image: Path, signer: Pair, registry: Secured, engine: Apptainer, tmp_path: Path,
    home: Path, capsys: Capture,
) -> None:  # fmt: skip
    assert typed(capsys, "evidence", "sign", image, "--key", signer.private).code == 0
    ours, theirs = registry.place("site/ours:1"), registry.place("site/theirs:1")
    assert typed(capsys, "push", image, ours, *registry.options).code == 0
    environ = {**os.environ, "SSL_CERT_FILE": str(registry.ca), "HOME": str(home)}

    def apptainer(*words: object, text: str | None = None) -> None:
        argv = [str(engine.program), *map(str, words)]
        done = subprocess.run(
            argv, env=environ, input=text, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr

    server = f"oras://{registry.address}"
    login = ("registry", "login", "--username", "publisher", "--password-stdin", server)
    apptainer(*login, text=PASSWORD)
    apptainer("pull", tmp_path / "by the engine.sif", ours)
    assert (tmp_path / "by the engine.sif").read_bytes() == image.read_bytes()
    apptainer("push", image, theirs)
    (config,) = home.rglob("*.json")
    config.chmod(0o600)
    login_file = ("--login", config, "--ca", registry.ca)
    pulled = typed(capsys, "pull", theirs, "-o", tmp_path / "ours.sif", *login_file)
    assert pulled.code == 0, pulled.err
    assert "nothing was verified" in pulled.out
    assert (tmp_path / "ours.sif").read_bytes() == image.read_bytes()


def test_what_nobody_verified_is_contained_until_somebody_trusts_it(
    image: Path, signer: Pair, registry: Secured, tmp_path: Path, capsys: Capture
) -> None:
    assert typed(capsys, "evidence", "sign", image, "--key", signer.private).code == 0
    place, target = registry.place("site/pulled:1"), tmp_path / "pulled.sif"
    assert typed(capsys, "push", image, place, *registry.options).code == 0
    pulled = typed(capsys, "pull", place, "-o", target, *registry.options)
    assert pulled.code == 0, pulled.err
    assert f"dlcontainer adopt {target} --site SITE --trust" in pulled.out
    assert json.loads(target.with_suffix(".json").read_text())["unverified"]["source"] in pulled.out
    # Its signed record counts all the same: the mark is this machine's.
    held = typed(
        capsys, "evidence", "verify", target, "--key", signer.public, "--require-evidence", "record"
    )
    assert held.code == 0, held.err
    found = record.read(record.beside(target))
    assert found is not None
    assert found.is_contained
    assert typed(capsys, "adopt", target, "--site", "local").code == 2
    assert typed(capsys, "adopt", target, "--site", "local", "--trust").code == 0
    found = record.read(record.beside(target))
    assert found is not None
    assert not found.is_contained
    verified = tmp_path / "verified.sif"
    wanted = ("--key", signer.public, "--require-signed")
    assert typed(capsys, "pull", place, "-o", verified, *wanted, *registry.options).code == 0
    assert "unverified" not in json.loads(verified.with_suffix(".json").read_text())


def test_with_a_certificate_of_the_centre(
    image: Path, authority: Authority, registry: Secured, tmp_path: Path, capsys: Capture
) -> None:
    own = authority.signer("Release")
    words = ("--key", own.private, "--certificate", own.public)
    assert typed(capsys, "evidence", "sign", image, *words).code == 0
    place = registry.place("site/certified:1")
    assert typed(capsys, "push", image, place, *registry.options).code == 0
    roots = ("--certificate-roots", authority.roots, "--require-signed", "--require-evidence")
    target = tmp_path / "taken.sif"
    pulled = typed(capsys, "pull", place, "-o", target, *roots, "record,bill", *registry.options)
    assert pulled.code == 0, pulled.err
    strange = Authority.made(tmp_path / "strange", "Somebody's CA")
    refused = typed(capsys, "evidence", "verify", target, "--certificate-roots", strange.roots)
    assert refused.code == 1
    assert "it came without a certificate from these authorities" in refused.err


def test_with_a_pgp_key(
    image: Path, engine: Apptainer, tmp_path: Path, home: Path, capsys: Capture
) -> None:
    ring, environ = tmp_path / "ring", dict(os.environ)
    environ |= {"APPTAINER_KEYSDIR": str(ring), "APPTAINER_CONFIGDIR": str(tmp_path / "c")}
    ring.mkdir(mode=0o700)

    def apptainer(*words: object, text: str = "") -> str:
        argv = [str(engine.program), *map(str, words)]
        done = subprocess.run(
            argv, env=environ, input=text, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    new = ("key", "newpair", "--name", "R", "--email", "r@x", "--comment", "", "--push=false")
    apptainer(*new, "--password", "a word", "--bit-length", "2048")
    listed = apptainer("key", "list", "--secret")
    fingerprint = listed.split("Fingerprint:")[1].split()[0]
    apptainer("key", "export", "--armor", tmp_path / "release.asc", text="0\n")
    word = tmp_path / "word"
    word.write_text("a word\n")
    with word.open() as file:
        own = ("--pgp", fingerprint, "--keyring", ring, "--passphrase-fd", file.fileno())
        signed = typed(capsys, "evidence", "sign", image, *own)
    assert signed.code == 0, signed.err
    assert f"signed by pgp:{fingerprint}" in signed.out
    assert typed(capsys, "evidence", "verify", image, "--pgp", tmp_path / "release.asc").code == 0
    assert not (home / ".apptainer").exists()


def test_a_site_may_always_demand_it(image: Path, tmp_path: Path) -> None:
    def verify(given: PublishCandidate) -> dict[str, bytes]:
        from dlcontainer.errors import ChecksFailedError

        raise ChecksFailedError(f"{given.path} is not signed")

    with pytest.raises(PublishError, match="is not signed"):
        put(image, tmp_path / "modules", verify=verify)
    assert not (tmp_path / "modules" / "current").exists()
    assert json.loads(image.with_suffix(".json").read_text())["content"]["site"] == "lab"


@pytest.mark.long  # test_from_the_build_machine_to_a_published_module, with an image that runs
def test_a_built_image_to_a_module_of_the_command_line(
    world: World, as_built: Built, signer: Pair, registry: Secured, tmp_path: Path
) -> None:
    image, place = as_built.image, registry.place("site/built:1")
    given, root = tmp_path / "validate.json", tmp_path / "modules"
    world.run("evidence", "sign", image, "--key", signer.private)
    given.write_text(world.run("validate", image, "--json").stdout)
    session = session_of(image, tmp_path / "session.jsonl")
    words = (f"validate={given}", f"bench={session}", "--key", signer.private)
    world.run("evidence", "attest", image, *words)
    world.run("push", image, place, *registry.options)
    target, wanted = tmp_path / "taken.sif", ("--key", signer.public, *WANTED)
    world.run("pull", place, "-o", target, *wanted, *registry.options)
    publish = ("publish", target, "--site", "local", "--root", root)
    stranger = pair(tmp_path, "stranger").public
    refused = world.run(*publish, "--key", stranger, "--require-signed", code=6)
    assert "is signed by somebody else" in refused.stderr
    assert not (root / "current").exists()
    world.run(*publish, *wanted)
    names = {path.name.partition("-")[0] for path in root.glob("releases/*/evidence/*")}
    assert names == {"record", "bill", "validate", "bench"}
    audit = world.run("modules", "audit", "--root", root, *wanted, code=None)
    assert "image.sif" not in audit.stdout
