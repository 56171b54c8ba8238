"""The kinds of evidence: their names in a registry, and the image that each speaks of."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from dlcontainer.config.field_types import EvidenceKind
from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import checks_file
from dlcontainer.system import foreign_files

Kind = EvidenceKind
KINDS: tuple[Kind, ...] = get_args(EvidenceKind)
# Of one file; a session of a day's launches has some MB.
MOST_BYTES = 256_000_000
ENVELOPE_TYPE = "application/vnd.dsse.envelope.v1+json"
_NAMESPACE = "application/vnd.dlcontainer"


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceSubject:
    """An image as evidence names it; `earlier` is its SHA-256 before it was signed."""

    name: str
    sha256: str
    earlier: str | None = None
    plan: str | None = None


# What a file says of the image: (key, value); a value that is not there says nothing.
Claims = Callable[[bytes], Iterator[tuple[str, object]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceFormat:
    """How a kind's file is named, typed and read."""

    suffix: str
    media_type: str
    claims: Claims


def _none(_data: bytes) -> Iterator[tuple[str, object]]:
    yield from ()


def _record(data: bytes) -> Iterator[tuple[str, object]]:
    body = _object(data, "dlcontainer/record/1")
    yield "plan", body.get("digest")
    image = body.get("image")
    yield "image", image.get("sha256") if isinstance(image, dict) else None


def _bill(data: bytes) -> Iterator[tuple[str, object]]:
    if _object(data).get("bomFormat") != "CycloneDX":
        raise ValueError("it is not a CycloneDX bill of materials")
    yield from ()


def _validate(data: bytes) -> Iterator[tuple[str, object]]:
    report = checks_file.validation(_object(data, checks_file.VALIDATED))
    if not report.ok:
        raise ValueError("it reports a failed check")
    yield "plan", report.plan
    yield "image", report.sha256


def _proof(data: bytes) -> Iterator[tuple[str, object]]:
    body = _object(data, "dlcontainer/proof/1")
    image = _inner(_inner(body, "content"), "image")
    yield "plan", image.get("plan")
    yield "image", image.get("sha256")


def _bench(data: bytes) -> Iterator[tuple[str, object]]:
    declared = _inner(_object(data.partition(b"\n")[0]), "declared")
    yield "plan", declared.get("plan_digest")
    yield "image", declared.get("image_sha256")


FORMS: Mapping[Kind, EvidenceFormat] = {
    "record": EvidenceFormat(
        suffix=".json", media_type=f"{_NAMESPACE}.record.v1+json", claims=_record
    ),
    "bill": EvidenceFormat(
        suffix=".cdx.json", media_type="application/vnd.cyclonedx+json", claims=_bill
    ),
    "validate": EvidenceFormat(
        suffix=".json", media_type=f"{_NAMESPACE}.validate.v1+json", claims=_validate
    ),
    "proof": EvidenceFormat(
        suffix=".json", media_type=f"{_NAMESPACE}.proof.v1+json", claims=_proof
    ),
    "bench": EvidenceFormat(
        suffix=".jsonl", media_type=f"{_NAMESPACE}.bench.v1+jsonl", claims=_bench
    ),
    "report": EvidenceFormat(suffix=".html", media_type="text/html", claims=_none),
}


def artifact_type(kind: Kind) -> str:
    """Return the type by which a registry lists evidence of a kind."""
    return f"{_NAMESPACE}.evidence.{kind}.v1"


def predicate_type(kind: Kind) -> str:
    """Return the type by which an in-toto statement names a kind."""
    return f"urn:dlcontainer:evidence:{kind}:1"


def require_about(kind: Kind, data: bytes, subject: EvidenceSubject) -> None:
    """Require that a file is of its kind and speaks of this image; raises ChecksFailedError."""
    try:
        claims = list(FORMS[kind].claims(data))
    except (ValueError, UnicodeDecodeError) as error:
        raise ChecksFailedError(
            f"the {kind} evidence is not usable",
            why=str(error)[:200],
            next_step="give the file that dlcontainer wrote",
        ) from None
    digests = {"plan": {subject.plan}, "image": {subject.sha256, subject.earlier}}
    for key, value in claims:
        if not isinstance(value, str) or not value:
            continue
        bare = value.removeprefix("sha256:")
        if subject.plan is None and key == "plan":
            continue
        if bare not in digests[key]:
            digest = subject.plan if key == "plan" else subject.sha256
            raise ChecksFailedError(
                f"the {kind} evidence belongs to another image",
                why=f"its {key} is {bare[:12]}…, this image has {str(digest)[:12]}…",
                next_step="give the evidence of this image",
            )


def _object(data: bytes, schema: str | None = None) -> Mapping[str, Any]:
    body = foreign_files.loads(data)
    if not isinstance(body, dict):
        raise ValueError("it is not a JSON object")
    if schema is not None and body.get("schema") != schema:
        raise ValueError(f"its schema is not {schema}")
    return body


def _inner(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = body.get(key)
    if not isinstance(value, dict):
        raise ValueError(f"{key!r} is missing")
    return value
