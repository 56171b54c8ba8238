"""Which versions of a session's file are read here. Pure."""

from collections.abc import Mapping

from dlcontainer.bench.samples.records import (
    GROUPS_PROCEDURE,
    GROUPS_VERSION,
    PROCEDURE,
    ROWS_VERSION,
    VERSION,
)
from dlcontainer.errors import BenchDataError

FORMAT = "dlcontainer/bench/"
READABLE = (VERSION, GROUPS_VERSION, ROWS_VERSION)
# Of versions before 0.7.0. Their procedure, 1, was no part of the declaration at first.
_EARLIER_FORMATS = frozenset({"1", "2"})
_EARLIER_PROCEDURE = 1
# The last version that reads what versions before 0.7.0 wrote.
_LAST_READER = "0.9.1"


def require_format(schema: str, written_by: object, where: str) -> None:
    """Refuse a format that is not read here; raises BenchDataError."""
    version = schema.removeprefix(FORMAT)
    if not schema.startswith(FORMAT):
        raise BenchDataError(
            f"unsupported format: {schema}",
            where=where,
            why=f"written by dlcontainer {written_by}; this one reads {FORMAT}{READABLE[0]} to "
            f"{READABLE[-1]}",
            next_step="give a file written by `dlcontainer bench`",
        )
    if version in _EARLIER_FORMATS:
        raise _too_old(f"format {schema}", written_by, where)
    if version not in {str(number) for number in READABLE}:
        raise _unknown(f"format {schema}", f"up to {FORMAT}{READABLE[-1]}", written_by, where)


def require_procedure(declared: object, written_by: object, where: str) -> None:
    """Refuse a declaration, as it stands in the file, of a procedure that is not judged here.

    Raises BenchDataError. What is no declaration at all is left to the model.
    """
    if not isinstance(declared, Mapping):
        return
    procedure = declared.get("procedure", _EARLIER_PROCEDURE)
    unit, current = (
        ("groups", GROUPS_PROCEDURE) if declared.get("groups") else ("launches", PROCEDURE)
    )
    if type(procedure) is not int or procedure == current:
        return
    what = f"procedure {procedure} for {unit}"
    if procedure > current:
        raise _unknown(what, f"procedure {current} for {unit}", written_by, where)
    raise _too_old(what, written_by, where)


def _too_old(what: str, written_by: object, where: str) -> BenchDataError:
    return BenchDataError(
        f"{what}: dlcontainer no longer reads sessions of versions before 0.7.0",
        where=where,
        why=f"dlcontainer {written_by} wrote this file",
        next_step=f"read it with dlcontainer {_LAST_READER}, the last version that can, or measure "
        "again: dlcontainer bench",
    )


def _unknown(what: str, known: str, written_by: object, where: str) -> BenchDataError:
    return BenchDataError(
        f"unsupported {what}",
        where=where,
        why=f"dlcontainer {written_by} wrote this file; this version reads {known}",
        next_step="use the version that wrote the file, or a newer one",
    )
