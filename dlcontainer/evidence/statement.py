"""An in-toto statement: this file is evidence of that kind about the image of this digest.

Source: github.com/in-toto/attestation, spec/v1/statement.md. The file itself is not in it, only
its SHA-256: a session or a report is read as a file.
"""

import json
from dataclasses import dataclass
from typing import Any

from dlcontainer.errors import ChecksFailedError
from dlcontainer.evidence import kinds
from dlcontainer.evidence.kinds import FORMS, KINDS, EvidenceSubject, Kind
from dlcontainer.system import foreign_files

TYPE = "https://in-toto.io/Statement/v1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """What is said of an image: the kind, and the file by SHA-256 and size."""

    kind: Kind
    image: str
    sha256: str
    size: int


def text(statement: Statement, name: str) -> bytes:
    """Write a statement about an image that is called so."""
    body = {
        "_type": TYPE,
        "subject": [{"name": name, "digest": {"sha256": statement.image}}],
        "predicateType": kinds.predicate_type(statement.kind),
        "predicate": {
            "mediaType": FORMS[statement.kind].media_type,
            "sha256": statement.sha256,
            "size": statement.size,
        },
    }
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def read(payload: bytes, where: str) -> Statement:
    """Read a statement; raises ChecksFailedError for what is none of ours."""
    types = {kinds.predicate_type(kind): kind for kind in KINDS}
    try:
        body: Any = foreign_files.loads(payload)
        if body["_type"] != TYPE:
            raise ValueError(f"its type is not {TYPE}")
        (subject,) = body["subject"]
        predicate = body["predicate"]
        texts = (subject["digest"]["sha256"], predicate["sha256"])
        if not all(isinstance(digest, str) and len(digest) == 64 for digest in texts):
            raise ValueError("a SHA-256 is invalid")
        if type(predicate["size"]) is not int:
            raise TypeError("the size is not a whole number")
        return Statement(
            kind=types[body["predicateType"]],
            image=texts[0],
            sha256=texts[1],
            size=predicate["size"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ChecksFailedError(
            f"{where} is not a statement about an image",
            why=f"{type(error).__name__}: {error}"[:200],
            next_step="copy it from its source again",
        ) from None


def require_about(statement: Statement, subject: EvidenceSubject, where: str) -> None:
    """Require that a statement is about this image; raises ChecksFailedError."""
    if statement.image != subject.sha256:
        raise ChecksFailedError(
            f"{where} belongs to another image",
            why=f"it was signed for image {statement.image[:12]}…, this image is "
            f"{subject.sha256[:12]}…",
            next_step="use the evidence of this image",
        )
