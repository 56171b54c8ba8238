"""Read a database once: all that concerns the packages of one bill, or of many."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from dlcontainer.vulnerabilities import database, orders, ranges
from dlcontainer.vulnerabilities.bill_packages import BillPackage, named
from dlcontainer.vulnerabilities.database import UnreadableRecord
from dlcontainer.vulnerabilities.records import AffectedPackage, OsvRecord

# Of what can't be read, so many are named; all are counted.
SHOWN = 20
# A record's time may be ahead of this machine's clock by so much, and still dates the database.
_AHEAD = timedelta(days=1)
_EVERY = 20_000


@dataclass(frozen=True, kw_only=True, slots=True)
class AffectedHit:
    """A record that affects an installed package."""

    package: BillPackage
    record: OsvRecord
    affected: AffectedPackage
    fixed: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class UndecidedRecord:
    """A record that names an installed package, and does not decide its version."""

    package: BillPackage
    record: OsvRecord
    why: str


@dataclass(kw_only=True, slots=True)
class DatabaseReading:
    """What was gathered of a database; `newest` by ecosystem without release."""

    records: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    newest: dict[str, datetime] = field(default_factory=dict)
    hits: list[AffectedHit] = field(default_factory=list)
    undecided: list[UndecidedRecord] = field(default_factory=list)
    unreadable: list[UnreadableRecord] = field(default_factory=list)
    unreadable_count: int = 0


def read(
    path: Path,
    packages: Iterable[BillPackage],
    now: datetime,
    tell: Callable[[str], None] = lambda _: None,
) -> DatabaseReading:
    """Read a database once; whatever concerns the packages is kept.

    Raises EngineError where the library that orders Debian's versions is missing.
    """
    work = DatabaseReading()
    index = _Index(packages)
    for record in database.read(path):
        if isinstance(record, UnreadableRecord):
            work.unreadable_count += 1
            if len(work.unreadable) < SHOWN:
                work.unreadable.append(record)
            continue
        work.records += 1
        if work.records % _EVERY == 0:
            tell(f"{work.records} records read")
        index.date(record, work, now)
        if not record.is_withdrawn(now):
            _match(record, index, work)
    return work


class _Index:
    """The packages of a bill by base and name, and which of its ecosystems a record's covers."""

    def __init__(self, packages: Iterable[BillPackage]) -> None:
        packages = list(packages)
        self.ecosystems = sorted({package.ecosystem for package in packages})
        self.orders = {package.base: orders.of(package.base) for package in packages}
        self._by_name: dict[tuple[str, str], list[BillPackage]] = {}
        for package in packages:
            self._by_name.setdefault((package.base, package.name), []).append(package)
        self._covered: dict[str, tuple[str, ...]] = {}

    def packages(self, affected: AffectedPackage) -> Iterator[BillPackage]:
        """Yield the packages that a part of a record names, of its release."""
        if affected.package is None:
            return
        ecosystem = affected.package.ecosystem
        base = ecosystem.partition(":")[0]
        for package in self._by_name.get((base, named(base, affected.package.name)), ()):
            if package.ecosystem in self.covered(ecosystem):
                yield package

    def covered(self, ecosystem: str) -> tuple[str, ...]:
        """Return the bill's ecosystems that a record's `ecosystem` means."""
        if ecosystem not in self._covered:
            self._covered[ecosystem] = tuple(
                installed for installed in self.ecosystems if _covers(ecosystem, installed)
            )
        return self._covered[ecosystem]

    def date(self, record: OsvRecord, work: DatabaseReading, now: datetime) -> None:
        """Count a record for the ecosystems that it is about, and date these by it."""
        parts = [affected.package for affected in record.affected or () if affected.package]
        meant = {part.ecosystem for part in parts}
        for ecosystem in {covered for written in meant for covered in self.covered(written)}:
            work.counts[ecosystem] = work.counts.get(ecosystem, 0) + 1
            # A time to come would keep a database young for ever.
            if record.day <= now + _AHEAD:
                base = ecosystem.partition(":")[0]
                work.newest[base] = max(record.day, work.newest.get(base, record.day))


def _covers(ecosystem: str, installed: str) -> bool:
    """Return whether a record's ecosystem means that of a bill: of its release, or of all.

    Ubuntu's have words around the release, `Ubuntu:Pro:22.04:LTS`; those of its FIPS packages,
    which have versions of their own, don't count.
    """
    base, _, release = installed.partition(":")
    parts = ecosystem.split(":")
    if parts[0] != base or any(part.startswith("FIPS") for part in parts):
        return False
    return len(parts) == 1 or release in parts[1:]


def _match(record: OsvRecord, index: _Index, work: DatabaseReading) -> None:
    for affected in record.affected or ():
        for package in index.packages(affected):
            try:
                decision = ranges.decide(package.version, affected, index.orders[package.base])
            except ranges.UndecidedError as error:
                work.undecided.append(
                    UndecidedRecord(package=package, record=record, why=str(error))
                )
                continue
            if decision.affected:
                work.hits.append(
                    AffectedHit(
                        package=package, record=record, affected=affected, fixed=decision.fixed
                    )
                )
