"""Signers of the tests: keys, a CA, certificates, all made at the moment."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dlcontainer.evidence import folder as folders
from dlcontainer.evidence import pieces
from dlcontainer.evidence.pieces import Piece

_PEM = serialization.Encoding.PEM
_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """The files of a signer's key."""

    private: Path
    public: Path


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def _private(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey, word: str) -> bytes:
    lock: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if word:
        lock = serialization.BestAvailableEncryption(word.encode())
    data: bytes = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, lock)
    return data


def pair(folder: Path, name: str, *, curve: bool = False, passphrase: str = "") -> Pair:
    """Make a key: Ed25519, or ECDSA on P-256."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1()) if curve else ed25519.Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(_PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return Pair(
        private=_written(folder / f"{name}.key", _private(key, passphrase)),
        public=_written(folder / f"{name}.pub", public),
    )


@dataclass(frozen=True, kw_only=True)
class Authority:
    """A CA of our own, and what it signs."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def made(cls, folder: Path, name: str = "The centre's CA") -> "Authority":
        folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        named = _named(name)
        own = (
            _begun(named, named, key, key.public_key(), days=(-1, 30))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_SIGNS_CERTIFICATES, critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(folder=folder, key=key, certificate=own)

    @property
    def roots(self) -> Path:
        return _written(self.folder / "roots.pem", self.certificate.public_bytes(_PEM))

    def signer(self, name: str, *, days: tuple[int, int] = (-1, 10)) -> Pair:
        """Make a key with a certificate for signing code; `public` is the certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING])
        made = (
            _begun(_named(name), self.certificate.subject, key, self.key.public_key(), days=days)
            .add_extension(usage, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return Pair(
            private=_written(self.folder / f"{name}.key", _private(key, "")),
            public=_written(self.folder / f"{name}.pem", made.public_bytes(_PEM)),
        )

    def server(self) -> Pair:
        """Make a key and certificate for a server on loopback."""
        key = ec.generate_private_key(ec.SECP256R1())
        local = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        signing = self.key.public_key()
        made = (
            _begun(_named("127.0.0.1"), self.certificate.subject, key, signing, days=(-1, 10))
            .add_extension(x509.SubjectAlternativeName([local]), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return Pair(
            private=_written(self.folder / "server.key", _private(key, "")),
            public=_written(self.folder / "server.pem", made.public_bytes(_PEM)),
        )


_SIGNS_CERTIFICATES = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signing: ec.EllipticCurvePublicKey,
    *,
    days: tuple[int, int],
) -> x509.CertificateBuilder:
    """Begin a certificate as RFC 5280 wants it: Python 3.13 takes no other."""
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + days[0] * _DAY)
        .not_valid_after(now + days[1] * _DAY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing), critical=False)
    )


def pieces_in(place: Path) -> list[Piece]:
    """Read all evidence in a folder; each piece must be readable."""
    said: list[str] = []
    found = list(pieces.loaded(folders.offers(place), pieces.RefusalNotes(tell=said.append)))
    assert said == []
    return found
