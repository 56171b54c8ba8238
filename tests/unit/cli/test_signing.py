"""The commands of signing: what the command line and the site demand together, and wrong words."""

from pathlib import Path

import pytest

from dlcontainer.cli import main
from dlcontainer.cli.signing import trust_options
from dlcontainer.errors import ConfigError, UsageError
from tests.publishing import image_of
from tests.signers import pair
from tests.values import site_of

CVMFS = (
    "publish", "IMAGE", "--site", "local", "--layout", "tree", "--root", "/cvmfs/a.b/c",
    "--cvmfs", "x.sh",
)  # fmt: skip


def test_a_site_s_demand_can_only_grow(tmp_path: Path) -> None:
    own, other = pair(tmp_path, "own").public, pair(tmp_path, "other").public
    given = {"keys": [str(own)], "require_signed": True, "require_evidence": ["bench"]}
    site = site_of(trust=given).value
    demand = trust_options.demand_of(site, None, signed=False)
    assert (demand.signed, demand.kinds) == (True, ("bench",))
    demand = trust_options.demand_of(site, "validate, bench", signed=False)
    assert demand.kinds == ("validate", "bench")
    assert trust_options.demand_of(None, None, signed=False).is_empty
    (key,) = trust_options.trust_of(site).keys
    assert key.key.where == str(own)
    (key,) = trust_options.trust_of(site, keys=[str(other)]).keys
    assert key.key.where == str(other)
    own.chmod(0o666)
    with pytest.raises(ConfigError, match="other users can write to it"):
        trust_options.trust_of(site)
    with pytest.raises(UsageError, match="'bnech' is not a kind of evidence"):
        trust_options.kinds_of("bnech")


def test_keys_have_roles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = pair(tmp_path, "own").public
    monkeypatch.chdir(tmp_path)
    odd = tmp_path / "bench=x.pub"
    odd.write_bytes(own.read_bytes())
    (tmp_path / "a=b").mkdir()
    (tmp_path / "a=b/x.pub").write_bytes(own.read_bytes())
    every = ("image", "validate", "proof", "bench", "report")
    for text, roles in (
        ("own.pub", every),
        ("bench=own.pub", ("bench",)),
        ("report, bench=own.pub", ("bench", "report")),
        (f"image={own}", ("image",)),
        # Files whose names look like it.
        ("bench=x.pub", every),
        ("./bench=x.pub", every),
        ("a=b/x.pub", every),
    ):
        (key,) = trust_options.trust_of(None, keys=[text]).keys
        assert key.roles == roles
    for text in ("images=own.pub", "=own.pub", "bench,=own.pub"):
        with pytest.raises(UsageError, match="is not a role of a key"):
            trust_options.trust_of(None, keys=[text])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["evidence", "sign", "IMAGE"], "exactly one of --key and --pgp is needed"),
        (
            ["evidence", "sign", "IMAGE", "--key", "K", "--pgp", "F"],
            "exactly one of --key and --pgp",
        ),
        (
            ["evidence", "sign", "IMAGE", "--key", "K", "--passphrase-fd", "99"],
            "can't read a passphrase",
        ),
        (["evidence", "attest", "IMAGE", "bench", "--key", "K"], "'bench' is not KIND=FILE"),
        (
            ["evidence", "attest", "IMAGE", "banch=x", "--key", "K"],
            "'banch' is not a kind of evidence",
        ),
        (["push", "IMAGE", "docker://h/x"], "is not a registry reference"),
        (["push", "IMAGE", "oras://h/x@sha256:" + "0" * 64], "can't push to a digest"),
        (["push", "IMAGE", "oras://h/x", "--ca", "none.pem"], "--ca none.pem: no such file"),
        (["pull", "oras://h/x", "-o", "x.txt"], "must end in .sif"),
        (["pull", "oras://h/x", "-o", "no/x.sif"], "there is no folder"),
        (["pull", "oras://H/X", "-o", "x.sif"], "is not a registry reference"),
        (["evidence", "verify", "none.sif", "--key", "K"], "No such file"),
        ([*CVMFS, "--require-signed"], "--cvmfs takes no signers"),
        ([*CVMFS, "--require-evidence", "bench"], "--cvmfs takes no signers"),
        ([*CVMFS, "--key", "K"], "--cvmfs takes no signers"),
    ],
)
def test_wrong_words_are_usage_errors(
    words: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    engine = tmp_path / "bin" / "apptainer"
    engine.parent.mkdir()
    engine.write_text("#!/bin/false\n")
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", str(engine.parent))
    image = str(image_of(tmp_path / "images"))
    key = str(pair(tmp_path, "release").private)
    argv = [{"IMAGE": image, "K": key}.get(word, word) for word in words]
    assert main._run(argv, as_json=False) == 2
    assert why in capsys.readouterr().err
