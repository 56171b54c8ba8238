"""The record of an extended image: what it was made on, and what vouches for that."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlcontainer.adopt import trust, write_record
from dlcontainer.adopt.write_record import PackedImage
from dlcontainer.authoring.extension.base_copy import BaseCopy
from dlcontainer.engines.execution import Execution
from dlcontainer.image.record import Record
from dlcontainer.system import digests
from dlcontainer.validate.inspected import CheckResult


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseProof:
    """What a proof of the base's printed before the layer was there; `of` is its recipe."""

    of: str
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordFacts:
    """All that a record is made of; `name` is the image's file in its place."""

    content: Mapping[str, Any]
    image: Path
    name: str
    base: BaseCopy
    execution: Execution
    trusted: bool


def write(path: Path, facts: RecordFacts) -> Record:
    """Write the record of an extended image."""
    host, base, sha256 = facts.execution.host, facts.base, digests.of_file(facts.image)
    packed = PackedImage(file=facts.image, name=facts.name, sha256=sha256)
    body = {
        **write_record.of_packed(packed, facts.content, facts.execution),
        "base": {
            "sha256": base.sha256,
            "tree_sha256": base.tree_sha256,
            "path": str(base.path) if str(base.path).isprintable() else None,
            "record": base.record.record.digest if base.record else None,
            "signed": base.is_signed,
        },
        "extended_on": {"arch": host.arch, "distribution": host.distribution},
        "trust": trust.of(host.user, sha256) if _is_trusted(facts) else None,
        "unverified": _unverified(base),
    }
    return write_record.settle_record(path, body)


def add_proofs(path: Path, before: Sequence[BaseProof], after: Sequence[CheckResult]) -> None:
    """Add what the base's own proofs printed before and after to a record that is not settled."""
    details = {check.name: check.detail for check in after}
    proofs = [
        {"recipe": proof.of, "before": proof.detail, "after": details.get(f"verify {proof.of}")}
        for proof in before
    ]
    body = {**json.loads(path.read_text()), "base_verify": proofs}
    path.write_text(json.dumps(body, indent=1) + "\n")


def _is_trusted(facts: RecordFacts) -> bool:
    """Return whether somebody here trusts the image: who trusted the base trusts it below."""
    base = facts.base.record
    return facts.trusted or (
        base is not None and base.record.trust is not None and not base.record.is_contained
    )


def _unverified(base: BaseCopy) -> Mapping[str, str] | None:
    """Return the mark of an image on one that a stranger vouches for; None on all others.

    The new record is this user's: without the mark it would lift what the old one held apart.
    """
    if base.record is None or not base.record.record.is_contained:
        return None
    written = base.record.record
    if written.content.is_foreign:
        return None  # says so by itself
    source = (
        written.unverified.source
        if written.unverified is not None
        else f"{base.path.name}, whose record belongs to {written.stranger}"
    )
    return {"source": source, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
