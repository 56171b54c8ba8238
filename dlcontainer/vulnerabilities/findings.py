"""What a scan says: findings, what could not be decided or checked, and the one state of all."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from dlcontainer.vulnerabilities.allowed import AllowedEntry
from dlcontainer.vulnerabilities.bill_packages import BillPackage

State = Literal["clean", "findings", "not checked"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A vulnerability of an installed package; `severity` as its records say it.

    `allowed` is the entry that fits, which may be expired.
    """

    ids: tuple[str, ...]
    package: BillPackage
    fixed: tuple[str, ...]
    severity: tuple[str, ...]
    summary: str
    allowed: AllowedEntry | None = None
    is_allowed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Doubt:
    """What was not checked or not decided, and why; `entry` is what allows that."""

    what: str
    why: str
    entry: AllowedEntry | None = None
    is_allowed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class DatabaseSummary:
    """What was read: records by ecosystem of the bill, the newest change of each base."""

    path: str
    records: int = 0
    unreadable: int = 0
    ecosystems: tuple[tuple[str, int, datetime | None], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanReport:
    """All that a scan says of a bill; `packages` were held against the database."""

    packages: int
    of_debian: int
    database: DatabaseSummary | None
    findings: tuple[Finding, ...]
    doubts: tuple[Doubt, ...]
    unused: tuple[AllowedEntry, ...]

    @property
    def open(self) -> tuple[Finding, ...]:
        """The findings that nothing allows."""
        return tuple(finding for finding in self.findings if not finding.is_allowed)

    @property
    def open_doubts(self) -> tuple[Doubt, ...]:
        """What was not checked, and nothing allows that."""
        return tuple(doubt for doubt in self.doubts if not doubt.is_allowed)

    @property
    def state(self) -> State:
        """Clean only where all was checked, and what is left is allowed."""
        if self.open:
            return "findings"
        return "not checked" if self.open_doubts else "clean"
