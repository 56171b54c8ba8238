"""Envelopes and keys: the specification's own example, and each way that one does not hold."""

import base64
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from dlcontainer.errors import ChecksFailedError, ConfigError
from dlcontainer.evidence import envelope, keys
from dlcontainer.evidence.keys import PublicKey
from tests.signers import pair

PEM = serialization.Encoding.PEM


def test_the_example_of_the_specification() -> None:
    """Source: github.com/secure-systems-lab/dsse, protocol.md, "Test Vectors"."""
    numbers = ec.EllipticCurvePublicNumbers(
        46950820868899156662930047687818585632848591499744589407958293238635476079160,
        5640078356564379163099075877009565129882514886557779369047442380624545832820,
        ec.SECP256R1(),
    )
    public = numbers.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    message = envelope.pae("http://example.com/HelloWorld", b"hello world")
    assert message == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    signature = base64.b64decode(
        "A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeCUjW2JIZA=="
    )
    # There as r and s, 32 bytes each; X.509 and we have them as DER.
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    half = [int.from_bytes(part) for part in (signature[:32], signature[32:])]
    key = PublicKey(id="", pem=public, where="the specification")
    assert key.holds(encode_dss_signature(*half), message)
    assert not key.holds(encode_dss_signature(*half), message + b".")


@pytest.mark.parametrize("curve", [False, True])
@pytest.mark.parametrize("word", ["", "a word"])
def test_signed_and_read_back(tmp_path: Path, curve: bool, word: str) -> None:
    made = pair(tmp_path, "release", curve=curve, passphrase=word)
    key = keys.read_private(made.private, word.encode() or None)
    public = keys.read_public(made.public)
    assert key.public.id == public.id
    assert "PRIVATE" not in repr(key)
    other = keys.read_public(pair(tmp_path, "other").public)
    read = envelope.read(envelope.sealed(b"something", key), "x")
    assert read.payload == b"something"
    assert [one.key for one in read.signed_by([other, public])] == [public]
    assert read.signed_by([other]) == ()
    body = json.loads(envelope.sealed(b"something", key))
    body["payload"] = base64.b64encode(b"something else").decode()
    assert envelope.read(json.dumps(body).encode(), "x").signed_by([public]) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"payloadType": "text/plain"},
        {"signatures": {}},
        {"signatures": [{}] * 17},
        {"signatures": [7]},
        {"signatures": [{"sig": "%%"}]},
        {"signatures": [{"sig": "", "cert": 7}]},
        {"payload": None},
    ],
)
def test_what_is_no_envelope(tmp_path: Path, change: dict[str, object]) -> None:
    key = keys.read_private(pair(tmp_path, "release").private)
    body = {**json.loads(envelope.sealed(b"x", key)), **change}
    with pytest.raises(ChecksFailedError, match="is not a signed envelope"):
        envelope.read(json.dumps(body).encode(), "it")
    for data in (b"", b"[]", b"\xff", b"{" * 100):
        with pytest.raises(ChecksFailedError, match="is not a signed envelope"):
            envelope.read(data, "it")


def test_keys_that_are_refused(tmp_path: Path) -> None:
    made = pair(tmp_path, "release", passphrase="a word")
    for passphrase, why in ((None, "none was given"), (b"another", "the passphrase is wrong")):
        with pytest.raises(ConfigError) as caught:
            keys.read_private(made.private, passphrase)
        assert why in str(caught.value)
    made.private.chmod(0o640)
    with pytest.raises(ConfigError, match="other users can read"):
        keys.read_private(made.private, b"a word")
    with pytest.raises(ConfigError) as caught:
        keys.read_public(made.private)
    assert "not a public key" in str(caught.value)
    open_one = pair(tmp_path, "open").public
    open_one.chmod(0o666)
    assert keys.read_public(open_one)
    with pytest.raises(ConfigError, match="other users can write to it"):
        keys.read_public(open_one, must_own=True)
    old = rsa.generate_private_key(65537, 2048).public_key()
    path = tmp_path / "rsa.pub"
    path.write_bytes(old.public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(ConfigError) as caught:
        keys.read_public(path)
    assert "neither Ed25519 nor ECDSA" in str(caught.value)
    with pytest.raises(ConfigError, match="No such file"):
        keys.read_public(tmp_path / "none")


def of_an_unknown_kind(label: str) -> bytes:
    """Write a key whose algorithm nobody knows: an identifier of a private enterprise."""
    oid = b"\x06\x09\x2b\x06\x01\x04\x01\x86\x8d\x1f\x01"
    algorithm = b"\x30" + bytes([len(oid)]) + oid
    key = b"\x03\x05\x00abcd" if label == "PUBLIC KEY" else b"\x04\x04abcd"
    start = b"" if label == "PUBLIC KEY" else b"\x02\x01\x00"
    body = start + algorithm + key
    text = base64.encodebytes(b"\x30" + bytes([len(body)]) + body).decode()
    return f"-----BEGIN {label}-----\n{text}-----END {label}-----\n".encode()


def test_a_key_of_an_unknown_kind(tmp_path: Path) -> None:
    """Of a file that is given it is a documented error, not a traceback."""
    path = tmp_path / "odd"
    for label, reader in (("PUBLIC KEY", keys.read_public), ("PRIVATE KEY", keys.read_private)):
        path.write_bytes(of_an_unknown_kind(label))
        path.chmod(0o600)
        with pytest.raises(ConfigError, match="can't use the key") as caught:
            reader(path)
        assert "neither Ed25519 nor ECDSA" in str(caught.value)
