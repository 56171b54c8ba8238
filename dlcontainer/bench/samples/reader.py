"""Read a session's file back, verified line by line."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import BinaryIO, overload

from dlcontainer.bench.samples import hash_chain
from dlcontainer.bench.samples.comparable import LossCurves
from dlcontainer.bench.samples.encoding import from_fields, sample_of
from dlcontainer.bench.samples.file_version import FORMAT, require_format, require_procedure
from dlcontainer.bench.samples.hash_chain import ChainLine
from dlcontainer.bench.samples.launch_table import LaunchTable
from dlcontainer.bench.samples.records import (
    GROUPS_VERSION,
    ROWS_VERSION,
    AttestedStack,
    End,
    Record,
    Resume,
    Sample,
    SessionDeclaration,
    SessionHeader,
)
from dlcontainer.bench.samples.resident.agreement import Agreement
from dlcontainer.bench.samples.resident.resident_records import LostGroup
from dlcontainer.bench.samples.rows.agreement import RowAgreement
from dlcontainer.bench.samples.rows.row_records import figures
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import ArmPair
from dlcontainer.errors import BenchDataError
from dlcontainer.system import foreign_files

_REMEASURE = "restore the file from where it was measured, or measure again"


def read(path: Path) -> Series:
    """Read a session's file; a file without `end` is the start of an interrupted session.

    Raises BenchDataError with the line for a file that was edited, is of a version that is not
    read here, or is no such file.
    """
    state: _ReadState | None = None
    with _opened(path) as file:
        for line in hash_chain.decode(hash_chain.lines(file, str(path)), str(path)):
            if state is None:
                state = _begin(path, line)
            else:
                state.take(line)
            state.size += len(line.text) + hash_chain.BEYOND
            state.seal = line.chain
        length = file.seek(0, 2)
    if state is None:
        raise BenchDataError(
            "no samples: the file has no complete line",
            where=str(path),
            next_step="measure again: dlcontainer bench",
        )
    return state.series(length)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with foreign_files.opened(path) as file:
            yield file
    except OSError as error:
        raise BenchDataError(
            f"cannot be read: {error.strerror}",
            where=str(path),
            next_step="give a file written by `dlcontainer bench`",
        ) from error


class SampleSequence(Sequence[Sample]):
    """The launches of a session that was read, whole, from its file again: one is held at a time.

    Each line is verified again. Raises BenchDataError where the file is another one by now; what
    was appended to it is not looked at.
    """

    def __init__(self, path: Path, launches: LaunchTable, size: int, seal: str) -> None:
        self._path, self._launches, self._size, self._seal = path, launches, size, seal

    def __len__(self) -> int:
        return len(self._launches)

    def __iter__(self) -> Iterator[Sample]:
        remaining, name = self._size, str(self._path)
        with _opened(self._path) as file:
            for line in hash_chain.decode(hash_chain.lines(file, name), name):
                record = _record(line, name) if line.number > 1 else None
                if isinstance(record, Sample):
                    yield record
                remaining -= len(line.text) + hash_chain.BEYOND
                if remaining <= 0:
                    break
            if remaining or line.chain != self._seal:
                raise self._changed()

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Sample, ...]: ...
    def __getitem__(self, index: int | slice) -> Sample | tuple[Sample, ...]:
        indices = range(len(self))[index]
        with _opened(self._path) as file:
            if isinstance(indices, int):
                return self._at(file, indices)
            return tuple(self._at(file, number) for number in indices)

    def _at(self, file: BinaryIO, index: int) -> Sample:
        name, number = str(self._path), self._launches.lines[index]
        line = hash_chain.at(file, self._launches.offsets[index], number, name)
        record = _record(line, name) if line else None
        if not isinstance(record, Sample) or record.index != index:
            raise self._changed()
        return record

    def _changed(self) -> BenchDataError:
        return BenchDataError(
            "the file changed while it was read",
            where=str(self._path),
            next_step="try again when no other process writes to the file",
        )


@dataclass(slots=True)
class _ReadState:
    path: Path
    session: SessionHeader
    stated: str
    launches: LaunchTable
    losses: dict[ArmPair, LossCurves]
    name: str
    stacks: dict[tuple[str, str], AttestedStack] = field(default_factory=dict)
    resumes: list[Resume] = field(default_factory=list)
    lost: list[LostGroup] = field(default_factory=list)
    agreement: Agreement | RowAgreement | None = None
    end: End | None = None
    size: int = 0
    seal: str = ""

    def take(self, line: ChainLine) -> None:
        """Take one line after the first."""
        record = _record(line, self.name)
        if self.end is not None and (self.end.complete or not isinstance(record, Resume)):
            raise BenchDataError(
                "a line follows the end of the session", where=self._at(line), next_step=_REMEASURE
            )
        if isinstance(record, Sample):
            self._sample(record, line)
        elif isinstance(record, AttestedStack):
            key = (record.arm, record.node)
            if key in self.stacks:
                raise BenchDataError(
                    f"a second stack for the arm {record.arm}", where=self._at(line)
                )
            self.stacks[key] = replace(record, line=line.number)
        elif isinstance(record, Resume):
            self.resumes.append(replace(record, line=line.number))
            self.end = None
        elif isinstance(record, LostGroup):
            self.lost.append(replace(record, line=line.number))
        elif isinstance(record, End):
            self.end = record
            if record.samples != len(self.launches):
                raise BenchDataError(
                    f"the file has {len(self.launches)} samples, but its end states "
                    f"{record.samples}",
                    where=self._at(line),
                    next_step=_REMEASURE,
                )

    def _at(self, line: ChainLine) -> str:
        return f"{self.name}:{line.number}"

    def _sample(self, sample: Sample, line: ChainLine) -> None:
        if sample.arm not in self.session.declared.arms:
            raise BenchDataError(
                f"a sample of the arm {sample.arm}, which the session did not declare",
                where=self._at(line),
            )
        if sample.index != len(self.launches):
            raise BenchDataError(
                f"launch {sample.index} found, launch {len(self.launches)} expected",
                where=self._at(line),
                why="launches are numbered from 0: one is missing or duplicated",
                next_step=_REMEASURE,
            )
        problem = self.agreement.problem(sample) if self.agreement else None
        if problem:
            raise BenchDataError(
                "this line contradicts the session's declaration",
                where=self._at(line),
                why=problem,
                next_step=_REMEASURE,
            )
        self.launches.take(sample, self.size)
        if self.losses and sample.ok and sample.role != "warmup":
            for sides, curves in self.losses.items():
                if sample.arm in sides.names:
                    curves.take(sample)

    def series(self, length: int) -> Series:
        """Return all that was found in a file of so many bytes."""
        return Series(
            path=self.path,
            session=self.session,
            declared_sha256=self.stated,
            stacks=tuple(self.stacks.values()),
            launches=self.launches,
            samples=SampleSequence(self.path, self.launches, self.size, self.seal),
            end=self.end,
            seal=self.seal,
            losses={sides: curves.check for sides, curves in self.losses.items()},
            resumes=tuple(self.resumes),
            lost=tuple(self.lost),
            size=self.size,
            dropped=max(0, length - self.size),
        )


def _record(line: ChainLine, path: str) -> Record:
    """Read any line but the first."""
    sample = sample_of(line, path)
    if sample is not None:
        return sample
    where = f"{path}:{line.number}"
    fields = hash_chain.parse(line, where)
    kind = str(fields.pop("kind", None))
    if kind == "session":
        raise BenchDataError(
            "this file contains a second session",
            where=where,
            why="each file holds one session",
            next_step="give each session's own file",
        )
    record = from_fields(kind, fields, where)
    return replace(record, line=line.number) if isinstance(record, Sample) else record


def _begin(path: Path, line: ChainLine) -> _ReadState:
    where = f"{path}:1"
    fields = hash_chain.parse(line, where)
    kind, schema = str(fields.pop("kind", None)), str(fields.pop("schema", None))
    written_by = fields.get("dlcontainer")
    require_format(schema, written_by, where)
    require_procedure(fields.get("declared"), written_by, where)
    stated = str(fields.pop("declared_sha256", None))
    session = from_fields(kind, fields, where)
    if not isinstance(session, SessionHeader):
        raise BenchDataError(
            "the first line is not a session header", where=where, next_step=_REMEASURE
        )
    # As it stands in the file: another version's declaration may have fewer fields.
    if stated != hash_chain.digest(hash_chain.canonical(fields["declared"])):
        raise BenchDataError(
            "the declaration does not match its hash", where=where, next_step=_REMEASURE
        )
    declared = session.declared
    if schema != f"{FORMAT}{declared.version}":
        raise BenchDataError(
            f"a file of {schema} has a declaration of {FORMAT}{declared.version}",
            why=f"version {GROUPS_VERSION} has a plan of groups, version {ROWS_VERSION} a plan of "
            "rows",
            where=where,
            next_step=_REMEASURE,
        )
    tolerance = declared.loss_tolerance
    # Declared where something is trained, and nowhere else.
    compared = combinations(declared.arms, 2) if tolerance else ()
    return _ReadState(
        path=path,
        session=session,
        stated=stated,
        launches=LaunchTable((declared.metric, *declared.secondary, *figures(declared.rows))),
        losses={
            ArmPair(reference=first, candidate=second): LossCurves(tolerance or 0.0)
            for first, second in compared
        },
        name=str(path),
        agreement=_agreement(declared),
    )


def _agreement(declared: SessionDeclaration) -> Agreement | RowAgreement | None:
    if declared.rows:
        return RowAgreement(declared.rows)
    return Agreement(declared, declared.groups) if declared.groups else None
