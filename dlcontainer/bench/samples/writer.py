"""Write a session's file line by line."""

import fcntl
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from dlcontainer.bench.samples import hash_chain
from dlcontainer.bench.samples.encoding import to_fields
from dlcontainer.bench.samples.records import AttestedStack, End, Resume, Sample, SessionHeader
from dlcontainer.bench.samples.resident.resident_records import LostGroup
from dlcontainer.bench.samples.series import Series
from dlcontainer.errors import BenchDataError, InterruptedByUserError
from dlcontainer.system import guarded_files


@dataclass(frozen=True, kw_only=True, slots=True)
class CutPoint:
    """Where a file that goes on was cut: bytes of whole lines, bytes after them, its last chain."""

    size: int
    dropped: int
    seal: str
    samples: int


class _WrittenPart(NamedTuple):
    """What the file holds for certain: bytes, the last chain, samples, whether nothing follows."""

    size: int = 0
    chain: str = ""
    samples: int = 0
    ended: bool = False


class ChainedFile(ABC):
    """Lines that are chained by hashes; each is on disk before the next launch begins.

    Refuses a file that is there, unless it is the one that is to go on after its `cut`. Left
    without its end, the file says why. On a full disk, and wherever an interrupt falls, what was
    written before stays a valid file.
    """

    def __init__(
        self, path: Path, first: Mapping[str, object], *, cut: CutPoint | None = None
    ) -> None:
        self.path = path
        self._first = dict(first)
        self._cut = cut
        self._file = -1
        self._written = _WrittenPart()

    def __enter__(self) -> Self:
        if self._cut is None:
            self._begin()
        else:
            self._continue(self._cut)
        return self

    def _begin(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        try:
            self._file = os.open(self.path, flags, 0o666)
        except FileExistsError:
            raise BenchDataError(
                "this file already exists",
                where=str(self.path),
                why="dlcontainer never overwrites a session",
                next_step="choose another name with -o, move the file away, or resume an "
                "interrupted session with --resume",
            ) from None
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            self._lock()
            self._append(self._first)
        except BaseException:
            os.close(self._file)
            self.path.unlink(missing_ok=True)
            raise

    def _continue(self, cut: CutPoint) -> None:
        try:
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            self._lock()
            if os.fstat(self._file).st_size != cut.size + cut.dropped:
                raise self._busy()
            os.ftruncate(self._file, cut.size)
        except BaseException:
            os.close(self._file)
            raise
        self._written = _WrittenPart(size=cut.size, chain=cut.seal, samples=cut.samples)

    def _lock(self) -> None:
        # Held until the file is closed. A file system without locks is no reason not to measure.
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._busy() from None
        except OSError:
            return

    def _busy(self) -> BenchDataError:
        return BenchDataError(
            "another process is writing this session",
            where=str(self.path),
            next_step="wait until that process ends; a running session cannot be resumed",
        )

    def end(self, *, complete: bool, reason: str = "") -> None:
        """Close the session; nothing can be written after it."""
        samples = self._written.samples
        self._append(self._ended(complete=complete, reason=reason, samples=samples), ends=True)

    @abstractmethod
    def _ended(self, *, complete: bool, reason: str, samples: int) -> dict[str, object]:
        """Return the fields of the last line."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        try:
            if not self._written.ended:
                self.end(complete=False, reason=_reason(error))
        except BenchDataError:
            # The disk is full or the file is gone: a file without `end` says the same, and the
            # first error is the one worth showing.
            if error is None:
                raise
        finally:
            os.close(self._file)

    def _append(self, fields: dict[str, object], *, samples: int = 0, ends: bool = False) -> None:
        written = self._written
        if written.ended:
            raise BenchDataError("the session has ended", where=str(self.path))
        line, chain = hash_chain.encode(fields, written.chain)
        data = line.encode()
        size, count = written.size + len(data), written.samples + samples
        try:
            # An interrupt can have left a line, or a part of one, that was never counted.
            os.ftruncate(self._file, written.size)
            guarded_files.append(self._file, data)
            os.fsync(self._file)
        except OSError as error:
            self._written = written._replace(ended=True)
            os.ftruncate(self._file, written.size)
            raise self._unwritable(error) from error
        # One assignment: an interrupt falls before the line counts or after it, never between.
        self._written = _WrittenPart(size=size, chain=chain, samples=count, ended=ends)

    def _unwritable(self, error: OSError) -> BenchDataError:
        return BenchDataError(
            "samples cannot be written",
            where=str(self.path),
            why=str(error.strerror),
            next_step="free space and resume with --resume; the samples in the file stay readable"
            if self._written.size
            else "choose another place with -o",
        )


class Writer(ChainedFile):
    """Write one session."""

    def __init__(self, path: Path, session: SessionHeader, *, after: Series | None = None) -> None:
        cut = None
        if after is not None:
            cut = CutPoint(
                size=after.size,
                dropped=after.dropped,
                seal=after.seal,
                samples=len(after.samples),
            )
        super().__init__(path, to_fields(session), cut=cut)
        self.session = session

    def resume(self, resume: Resume) -> None:
        """Write that the session goes on."""
        self._append(to_fields(resume))

    def stack(self, stack: AttestedStack) -> None:
        """Write what an arm attests of itself."""
        self._append(to_fields(stack))

    def lost(self, lost: LostGroup) -> None:
        """Write that a group was discarded."""
        self._append(to_fields(lost))

    def sample(self, sample: Sample) -> None:
        """Write one launch."""
        self._append(to_fields(sample), samples=1)

    def _ended(self, *, complete: bool, reason: str, samples: int) -> dict[str, object]:
        return to_fields(End(complete=complete, reason=reason, samples=samples))


def _reason(error: BaseException | None) -> str:
    if error is None:
        return "the session was left before its end"
    if isinstance(error, KeyboardInterrupt | InterruptedByUserError):
        return "interrupted by the user"
    return f"{type(error).__name__}: {error}".splitlines()[0]
