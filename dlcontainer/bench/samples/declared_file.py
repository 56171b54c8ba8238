"""Files of one declaration and its launches, line by line: written, cut, gone on with, read.

Job sessions and the matrices of an import are such files; what a launch is they say themselves.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from pydantic import TypeAdapter

from dlcontainer.bench.samples import hash_chain
from dlcontainer.bench.samples.encoding import plain
from dlcontainer.bench.samples.line_kinds import EndRecord, Kinds, ResumeRecord
from dlcontainer.bench.samples.writer import ChainedFile, CutPoint
from dlcontainer.errors import BenchDataError


class DeclaredHeader(Protocol):
    """The first line: a declaration, and the digest that was made of it."""

    @property
    def declared(self) -> object:
        """What was settled before the first launch."""

    @property
    def declared_sha256(self) -> str:
        """The digest of it."""


H = TypeVar("H", bound=DeclaredHeader)
L = TypeVar("L")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeclaredFile(Generic[H, L]):
    """A whole file, read; `size` counts bytes of whole lines, `dropped` those of a cut last one."""

    header: H
    launches: tuple[L, ...]
    resumes: tuple[ResumeRecord, ...] = ()
    end: EndRecord | None = None
    seal: str = ""
    size: int = 0
    dropped: int = 0

    @property
    def cut(self) -> CutPoint:
        """Where the file goes on."""
        done = len(self.launches)
        return CutPoint(size=self.size, dropped=self.dropped, seal=self.seal, samples=done)


F = TypeVar("F", bound=DeclaredFile[Any, Any])


def digest(declared: object) -> str:
    """Return the hash of a declaration.

    Fields that its type names as `may_be_missing` are in none where they are None: an earlier
    program's declaration, which has no such field, keeps the hash that it had.
    """
    body = plain(declared)
    for name in getattr(declared, "may_be_missing", ()):
        if isinstance(body, dict) and body[name] is None:
            del body[name]
    return hash_chain.digest(hash_chain.canonical(body))


@dataclass(frozen=True, kw_only=True)
class DeclaredFormat(Generic[H, L, F]):
    """A format of such files, which are read into `content`.

    `header_kind` and `launch_kind` are the kinds of lines; `subject` and `command` say in errors
    what such a file is, and what writes it.
    """

    schema: str
    content: type[F]
    header: type[H]
    launch: type[L]
    header_kind: str
    launch_kind: str
    subject: str
    command: str
    kinds: Kinds[object] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Set up how lines are read."""
        types: dict[str, type] = {
            self.header_kind: self.header,
            self.launch_kind: self.launch,
            "resume": ResumeRecord,
            "end": EndRecord,
        }
        kinds: Kinds[object] = Kinds(
            schema=self.schema,
            types=types,
            adapters={kind: TypeAdapter(record) for kind, record in types.items()},
            unfit=self.unfit,
        )
        object.__setattr__(self, "kinds", kinds)

    def unfit(self, where: str, why: str) -> BenchDataError:
        """Return the error for a file that contradicts itself."""
        return BenchDataError(
            f"damaged or edited: not {self.subject} as it was written",
            where=where,
            why=why,
            next_step=f"give a file written by `dlcontainer {self.command}`",
        )

    def writer(self, path: Path, header: H, *, after: F | None = None) -> "DeclaredFileWriter[L]":
        """Return a writer of a new file, or of the rest of one that was interrupted."""
        return DeclaredFileWriter(self, path, header, cut=None if after is None else after.cut)

    def is_one(self, path: Path) -> bool:
        """Return whether a file begins like one of this format."""
        return self.kinds.is_one(path)

    def read(self, path: Path) -> F:
        """Read a file, every line verified; raises BenchDataError for what is not one."""
        lines = self.kinds.read(path)
        header, *body = lines.records
        if not isinstance(header, self.header) or digest(header.declared) != header.declared_sha256:
            raise self.unfit(str(path), "its declaration is not what its digest was made of")
        return self.content(
            header=header,
            launches=tuple(line for line in body if isinstance(line, self.launch)),
            resumes=tuple(line for line in body if isinstance(line, ResumeRecord)),
            # One that went on after its end has none yet.
            end=next((line for line in body[:-2:-1] if isinstance(line, EndRecord)), None),
            seal=lines.seal,
            size=lines.size,
            dropped=lines.dropped,
        )


class DeclaredFileWriter(ChainedFile, Generic[L]):
    """Write one file."""

    def __init__(
        self, form: DeclaredFormat[Any, L, Any], path: Path, header: object, *, cut: CutPoint | None
    ) -> None:
        self._form = form
        super().__init__(path, form.kinds.fields_of(header), cut=cut)

    def write(self, record: L | ResumeRecord) -> None:
        """Write a launch, or that the session goes on."""
        samples = isinstance(record, self._form.launch)
        self._append(self._form.kinds.fields_of(record), samples=samples)

    def _ended(self, *, complete: bool, reason: str, samples: int) -> dict[str, object]:
        return self._form.kinds.fields_of(
            EndRecord(complete=complete, reason=reason, launches=samples)
        )
