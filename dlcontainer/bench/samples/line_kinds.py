"""Files of chained lines, each line a record of one of a few kinds: written, and read back."""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from dlcontainer.bench.samples import hash_chain
from dlcontainer.bench.samples.encoding import plain
from dlcontainer.errors import BenchDataError
from dlcontainer.system import foreign_files

_MOST_BYTES = 64_000_000
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordLines(Generic[R]):
    """All records of a file; bytes of whole lines (`size`), and of a last one that was cut."""

    records: tuple[R, ...]
    seal: str
    size: int
    dropped: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Kinds(Generic[R]):
    """The kinds of a schema's lines; the first is the first line's, and no other's."""

    schema: str
    types: Mapping[str, type]
    adapters: Mapping[str, TypeAdapter[R]]
    unfit: Callable[[str, str], BenchDataError]

    @property
    def first(self) -> str:
        """The kind of the first line."""
        return next(iter(self.types))

    def fields_of(self, record: R) -> dict[str, object]:
        """Return a line's fields, checked as a reader will check them."""
        body = plain(record)
        if not isinstance(body, dict):
            raise TypeError(type(record).__name__)
        body.pop("line", None)
        kind = next(name for name, record_type in self.types.items() if type(record) is record_type)
        self._validated(kind, body, f"a {kind} to be written")
        # The schema comes first: by it a file is known.
        head = {"schema": self.schema} if kind == self.first else {}
        return {**head, "kind": kind, **body}

    def is_one(self, path: Path) -> bool:
        """Return whether a file begins like one of this schema."""
        begin = f'{{"schema":"{self.schema}",'.encode()
        try:
            with foreign_files.opened(path) as file:
                return file.read(len(begin)) == begin
        except OSError:
            return False

    def read(self, path: Path) -> RecordLines[R]:
        """Read a file, every line verified; raises BenchDataError for what is not one."""
        try:
            raw = foreign_files.read(path, _MOST_BYTES)
        except OSError as error:
            raise self.unfit(str(path), str(error.strerror)) from None
        records: list[R] = []
        size, seal = 0, ""
        for line in hash_chain.decode(io.BytesIO(raw), str(path)):
            where = f"{path}:{line.number}"
            record = self._record(hash_chain.parse(line, where), line.number, where)
            if isinstance(record, self.types[self.first]) != (line.number == 1):
                raise self.unfit(where, "the declaration is the first line, and only that")
            records.append(record)
            size, seal = raw.index(b"\n", size) + 1, line.chain
        if not records:
            raise self.unfit(str(path), "it has no declaration")
        return RecordLines(records=tuple(records), seal=seal, size=size, dropped=len(raw) - size)

    def _record(self, body: dict[str, object], number: int, where: str) -> R:
        kind, schema = str(body.pop("kind", "")), body.pop("schema", self.schema)
        if kind not in self.types or schema != self.schema:
            raise self.unfit(where, f"kind {kind!r}, schema {schema!r}; known here: {self.schema}")
        if kind != self.first:
            body["line"] = number
        return self._validated(kind, body, where)

    def _validated(self, kind: str, body: Mapping[str, object], where: str) -> R:
        try:
            return self.adapters[kind].validate_json(json.dumps(body), strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(str(part) for part in first["loc"]) or kind
            raise self.unfit(
                where, f"{name}: {first['msg'][0].lower()}{first['msg'][1:]}"
            ) from None
        except RecursionError:
            raise self.unfit(where, "nested too deeply") from None


_OURS = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class ResumeRecord:
    """It went on after an interruption."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    started: str
    dropped_bytes: int
    line: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class EndRecord:
    """The last line."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    complete: bool
    reason: str
    launches: int
    line: int = 0
