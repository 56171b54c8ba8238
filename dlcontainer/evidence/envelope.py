"""DSSE: an envelope around bytes of a named type, and the signatures over both.

Source: github.com/secure-systems-lab/dsse, protocol.md and envelope.md, version 1.0.0. The type is
signed with the bytes, so that a valid signature over one thing is none over another.
"""

import base64
import binascii
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dlcontainer.errors import ChecksFailedError
from dlcontainer.evidence.keys import PublicKey, SigningKey
from dlcontainer.system import foreign_files

PAYLOAD_TYPE = "application/vnd.in-toto+json"
MOST_BYTES = 4_000_000
_MOST_SIGNATURES = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """One signature; `certificate` is the signer's own, in PEM, if it came along."""

    data: bytes
    certificate: bytes | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Envelope:
    """What was signed, and by which signatures; nothing is said of their worth yet."""

    payload: bytes
    signatures: tuple[Signature, ...]

    def signed_by(self, keys: Iterable[PublicKey]) -> tuple["VerifiedSignature", ...]:
        """Return those of some keys that signed it, each with its signature."""
        message = pae(PAYLOAD_TYPE, self.payload)
        signatures = {
            key.id: VerifiedSignature(key=key, signature=signature)
            for signature in reversed(self.signatures)
            for key in keys
            if key.holds(signature.data, message)
        }
        return tuple(signatures.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifiedSignature:
    """A signature that holds, and the key by which it does."""

    key: PublicKey
    signature: Signature


def pae(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that a signature is over (pre-authentication encoding)."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def sealed(payload: bytes, key: SigningKey, certificate: bytes | None = None) -> bytes:
    """Sign a payload and write its envelope."""
    signature = Signature(data=key.sign(pae(PAYLOAD_TYPE, payload)), certificate=certificate)
    return text(payload, [VerifiedSignature(key=key.public, signature=signature)])


def text(payload: bytes, signed: Iterable[VerifiedSignature]) -> bytes:
    """Write an envelope."""
    entries = []
    for signature in signed:
        entry = {
            "keyid": f"sha256:{signature.key.id}",
            "sig": base64.b64encode(signature.signature.data).decode(),
        }
        if signature.signature.certificate is not None:
            entry["cert"] = signature.signature.certificate.decode("ascii")
        entries.append(entry)
    body = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": entries,
    }
    return (json.dumps(body, indent=1) + "\n").encode()


def read(data: bytes, where: str) -> Envelope:
    """Read an envelope; raises ChecksFailedError for what is none."""
    try:
        if len(data) > MOST_BYTES:
            raise ValueError("it is too large")
        body = foreign_files.loads(data)
        if body["payloadType"] != PAYLOAD_TYPE:
            raise ValueError(f"its payload is not {PAYLOAD_TYPE}")
        signatures = body["signatures"]
        if not isinstance(signatures, list) or len(signatures) > _MOST_SIGNATURES:
            raise ValueError("its signatures are not a list, or there are too many")
        return Envelope(
            payload=_bytes(body["payload"]), signatures=tuple(map(_signature, signatures))
        )
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise ChecksFailedError(
            f"{where} is not a signed envelope (DSSE)",
            why=str(error)[:200],
            next_step="copy it from its source again",
        ) from None


def _signature(entry: Any) -> Signature:
    certificate = entry.get("cert") if isinstance(entry, dict) else None
    if certificate is not None and not isinstance(certificate, str):
        raise TypeError("its certificate is not a string")
    return Signature(
        data=_bytes(entry["sig"]),
        certificate=certificate.encode() if certificate is not None else None,
    )


def _bytes(text: object) -> bytes:
    if not isinstance(text, str):
        raise TypeError("its payload or a signature is not a string")
    return base64.b64decode(text, validate=True)
