"""The allow-list: what a centre lives with, each entry with its reason and its last day."""

import datetime
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from dlcontainer import config
from dlcontainer.config.field_types import Line, Strict
from dlcontainer.vulnerabilities import bill_packages


def _day(value: str) -> str:
    datetime.date.fromisoformat(value)
    return value


Day = Annotated[str, AfterValidator(_day)]


class AllowedEntry(Strict):
    """One thing that is allowed; where several keys are given, all must fit."""

    id: Line | None = Field(default=None, description="a vulnerability, by any of its ids")
    package: Line | None = Field(default=None, description="by its name or its source's")
    ecosystem: Line | None = Field(default=None, description="PyPI, Debian …; or a kind: conda")
    reason: Line
    expires: Day = Field(description="YYYY-MM-DD: the last day on which it counts")

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not (self.id or self.package or self.ecosystem):
            raise ValueError("an entry needs an id, a package or an ecosystem")
        return self

    @property
    def title(self) -> str:
        """Everything that it names, on one line."""
        return " ".join(filter(None, (self.id, self.package, self.ecosystem)))

    def is_expired(self, today: datetime.date) -> bool:
        """Return whether its last day is over."""
        return datetime.date.fromisoformat(self.expires) < today

    def fits(self, ids: Collection[str], names: Collection[str], ecosystem: str) -> bool:
        """Return whether it means this: by its ids, its package's names and its ecosystem.

        An ecosystem alone means its packages as a whole, which have neither, and no vulnerability.
        """
        base = ecosystem.partition(":")[0]
        is_whole = self.id is None and self.package is None
        return (
            is_whole == (not ids and not names)
            and (self.id is None or self.id in ids)
            and (self.package is None or bill_packages.named(base, self.package) in names)
            and self.ecosystem in (None, base, ecosystem)
        )


class AllowList(Strict):
    """The file of `vulnerabilities.allowed`."""

    schema_: Literal[1] = Field(alias="schema")
    allowed: tuple[AllowedEntry, ...] = ()


def load(path: Path) -> AllowList:
    """Read an allow-list; raises ConfigError with the line of what is wrong."""
    return config.validate(config.load(path, layer="allowed"), AllowList)
