"""A database: a folder or zip of OSV JSON, as downloaded; read as a stream, within bounds."""

import os
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.system import foreign_files
from dlcontainer.vulnerabilities import records
from dlcontainer.vulnerabilities.records import OsvRecord

# The largest known record, of the kernel with all its versions, has some MB.
_MOST_RECORD_BYTES = 16_000_000
# All of OSV has some 10^6 records and some 10 GB.
_MOST_RECORDS = 3_000_000
_MOST_BYTES = 40_000_000_000
_MOST_ARCHIVE_BYTES = 4_000_000_000
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_WRONG = (OSError, ValueError, RuntimeError, EOFError, zlib.error, zipfile.BadZipFile)


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadableRecord:
    """A file of the database that could not be read, and why."""

    name: str
    why: str

    @property
    def id(self) -> str:
        """The id that a record of this file's name has."""
        return self.name.rpartition("/")[2].removesuffix(".json")


@dataclass(frozen=True, kw_only=True, slots=True)
class _RecordFile:
    """The bytes of a file that should be a record."""

    name: str
    content: bytes


def read(path: Path) -> Iterator[OsvRecord | UnreadableRecord]:
    """Yield each record of a database; what can't be read is yielded too, never left out."""
    count = size = 0
    for file in _files(path):
        if isinstance(file, UnreadableRecord):
            yield file
            continue
        count, size = count + 1, size + len(file.content)
        if count > _MOST_RECORDS or size > _MOST_BYTES:
            most = f"{_MOST_RECORDS} records or {_MOST_BYTES // 10**9} GB"
            yield UnreadableRecord(name=str(path), why=f"the rest is not read: more than {most}")
            return
        try:
            yield records.parse(file.content)
        except ValueError as error:
            yield UnreadableRecord(name=file.name, why=_why(error))


def _files(path: Path) -> Iterator[_RecordFile | UnreadableRecord]:
    if not path.is_dir():
        yield from _of_file(path)
        return
    faults: list[OSError] = []
    for parent, folders, names in os.walk(path, onerror=faults.append):
        folders.sort()
        for name in folders:
            inner = Path(parent, name)
            if inner.is_symlink():
                yield UnreadableRecord(name=str(inner), why="a link to a folder is not followed")
        for name in sorted(names):
            if name.endswith((".json", ".zip")):
                yield from _of_file(Path(parent, name))
    for fault in faults:
        yield UnreadableRecord(name=str(fault.filename or path), why=_why(fault))


def _of_file(path: Path) -> Iterator[_RecordFile | UnreadableRecord]:
    try:
        if path.suffix == ".zip":
            yield from _of_archive(path)
        else:
            yield _RecordFile(name=str(path), content=foreign_files.read(path, _MOST_RECORD_BYTES))
    except _WRONG as error:
        yield UnreadableRecord(name=str(path), why=_why(error))


def _of_archive(path: Path) -> Iterator[_RecordFile | UnreadableRecord]:
    with foreign_files.opened(path) as file:
        if os.fstat(file.fileno()).st_size > _MOST_ARCHIVE_BYTES:
            raise ValueError(f"more than {_MOST_ARCHIVE_BYTES // 10**9} GB")
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                if not member.filename.endswith(".json"):
                    continue
                name = f"{path}: {member.filename}"
                try:
                    yield _RecordFile(name=name, content=_content(archive, member))
                except _WRONG as error:
                    yield UnreadableRecord(name=name, why=_why(error))


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    if member.compress_type not in _METHODS:
        raise ValueError("not packed by deflate")
    # The size that the archive says may lie: what is unpacked is bounded too.
    with archive.open(member) as stream:
        content = stream.read(_MOST_RECORD_BYTES + 1)
    if len(content) > _MOST_RECORD_BYTES:
        raise ValueError(f"more than {_MOST_RECORD_BYTES // 10**6} MB")
    return content


def _why(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
