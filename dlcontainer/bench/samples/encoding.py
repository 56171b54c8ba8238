"""Records to fields of a line and back, each checked by its model."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass

from pydantic import TypeAdapter, ValidationError

from dlcontainer.bench.samples import hash_chain
from dlcontainer.bench.samples.file_version import FORMAT, READABLE
from dlcontainer.bench.samples.hash_chain import ChainLine
from dlcontainer.bench.samples.records import (
    AttestedStack,
    End,
    Record,
    Resume,
    Sample,
    SessionDeclaration,
    SessionHeader,
)
from dlcontainer.bench.samples.resident.resident_records import LostGroup
from dlcontainer.errors import BenchDataError

KINDS: dict[str, TypeAdapter[Record]] = {
    "session": TypeAdapter(SessionHeader),
    "stack": TypeAdapter(AttestedStack),
    "sample": TypeAdapter(Sample),
    "resume": TypeAdapter(Resume),
    "lost": TypeAdapter(LostGroup),
    "end": TypeAdapter(End),
}
_NAMES: dict[type, str] = {
    SessionHeader: "session",
    AttestedStack: "stack",
    Sample: "sample",
    Resume: "resume",
    LostGroup: "lost",
    End: "end",
}
_read_sample = KINDS["sample"].validator.validate_json
# Lines of sessions without ranks, without groups and without rows have no such keys; nor has one
# where a session goes on what is always null.
_MAY_LACK = ("launches", "node", "ranks", "residents", "rows", "unpaired")
_SAMPLE = b'{"kind":"sample",'


def declared_sha256(declared: SessionDeclaration) -> str:
    """Return the hash of a declaration: the same declaration has the same, in any session."""
    return hash_chain.digest(hash_chain.canonical(_declaration(declared)))


def _declaration(declared: SessionDeclaration) -> dict[str, object]:
    body = plain(declared)
    if not isinstance(body, dict):
        raise TypeError(type(declared).__name__)
    # An earlier program's declaration, and with it its hash, stays what it was.
    for name in ("groups", "lost_most", "rows"):
        if body[name] is None:
            del body[name]
    return body


def plain(value: object) -> object:
    """Turn records into what JSON has."""
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: plain(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def to_fields(record: Record) -> dict[str, object]:
    """Return the fields of a record's line, checked as a reader will check them.

    Raises BenchDataError for a record that could not be read again.
    """
    kind = _NAMES[type(record)]
    body = plain(record)
    if not isinstance(body, dict):
        raise TypeError(kind)
    body.pop("line", None)
    for name in _MAY_LACK:
        if not body.get(name, True):
            del body[name]
    # Rows of most probes have times alone, and no such key.
    rows = body.get("rows")
    for row in rows if isinstance(rows, list) else ():
        if not row["outcome"]:
            del row["outcome"]
    if isinstance(record, SessionHeader):
        body["declared"] = _declaration(record.declared)
    _validated(kind, hash_chain.canonical(body), f"a {kind} to be written")
    head: dict[str, object] = {"kind": kind}
    if isinstance(record, SessionHeader):
        head["schema"] = f"{FORMAT}{record.declared.version}"
        head["declared_sha256"] = declared_sha256(record.declared)
    return {**head, **body}


def sample_of(line: ChainLine, path: str) -> Sample | None:
    """Read a launch's line in one go, for there are many; None for a line of another kind."""
    if not line.text.startswith(_SAMPLE):
        return None
    # A place is worded only for a mistake: there may be a million lines without one.
    try:
        fields = _read_sample(b'{"line":%d,' % line.number + line.text[len(_SAMPLE) :])
    except ValidationError as error:
        raise _unfit("sample", error, f"{path}:{line.number}") from None
    return fields if isinstance(fields, Sample) else None


def from_fields(kind: str, body: Mapping[str, object], where: str) -> Record:
    """Read a record from its line's fields; raises BenchDataError naming the field."""
    if kind not in KINDS:
        raise BenchDataError(
            f"unknown kind of line: {kind!r}",
            where=where,
            why=f"the lines of a session's file are of the kinds {', '.join(KINDS)}",
            next_step="give a file written by `dlcontainer bench`",
        )
    return _validated(kind, hash_chain.canonical(dict(body)), where)


def _validated(kind: str, text: str | bytes, where: str) -> Record:
    # From JSON text, because there a list may stand for a tuple and nothing else is lenient.
    try:
        return KINDS[kind].validate_json(text)
    except ValidationError as error:
        raise _unfit(kind, error, where) from None


def _unfit(kind: str, error: ValidationError, where: str) -> BenchDataError:
    first = error.errors(include_url=False)[0]
    name = ".".join(str(part) for part in first["loc"]) or kind
    return BenchDataError(
        f"{name}: {first['msg'][0].lower()}{first['msg'][1:]}",
        where=where,
        why=f"the line does not fit the format {FORMAT}{READABLE[-1]}",
        next_step="give a file written by `dlcontainer bench`",
    )
