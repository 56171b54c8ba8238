"""PEM keys of signers: Ed25519, or ECDSA on P-256 and P-384, as Apptainer takes them too.

The mathematics are the package `cryptography`'s; it is an extra, since only signers and those who
verify need it.
"""

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlcontainer.errors import ChecksFailedError, ConfigError, EngineError
from dlcontainer.system import foreign_files, guarded_files

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_BYTES = 64_000


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicKey:
    """A key that signatures are checked with; `id` is the SHA-256 of its DER form."""

    id: str
    pem: bytes
    where: str

    def holds(self, signature: bytes, message: bytes) -> bool:
        """Return whether this key's owner signed a message."""
        return _holds(_serialization().load_pem_public_key(self.pem), signature, message)


@dataclass(frozen=True, kw_only=True, slots=True)
class SigningKey:
    """A private key, decrypted, in memory only; it has no printable form."""

    public: PublicKey
    _pem: bytes

    def __repr__(self) -> str:
        return f"SigningKey({self.public.id})"

    @property
    def pem(self) -> bytes:
        """The key itself, for an engine that reads it from a file in memory."""
        return self._pem

    def sign(self, message: bytes) -> bytes:
        """Sign a message."""
        key = _serialization().load_pem_private_key(self._pem, None)
        return bytes(_signer(key)(message))


def read_private(path: Path, passphrase: bytes | None = None) -> SigningKey:
    """Read a private key; raises ConfigError for one that is none, or that others may read."""
    serialization = _serialization()
    data = _content(path, secret=True)
    try:
        key = serialization.load_pem_private_key(data, passphrase)
    except TypeError:
        raise ConfigError(
            f"can't use the key {path}",
            why="it has a passphrase, and none was given"
            if passphrase is None
            else "a passphrase was given, but the key has none",
            next_step="use --passphrase-fd N if, and only if, the key has a passphrase",
        ) from None
    except _unsupported():
        raise _unfit(str(path)) from None
    except ValueError:
        raise ConfigError(
            f"can't use the key {path}",
            why="it is not a private key in PEM form, or the passphrase is wrong",
            next_step=_HOW,
        ) from None
    _signer(key, path)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return SigningKey(public=public(key.public_key(), str(path)), _pem=pem)


def read_public(path: Path, *, must_own: bool = False) -> PublicKey:
    """Read a public key in PEM; with `must_own`, only this user or root may own it."""
    serialization = _serialization()
    data = _content(path, must_own=must_own)
    try:
        key = serialization.load_pem_public_key(data)
    except _unsupported():
        raise _unfit(str(path)) from None
    except ValueError:
        raise ConfigError(
            f"can't use the key {path}",
            why="it is not a public key in PEM form",
            next_step="make it from the private key: openssl pkey -in KEY -pubout -out KEY.pub",
        ) from None
    return public(key, str(path))


def of_certificate(data: bytes, where: str) -> PublicKey:
    """Return the key of a certificate in PEM; nothing is said of the certificate's own worth."""
    reader = x509()
    try:
        return public(reader.load_pem_x509_certificate(data).public_key(), where)
    except _unsupported():
        raise _unfit(where) from None
    except ValueError:
        raise ConfigError(
            f"{where} is not a PEM certificate", next_step="give the certificate's PEM file"
        ) from None


def x509() -> Any:
    """Return the package that reads certificates; raises EngineError where it is missing."""
    try:
        from cryptography import x509
    except ImportError:
        raise _missing() from None
    return x509


def read_file(path: Path, *, must_own: bool = False) -> bytes:
    """Read a certificate or keyring; raises ConfigError."""
    return _content(path, must_own=must_own, most=16_000_000)


_HOW = "make one: openssl genpkey -algorithm ed25519 -out release.key"


def _content(
    path: Path, *, secret: bool = False, must_own: bool = False, most: int = _MOST_BYTES
) -> bytes:
    try:
        with foreign_files.opened(path) as file:
            info = os.fstat(file.fileno())
            if secret and stat.S_IMODE(info.st_mode) & 0o077:
                raise ConfigError(
                    f"other users can read the private key {path}",
                    why=f"its mode is {stat.S_IMODE(info.st_mode):04o}",
                    next_step=f"chmod 600 {path}",
                )
            if must_own:
                guarded_files.require_own(file.fileno())
            return foreign_files.content(file, most)
    except OSError as error:
        raise ConfigError(
            f"can't use the key {path}: {error.strerror}", next_step="give the path of a PEM file"
        ) from None


def _serialization() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError:
        raise _missing() from None
    return serialization


def _unsupported() -> type[Exception]:
    """Return the error that the package has for a kind of key that it does not know."""
    from cryptography.exceptions import UnsupportedAlgorithm

    return UnsupportedAlgorithm


def _missing() -> EngineError:
    return EngineError(
        "the Python package `cryptography` is missing",
        why="dlcontainer makes and checks signatures with it",
        next_step="install it beside dlcontainer: pip install 'cryptography>=42'",
    )


def public(key: Any, where: str) -> PublicKey:
    """Describe a public key of the package; raises ConfigError for a kind that is not taken."""
    if _scheme(key) is None:
        raise _unfit(where)
    serialization = _serialization()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    der = key.public_bytes(serialization.Encoding.DER, form)
    pem = key.public_bytes(serialization.Encoding.PEM, form)
    return PublicKey(id=hashlib.sha256(der).hexdigest(), pem=pem, where=where)


def _scheme(key: Any) -> Any:
    """Return the hash that goes with a key, `""` for Ed25519's own, None for a kind not taken."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    if isinstance(key, ed25519.Ed25519PrivateKey | ed25519.Ed25519PublicKey):
        return ""
    if isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey):
        return {"secp256r1": hashes.SHA256(), "secp384r1": hashes.SHA384()}.get(key.curve.name)
    return None


def _signer(key: Any, path: Path | str = "") -> "Callable[[bytes], bytes]":
    from cryptography.hazmat.primitives.asymmetric import ec

    scheme = _scheme(key)
    if scheme is None:
        raise _unfit(str(path))
    if scheme == "":
        return lambda message: bytes(key.sign(message))
    return lambda message: bytes(key.sign(message, ec.ECDSA(scheme)))


def _holds(key: Any, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec

    scheme = _scheme(key)
    try:
        if scheme == "":
            key.verify(signature, message)
        else:
            key.verify(signature, message, ec.ECDSA(scheme))
    except InvalidSignature:
        return False
    return True


def _unfit(where: str) -> ConfigError:
    return ConfigError(
        f"can't use the key {where}",
        why="it is neither Ed25519 nor ECDSA on P-256 or P-384",
        next_step=_HOW,
    )


def unsigned(what: str, why: str) -> ChecksFailedError:
    """Return the error of a signature that does not hold."""
    return ChecksFailedError(what, why=why, next_step="ask the signer, or give the signer's key")
