"""The record of a build, beside its image: what was built, from what. JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ConfigDict, ValidationError

from dlcontainer.config.field_types import Line, Strict
from dlcontainer.errors import ChecksFailedError
from dlcontainer.system import foreign_files

SCHEMA = "dlcontainer/record/1"
MOST_BYTES = 16_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What a record says of its image: SHA-256, size in bytes, the plan's digest, the base's.

    Of an image in an engine's store they are its id and the bytes of its layers. `moment` is the
    SOURCE_DATE_EPOCH that it was built with, `builder` the engine that ran its steps, `packing`
    mksquashfs's settings and the digest of the trace that its files are ordered by.
    """

    sha256: str
    size: int
    digest: str
    base: str | None = None
    lock: str | None = None
    moment: int | None = None
    builder: str = "apptainer"
    packing: tuple[tuple[str, ...], str | None] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A record as it was read: its bytes, all that it says, and what it says of its image."""

    data: bytes
    body: Mapping[str, Any]
    written: Written


class _Loose(Strict):
    """What is read of a record; it says more than that."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class _Image(_Loose):
    sha256: Line
    size: int


class _Base(_Loose):
    sha256: Line | None = None


class _Engine(_Loose):
    builder: Line = "apptainer"
    squash: list[str] | None = None
    order: Line | None = None


class _Provenance(_Loose):
    source_date_epoch: int | None = None


class _Body(_Loose):
    image: _Image
    digest: Line
    base: _Base | None = None
    lock: Line | None = None
    engine: _Engine | None = None
    provenance: _Provenance = _Provenance()


def beside(image: Path) -> Path:
    """Name the record that belongs to an image; of a link, to the image that it leads to."""
    return (image.resolve() if image.is_symlink() else image).with_suffix(".json")


def read(path: Path) -> Written | None:
    """Read what a record says of its image; None where there is none.

    Raises ChecksFailedError for one that is cut, or of another version.
    """
    there = opened(path)
    return there.written if there else None


def opened(path: Path) -> Record | None:
    """Read a record; None where there is none, ChecksFailedError for what is not one."""
    try:
        with foreign_files.opened(path) as file:
            return of_file(file, path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ChecksFailedError(f"can't read {path}: {error.strerror}") from None


def of_file(file: BinaryIO, path: Path) -> Record:
    """Read a record from an open file; raises OSError, and ChecksFailedError for what is none."""
    data = foreign_files.content(file, MOST_BYTES)
    try:
        body = foreign_files.loads(data)
    except UnicodeDecodeError:
        raise ChecksFailedError(f"can't read {path}: it is not UTF-8") from None
    except ValueError as error:
        raise _unfit(path, f"invalid record: not whole JSON: {error}") from None
    if not isinstance(body, dict):
        raise _unfit(path, "invalid record: not a JSON object")
    if body.get("schema", SCHEMA) != SCHEMA:
        raise ChecksFailedError(
            f"{path} is of the version {shown(body['schema'])}, this dlcontainer reads {SCHEMA}",
            next_step="build the image again, or use the dlcontainer that made it",
        )
    if "schema" not in body:
        raise _unfit(path, "incomplete record: 'schema' is missing")
    try:
        said = _Body.model_validate(body)
    except ValidationError as error:
        raise _unfit(path, unusable(error)) from None
    return Record(data=data, body=body, written=_written(said))


def _written(said: _Body) -> Written:
    engine = said.engine or _Engine()
    return Written(
        sha256=said.image.sha256,
        size=said.image.size,
        digest=said.digest,
        base=said.base.sha256 if said.base else None,
        lock=said.lock,
        moment=said.provenance.source_date_epoch,
        builder=engine.builder,
        packing=(tuple(engine.squash or ()), engine.order),
    )


def unusable(error: ValidationError) -> str:
    """Say in one line what of a record is missing or wrong."""
    first = error.errors()[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"incomplete record: {key!r} is missing"
    said = first["msg"].removeprefix("Value error, ")
    return f"invalid record: {key}: {said[:200]}"


def shown(value: object) -> str:
    """Show a value of a record in a message: short, and nothing that a terminal would obey."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _unfit(path: Path, why: str) -> ChecksFailedError:
    return ChecksFailedError(f"{path}: {why}", next_step="build the image again")
