"""A scan's report: findings, whatever was not decided or not checked, and one state of all."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from dlcontainer.vulnerabilities.allowed import AllowedEntry
from dlcontainer.vulnerabilities.bill_packages import BillPackage

State = Literal["clean", "findings", "not checked"]
_SHOWN = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A vulnerability of an installed package; `severity` as its records say it.

    `entry` of the allow-list fits; it may be expired.
    """

    ids: tuple[str, ...]
    package: BillPackage
    fixed: tuple[str, ...]
    severity: tuple[str, ...]
    summary: str
    entry: AllowedEntry | None = None
    is_allowed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Doubt:
    """What was not checked or not decided, and why; `entry` is what allows that."""

    what: str
    why: str
    entry: AllowedEntry | None = None
    is_allowed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class EcosystemRecords:
    """The records for an ecosystem of the bill, and the newest change of all its releases."""

    ecosystem: str
    records: int
    newest: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class DatabaseSummary:
    """What was read of a database."""

    path: str
    records: int = 0
    unreadable: int = 0
    ecosystems: tuple[EcosystemRecords, ...] = ()


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

    @property
    def why_not_clean(self) -> str:
        """What stands against it, on one line; empty for a clean one."""
        if self.open:
            names = ", ".join(dict.fromkeys(finding.ids[0] for finding in self.open[:_SHOWN]))
            more = ", …" if len(self.open) > _SHOWN else ""
            noun = "vulnerability" if len(self.open) == 1 else "vulnerabilities"
            return f"{len(self.open)} known {noun} that no entry allows: {names}{more}"
        doubts = self.open_doubts
        if not doubts:
            return ""
        more = f", and {len(doubts) - 1} more" if len(doubts) > 1 else ""
        return f"not checked: {doubts[0].what}: {doubts[0].why}{more}"
