"""Write a session's file line by line, and read it back verified."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from dlcontainer.bench import chain
from dlcontainer.bench.chain import Line
from dlcontainer.bench.records import (
    FORMAT,
    VERSION,
    End,
    Record,
    Sample,
    Series,
    Session,
    Stack,
    declared_sha256,
    from_fields,
    to_fields,
)
from dlcontainer.errors import BenchDataError, InterruptedByUserError

_REMEASURE = "restore the file from where it was measured, or measure again"


class Writer:
    """Write one session; each line is on disk before the next launch begins.

    Refuses a file that is there. Left without `end()`, the file says that the session was
    interrupted. On a full disk what was written before stays a valid file.
    """

    def __init__(self, path: Path, session: Session) -> None:
        self.path = path
        self.session = session
        self._file = -1
        self._size = 0
        self._chain = ""
        self._samples = 0
        self._closed = False

    def __enter__(self) -> Self:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        first = to_fields(self.session)
        try:
            self._file = os.open(self.path, flags, 0o666)
        except FileExistsError:
            raise BenchDataError(
                "there is a file of this name",
                where=str(self.path),
                why="sessions are never appended to or replaced",
                next_step="give another name with -o, or move the file away",
            ) from None
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            self._append(first)
        except BenchDataError:
            os.close(self._file)
            self.path.unlink(missing_ok=True)
            raise
        return self

    def stack(self, stack: Stack) -> None:
        """Write what an arm attests of itself."""
        self._append(to_fields(stack))

    def sample(self, sample: Sample) -> None:
        """Write one launch."""
        self._append(to_fields(sample))
        self._samples += 1

    def end(self, *, complete: bool, reason: str = "") -> None:
        """Close the session; nothing can be written after it."""
        end = End(complete=complete, reason=reason, samples=self._samples)
        self._append(to_fields(end))
        self._closed = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        try:
            if not self._closed:
                self.end(complete=False, reason=_reason(error))
        except BenchDataError:
            # The disk is full or the file is gone: a file without `end` says the same, and the
            # first error is the one worth showing.
            if error is None:
                raise
        finally:
            os.close(self._file)

    def _append(self, fields: dict[str, object]) -> None:
        if self._closed:
            raise BenchDataError("the session has ended", where=str(self.path))
        line, following = chain.encode(fields, self._chain)
        data = line.encode()
        try:
            _write_all(self._file, data)
            os.fsync(self._file)
        except OSError as error:
            self._closed = True
            os.ftruncate(self._file, self._size)
            raise self._unwritable(error) from error
        self._size += len(data)
        self._chain = following

    def _unwritable(self, error: OSError) -> BenchDataError:
        return BenchDataError(
            "samples cannot be written",
            where=str(self.path),
            why=str(error.strerror),
            next_step="make room or choose another place with -o; what was written stays readable"
            if self._size
            else "choose another place with -o",
        )


def read(path: Path) -> Series:
    """Read a session's file; a file without `end` is the start of an interrupted session.

    Raises BenchDataError with the line for a file that was edited, is of a newer version, or is
    no such file.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BenchDataError(
            f"cannot be read: {error.strerror}",
            where=str(path),
            next_step="give a file that `dlcontainer bench` has written",
        ) from error
    lines = list(chain.decode(data, str(path)))
    if not lines:
        raise BenchDataError(
            "no samples: the file has no whole line",
            where=str(path),
            next_step="measure again: dlcontainer bench",
        )
    return _series(path, lines)


def _series(path: Path, lines: list[Line]) -> Series:
    session, stated = _session(lines[0], f"{path}:1")
    stacks: dict[str, Stack] = {}
    samples: list[Sample] = []
    end: End | None = None
    for line in lines[1:]:
        where = f"{path}:{line.number}"
        if end is not None:
            raise BenchDataError("a line after the end", where=where, next_step=_REMEASURE)
        record = _record(line, where)
        if isinstance(record, Stack):
            if record.arm in stacks:
                raise BenchDataError(f"a second stack of the arm {record.arm}", where=where)
            stacks[record.arm] = replace(record, line=line.number)
        elif isinstance(record, Sample):
            samples.append(replace(record, line=line.number))
        elif isinstance(record, End):
            end = record
    _check(session, samples, end, path)
    return Series(
        path=path,
        session=session,
        declared_sha256=stated,
        stacks=tuple(stacks.values()),
        samples=tuple(samples),
        end=end,
        seal=lines[-1].chain,
    )


def _record(line: Line, where: str) -> Record:
    kind = str(line.fields.get("kind"))
    if kind == "session":
        raise BenchDataError(
            "a second session in one file",
            where=where,
            why="sessions are never pooled",
            next_step="give each session's own file",
        )
    return from_fields(kind, _without(line.fields, "kind"), where)


def _session(line: Line, where: str) -> tuple[Session, str]:
    schema = line.fields.get("schema")
    if schema != f"{FORMAT}{VERSION}":
        newer = isinstance(schema, str) and schema.startswith(FORMAT)
        raise BenchDataError(
            f"a format this dlcontainer does not read: {schema}",
            where=where,
            why=f"written by dlcontainer {line.fields.get('dlcontainer')}; "
            f"this one reads {FORMAT}{VERSION}",
            next_step="use the dlcontainer that wrote it, or a newer one"
            if newer
            else "give a file that `dlcontainer bench` has written",
        )
    stated = line.fields.get("declared_sha256")
    body = _without(line.fields, "kind", "schema", "declared_sha256")
    session = from_fields(str(line.fields.get("kind")), body, where)
    if not isinstance(session, Session):
        raise BenchDataError("the first line is no session", where=where, next_step=_REMEASURE)
    if stated != declared_sha256(session.declared):
        raise BenchDataError(
            "the declaration is not the one that was hashed", where=where, next_step=_REMEASURE
        )
    return session, str(stated)


def _check(session: Session, samples: Sequence[Sample], end: End | None, path: Path) -> None:
    for sample in samples:
        if sample.arm not in session.declared.arms:
            raise BenchDataError(
                f"a sample of the arm {sample.arm}, which was not declared",
                where=f"{path}:{sample.line}",
            )
    if end is not None and end.samples != len(samples):
        raise BenchDataError(
            f"{len(samples)} samples where the end states {end.samples}",
            where=str(path),
            next_step=_REMEASURE,
        )


def _without(fields: dict[str, object], *names: str) -> dict[str, object]:
    return {key: value for key, value in fields.items() if key not in names}


def _reason(error: BaseException | None) -> str:
    if error is None:
        return "the session was left before its end"
    if isinstance(error, KeyboardInterrupt | InterruptedByUserError):
        return "interrupted by the user"
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]
