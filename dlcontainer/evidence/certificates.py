"""Certificates that came with evidence: which of them could be a signer's at all.

Anybody may lay one beside an image or push it. Only one that a given root issued is handed to the
engine, which judges it: its dates, and what it is for.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlcontainer.errors import ConfigError
from dlcontainer.evidence import keys
from dlcontainer.evidence.keys import PublicKey

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


@dataclass(frozen=True, kw_only=True, slots=True)
class LeafCertificate:
    """A certificate that a root issued: its one form in PEM, and its key."""

    pem: bytes
    key: PublicKey


class Roots:
    """The certificates of a CA, by which others are looked at."""

    def __init__(self, data: bytes) -> None:
        """Read the roots; raises ConfigError."""
        x509 = keys.x509()
        try:
            self._roots: list[Certificate] = x509.load_pem_x509_certificates(data)
        except ValueError:
            raise ConfigError(
                "the certificate roots are not PEM certificates",
                next_step="give the CA's PEM file: --certificate-roots FILE, or "
                "trust.certificate_roots in the site config",
            ) from None

    def issued(self, data: bytes) -> LeafCertificate | None:
        """Read a certificate that one of these roots issued, or is; None for any other."""
        try:
            certificate = _read(data)
            if certificate not in self._roots and not self._issued(certificate):
                return None
            return _carried(certificate)
        except ConfigError:
            return None

    def _issued(self, certificate: "Certificate") -> bool:
        return any(_is_of(certificate, root) for root in self._roots)


def of_key(data: bytes, key: PublicKey) -> bytes | None:
    """Return a certificate's one form in PEM if it is of this key; None for anything else."""
    try:
        certificate = _carried(_read(data))
    except ConfigError:
        return None
    return certificate.pem if certificate.key.id == key.id else None


def _read(data: bytes) -> "Certificate":
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return keys.x509().load_pem_x509_certificate(data)  # type: ignore[no-any-return]
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"can't read the certificate: {error}") from None


def _carried(certificate: "Certificate") -> LeafCertificate:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding

    try:
        key = keys.public(certificate.public_key(), "certificate")
        return LeafCertificate(pem=certificate.public_bytes(Encoding.PEM), key=key)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"can't read the certificate: {error}") from None


def _is_of(certificate: "Certificate", root: "Certificate") -> bool:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        certificate.verify_directly_issued_by(root)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True
