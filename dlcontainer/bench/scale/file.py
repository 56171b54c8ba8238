"""Write and read a matrix's file."""

import io
import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from dlcontainer.bench.samples import hash_chain
from dlcontainer.bench.samples.encoding import plain
from dlcontainer.bench.samples.writer import ChainedFile, Cut
from dlcontainer.bench.scale.records import (
    SCHEMA,
    Declared,
    Ended,
    Header,
    Launched,
    Resumed,
    Scale,
)
from dlcontainer.errors import BenchDataError
from dlcontainer.system import foreign_files

Record = Header | Launched | Resumed | Ended
_KINDS: Mapping[str, TypeAdapter[Record]] = {
    "matrix": TypeAdapter(Header),
    "launch": TypeAdapter(Launched),
    "resume": TypeAdapter(Resumed),
    "end": TypeAdapter(Ended),
}
_NAMES: Mapping[type, str] = {
    Header: "matrix",
    Launched: "launch",
    Resumed: "resume",
    Ended: "end",
}
_MOST_BYTES = 64_000_000
_BEGIN = f'{{"schema":"{SCHEMA}",'.encode()


def digest(declared: Declared) -> str:
    """Give the hash of a declaration."""
    return hash_chain.digest(hash_chain.canonical(plain(declared)))


def fields_of(record: Record) -> dict[str, object]:
    """Give a line's fields, checked as a reader will check them."""
    body = plain(record)
    if not isinstance(body, dict):
        raise TypeError(type(record).__name__)
    body.pop("line", None)
    kind = _NAMES[type(record)]
    _validated(kind, body, f"a {kind} to be written")
    # The schema comes first: by it a file is known (see findings.is_one).
    head = {"schema": SCHEMA} if isinstance(record, Header) else {}
    return {**head, "kind": kind, **body}


class ScaleWriter(ChainedFile):
    """Write one matrix."""

    def __init__(self, path: Path, header: Header, *, after: Scale | None = None) -> None:
        cut = None
        if after is not None:
            cut = Cut(
                size=after.size,
                dropped=after.dropped,
                seal=after.seal,
                samples=len(after.launches),
            )
        super().__init__(path, fields_of(header), cut=cut)

    def write(self, record: Launched | Resumed) -> None:
        """Write a launch, or that it goes on."""
        self._append(fields_of(record))
        self._samples += isinstance(record, Launched)

    def _ended(self, *, complete: bool, reason: str) -> dict[str, object]:
        return fields_of(Ended(complete=complete, reason=reason, launches=self._samples))


def is_one(path: Path) -> bool:
    """Tell whether a file begins like a matrix's."""
    try:
        with foreign_files.opened(path) as file:
            return file.read(len(_BEGIN)) == _BEGIN
    except OSError:
        return False


def read(path: Path) -> Scale:
    """Read a matrix's file, every line verified; raises BenchDataError for what is not one."""
    header: Header | None = None
    launches, resumes, end = [], [], None
    size, seal = 0, ""
    try:
        raw = foreign_files.read(path, _MOST_BYTES)
    except OSError as error:
        raise _unfit(str(path), str(error.strerror)) from None
    for line in hash_chain.decode(io.BytesIO(raw), str(path)):
        where = f"{path}:{line.number}"
        body = hash_chain.parse(line, where)
        record = _record(body, line.number, where)
        if isinstance(record, Header) != (line.number == 1):
            raise _unfit(where, "a matrix's file has its declaration in the first line alone")
        if isinstance(record, Header):
            header = record
        elif isinstance(record, Launched):
            launches.append(record)
        elif isinstance(record, Resumed):
            resumes.append(record)
            end = None
        else:
            end = record
        size, seal = raw.index(b"\n", size) + 1, line.chain
    if header is None or digest(header.declared) != header.declared_sha256:
        raise _unfit(str(path), "its declaration is not what its digest was made of")
    _hold(path, header, launches)
    return Scale(
        header=header,
        launches=tuple(launches),
        resumes=tuple(resumes),
        end=end,
        seal=seal,
        size=size,
        dropped=len(raw) - size,
    )


def _record(body: dict[str, object], number: int, where: str) -> Record:
    kind, schema = str(body.pop("kind", "")), body.pop("schema", SCHEMA)
    if kind not in _KINDS or schema != SCHEMA:
        raise _unfit(where, f"kind {kind!r}, schema {schema!r}; known here: {SCHEMA}")
    if kind != "matrix":
        body["line"] = number
    return _validated(kind, body, where)


def _validated(kind: str, body: Mapping[str, object], where: str) -> Record:
    try:
        return _KINDS[kind].validate_json(json.dumps(body), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"]) or kind
        raise _unfit(where, f"{name}: {first['msg'][0].lower()}{first['msg'][1:]}") from None
    except RecursionError:
        raise _unfit(where, "nested too deeply") from None


def _hold(path: Path, header: Header, launches: list[Launched]) -> None:
    """Refuse launches of no cell, and a cell's round that is there twice."""
    seen = set()
    for launch in launches:
        place = (launch.cell, launch.round)
        if not 0 <= launch.cell < len(header.declared.cells) or place in seen:
            raise _unfit(f"{path}:{launch.line}", "a launch of no cell, or one that is there twice")
        seen.add(place)


def _unfit(where: str, why: str) -> BenchDataError:
    return BenchDataError(
        "not a matrix's file as it was written",
        where=where,
        why=why,
        next_step="give files that `dlcontainer bench scale` has written",
    )
