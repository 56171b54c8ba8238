"""Read a session's file back, verified line by line."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from dlcontainer.bench import chain
from dlcontainer.bench.chain import Line
from dlcontainer.bench.encoding import FORMAT, READABLE, from_fields, sample_of
from dlcontainer.bench.records import VERSION, End, Record, Resume, Sample, Series, Session, Stack
from dlcontainer.errors import BenchDataError

_REMEASURE = "restore the file from where it was measured, or measure again"


def read(path: Path) -> Series:
    """Read a session's file; a file without `end` is the start of an interrupted session.

    Raises BenchDataError with the line for a file that was edited, is of a newer version, or is
    no such file.
    """
    found: _Found | None = None
    try:
        with path.open("rb") as file:
            for line in chain.decode(file, str(path)):
                if found is None:
                    found = _begin(path, line)
                else:
                    found.take(line)
                found.size += len(line.text) + _CHAINED
                found.seal = line.chain
            length = file.seek(0, 2)
    except OSError as error:
        raise BenchDataError(
            f"cannot be read: {error.strerror}",
            where=str(path),
            next_step="give a file that `dlcontainer bench` has written",
        ) from error
    if found is None:
        raise BenchDataError(
            "no samples: the file has no whole line",
            where=str(path),
            next_step="measure again: dlcontainer bench",
        )
    return found.series(length)


# What a line has beyond its text: the chain's key and value, and the line feed.
_CHAINED = len(chain.encode({"a": 1}, "")[0]) - len('{"a":1}')


@dataclass(slots=True)
class _Found:
    path: Path
    session: Session
    stated: str
    version: int
    stacks: dict[tuple[str, str], Stack] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    resumes: list[Resume] = field(default_factory=list)
    end: End | None = None
    size: int = 0
    seal: str = ""

    def take(self, line: Line) -> None:
        """Take one line after the first."""
        where = f"{self.path}:{line.number}"
        record = sample_of(line, where) or _record(line, where)
        if self.end is not None and (self.end.complete or not isinstance(record, Resume)):
            raise BenchDataError("a line after the end", where=where, next_step=_REMEASURE)
        if isinstance(record, Sample):
            self._sample(record, where)
        elif isinstance(record, Stack):
            key = (record.arm, record.node)
            if key in self.stacks:
                raise BenchDataError(f"a second stack of the arm {record.arm}", where=where)
            self.stacks[key] = replace(record, line=line.number)
        elif isinstance(record, Resume):
            self.resumes.append(replace(record, line=line.number))
            self.end = None
        elif isinstance(record, End):
            self.end = record
            if record.samples != len(self.samples):
                raise BenchDataError(
                    f"{len(self.samples)} samples where the end states {record.samples}",
                    where=where,
                    next_step=_REMEASURE,
                )

    def _sample(self, sample: Sample, where: str) -> None:
        if sample.arm not in self.session.declared.arms:
            raise BenchDataError(
                f"a sample of the arm {sample.arm}, which was not declared", where=where
            )
        if sample.index != len(self.samples):
            raise BenchDataError(
                f"launch {sample.index}, where {len(self.samples)} is next",
                where=where,
                why="launches are numbered from 0: one is missing or there twice",
                next_step=_REMEASURE,
            )
        self.samples.append(sample)

    def series(self, length: int) -> Series:
        """Give all that was found in a file of so many bytes."""
        return Series(
            path=self.path,
            session=self.session,
            declared_sha256=self.stated,
            stacks=tuple(self.stacks.values()),
            samples=tuple(self.samples),
            end=self.end,
            seal=self.seal,
            resumes=tuple(self.resumes),
            version=self.version,
            size=self.size,
            dropped=max(0, length - self.size),
        )


def _record(line: Line, where: str) -> Record:
    fields = chain.parse(line, where)
    kind = str(fields.pop("kind", None))
    if kind == "session":
        raise BenchDataError(
            "a second session in one file",
            where=where,
            why="sessions are never pooled in a file",
            next_step="give each session's own file",
        )
    return from_fields(kind, fields, where)


def _begin(path: Path, line: Line) -> _Found:
    where = f"{path}:1"
    fields = chain.parse(line, where)
    kind, schema = str(fields.pop("kind", None)), str(fields.pop("schema", None))
    version = schema.removeprefix(FORMAT)
    if version not in {str(number) for number in READABLE}:
        raise BenchDataError(
            f"a format this dlcontainer does not read: {schema}",
            where=where,
            why=f"written by dlcontainer {fields.get('dlcontainer')}; this one reads up to "
            f"{FORMAT}{VERSION}",
            next_step="use the dlcontainer that wrote it, or a newer one"
            if schema.startswith(FORMAT)
            else "give a file that `dlcontainer bench` has written",
        )
    stated = str(fields.pop("declared_sha256", None))
    session = from_fields(kind, fields, where)
    if not isinstance(session, Session):
        raise BenchDataError("the first line is no session", where=where, next_step=_REMEASURE)
    # As it stands in the file: an older version's declaration has fewer fields.
    if stated != chain.digest(chain.canonical(fields["declared"])):
        raise BenchDataError(
            "the declaration is not the one that was hashed", where=where, next_step=_REMEASURE
        )
    return _Found(path, session, stated, int(version))
