"""One OSV record: the parts that decide whether a version is affected.

Source: ossf.github.io/osv-schema, and its validation/schema.json.
"""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from dlcontainer.system import foreign_files

# A minor version only adds to those before it.
_KNOWN_SCHEMA = re.compile(r"1\.[0-9]{1,4}\.[0-9]{1,4}")
_EVENTS = ("introduced", "fixed", "last_affected", "limit")

EventKind = Literal["introduced", "fixed", "last_affected", "limit"]


class _OsvPart(BaseModel):
    """A part of a record; what decides nothing is left out."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


def _moment(value: str) -> str:
    if datetime.fromisoformat(value).tzinfo is None:
        raise ValueError("a time without its zone")
    return value


def _plain(value: str) -> str:
    if not value.isprintable() or not 0 < len(value) <= 1000:
        raise ValueError("not one printable line")
    return value


Moment = Annotated[str, AfterValidator(_moment)]
Text = Annotated[str, AfterValidator(_plain)]


class RangeEvent(_OsvPart):
    """One event of a range: exactly one of its keys is set."""

    introduced: Text | None = None
    fixed: Text | None = None
    last_affected: Text | None = None
    limit: Text | None = None

    @model_validator(mode="after")
    def _is_one_event(self) -> Self:
        if sum(getattr(self, kind) is not None for kind in _EVENTS) != 1:
            raise ValueError("an event has exactly one of introduced, fixed, last_affected, limit")
        return self

    @property
    def kind(self) -> EventKind:
        """Which event it is."""
        if self.introduced is not None:
            return "introduced"
        if self.fixed is not None:
            return "fixed"
        return "last_affected" if self.last_affected is not None else "limit"

    @property
    def version(self) -> str:
        """The version at which it is."""
        return self.introduced or self.fixed or self.last_affected or self.limit or ""


class VersionRange(_OsvPart):
    """A range of affected versions in the order of its type."""

    type: Literal["GIT", "SEMVER", "ECOSYSTEM"]
    events: list[RangeEvent] = Field(min_length=1)

    @model_validator(mode="after")
    def _begins(self) -> Self:
        kinds = {event.kind for event in self.events}
        if "introduced" not in kinds:
            raise ValueError("a range has no 'introduced'")
        if {"fixed", "last_affected"} <= kinds:
            raise ValueError("a range has both 'fixed' and 'last_affected'")
        return self


class OsvPackage(_OsvPart):
    """A package by its ecosystem, `Debian:12` or `PyPI`, and its name there."""

    ecosystem: Text
    name: Text


class OsvSeverity(_OsvPart):
    """A severity as the record says it, by its method."""

    type: Text
    score: Text


class AffectedPackage(_OsvPart):
    """A package and its affected versions: in any range, or listed."""

    package: OsvPackage | None = None
    ranges: list[VersionRange] | None = None
    versions: list[Text] | None = None
    severity: list[OsvSeverity] | None = None
    ecosystem_specific: dict[str, Any] | None = None


class OsvRecord(_OsvPart):
    """A vulnerability."""

    schema_version: str = "1.0.0"
    id: Text
    modified: Moment
    withdrawn: Moment | None = None
    aliases: list[Text] | None = None
    upstream: list[Text] | None = None
    summary: str = ""
    severity: list[OsvSeverity] | None = None
    affected: list[AffectedPackage] | None = None

    @property
    def day(self) -> datetime:
        """When it was last modified, in UTC."""
        return datetime.fromisoformat(self.modified).astimezone(UTC)

    @property
    def names(self) -> frozenset[str]:
        """The ids under which this one vulnerability is known.

        A distribution's record names the upstream one instead of an alias; of several it is none.
        """
        upstream = self.upstream or []
        return frozenset(
            [self.id, *(self.aliases or ()), *(upstream if len(upstream) == 1 else ())]
        )

    def is_withdrawn(self, now: datetime) -> bool:
        """Return whether it was withdrawn by then."""
        return self.withdrawn is not None and datetime.fromisoformat(self.withdrawn) <= now


def parse(data: bytes) -> OsvRecord:
    """Read a record; raises ValueError, in a few words, for what is none of a known schema."""
    body = foreign_files.loads(data)
    if not isinstance(body, dict):
        raise ValueError("not a JSON object")
    version = body.get("schema_version", "1.0.0")
    if not isinstance(version, str) or not _KNOWN_SCHEMA.fullmatch(version):
        raise ValueError(f"schema_version {str(version)[:40]!r} is not known: 1.x.y is")
    try:
        return OsvRecord.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"{where}: {first['msg']}" if where else first["msg"]) from None
