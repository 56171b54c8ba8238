"""Judge what was read: records of one vulnerability are one finding; the allow-list counts."""

from collections.abc import Iterable, Iterator, Sequence

from dlcontainer.vulnerabilities.allowed import AllowedEntry
from dlcontainer.vulnerabilities.bill_packages import BillContents, BillPackage
from dlcontainer.vulnerabilities.findings import Doubt, Finding
from dlcontainer.vulnerabilities.reading import SHOWN, AffectedHit, DatabaseReading
from dlcontainer.vulnerabilities.rules import ScanRules


class Judge:
    """Holds everything against the allow-list, and remembers which entries were needed."""

    def __init__(self, rules: ScanRules) -> None:
        self._rules = rules
        self._entries = rules.allowed.allowed if rules.allowed else ()
        self._today = rules.now.date()
        self._used: set[int] = set()

    def findings(self, hits: Iterable[AffectedHit]) -> Iterator[Finding]:
        """Yield the findings: records of one vulnerability, by their aliases, are one."""
        for group in _joined(hits):
            package = group[0].package
            ids = {name for hit in group for name in hit.record.names}
            entry = self._entry(ids, _names(package), package.ecosystem)
            written = sorted({hit.record.id for hit in group})
            yield Finding(
                ids=(*written, *sorted(ids.difference(written))),
                package=package,
                fixed=tuple(sorted({hit.fixed for hit in group if hit.fixed})),
                severity=tuple(dict.fromkeys(_severities(group))),
                summary=next((hit.record.summary for hit in group if hit.record.summary), ""),
                entry=entry,
                is_allowed=self._counts(entry),
            )

    def of_bill(self, bill: BillContents, unlike: Sequence[str]) -> Iterator[Doubt]:
        """Yield what of the bill can't be checked."""
        for kind in bill.unchecked:
            more = ", …" if len(kind.names) > 3 else ""
            named = f"{', '.join(kind.names[:3])}{more}"
            what = f"packages of kind {kind.kind} ({len(kind.names)}): {named}"
            # An entry for one of them is none for all.
            yield self._doubt(what, kind.why, (), (), kind.kind)
        if not bill.packages and not bill.unchecked:
            yield Doubt(what="the bill", why="it lists no package")
        for difference in unlike[:SHOWN]:
            yield Doubt(what="the bill", why=difference)
        if len(unlike) > SHOWN:
            yield Doubt(what="the bill", why=f"{len(unlike) - SHOWN} more such differences")

    def of_database(self, bill: BillContents, reading: DatabaseReading) -> Iterator[Doubt]:
        """Yield the ecosystems without records, or with old ones alone."""
        if self._rules.database is None:
            yield Doubt(what="all packages", why="no database is named")
            return
        for ecosystem in sorted({package.ecosystem for package in bill.packages}):
            base = ecosystem.partition(":")[0]
            newest = reading.newest.get(base)
            if not reading.counts.get(ecosystem):
                yield Doubt(what=ecosystem, why=f"the database has no records for {ecosystem}")
            elif newest is None:
                yield Doubt(what=ecosystem, why="each record for it is from a time to come")
            elif (age := (self._rules.now - newest).days) > self._rules.max_age_days:
                why = (
                    f"the newest record is of {newest:%Y-%m-%d}, {age} days old; "
                    f"at most {self._rules.max_age_days} are taken"
                )
                yield Doubt(what=ecosystem, why=why)

    def of_records(self, reading: DatabaseReading) -> Iterator[Doubt]:
        """Yield the records that could not be read, or decided nothing."""
        for record in reading.unreadable:
            yield self._doubt(record.name, record.why, (record.id,), (), "")
        if reading.unreadable_count > len(reading.unreadable):
            more = reading.unreadable_count - len(reading.unreadable)
            yield Doubt(what="the database", why=f"{more} more records can't be read")
        for undecided in reading.undecided:
            package, ids = undecided.package, undecided.record.names
            what = f"{undecided.record.id}: {package.name} {package.version}"
            yield self._doubt(what, undecided.why, ids, _names(package), package.ecosystem)

    def unused(self) -> tuple[AllowedEntry, ...]:
        """Return the entries that nothing needed."""
        entries = enumerate(self._entries)
        return tuple(entry for number, entry in entries if number not in self._used)

    def _doubt(
        self, what: str, why: str, ids: Iterable[str], names: Iterable[str], ecosystem: str
    ) -> Doubt:
        entry = self._entry(set(ids), set(names), ecosystem)
        return Doubt(what=what, why=why, entry=entry, is_allowed=self._counts(entry))

    def _counts(self, entry: AllowedEntry | None) -> bool:
        return entry is not None and not entry.is_expired(self._today)

    def _entry(self, ids: set[str], names: set[str], ecosystem: str) -> AllowedEntry | None:
        """Return the entry that fits, one that counts today before one that is expired."""
        fitting = [
            (entry.is_expired(self._today), number)
            for number, entry in enumerate(self._entries)
            if entry.fits(ids, names, ecosystem)
        ]
        self._used.update(number for _, number in fitting)
        return self._entries[min(fitting)[1]] if fitting else None


def _joined(hits: Iterable[AffectedHit]) -> list[list[AffectedHit]]:
    """Join the hits of one package whose records share a name, also by a third."""
    groups: dict[tuple[BillPackage, str], list[AffectedHit]] = {}
    for hit in hits:
        keys = [(hit.package, name) for name in hit.record.names]
        sharing = {id(groups[key]): groups[key] for key in keys if key in groups}
        # The largest takes the others in: a database of many aliases takes no longer for it.
        merged = max(sharing.values(), key=len, default=[])
        for group in sharing.values():
            if group is not merged:
                merged += group
                keys += [(hit.package, name) for member in group for name in member.record.names]
        merged.append(hit)
        groups |= dict.fromkeys(keys, merged)
    distinct = {id(group): group for group in groups.values()}.values()
    return sorted(
        (sorted(group, key=_place) for group in distinct), key=lambda group: _place(group[0])
    )


def _place(hit: AffectedHit) -> tuple[str, ...]:
    return (hit.package.ecosystem, hit.package.name, hit.package.version, hit.record.id)


def _names(package: BillPackage) -> set[str]:
    return {package.name, *package.binaries}


def _severities(group: Iterable[AffectedHit]) -> Iterator[str]:
    """Yield what the records say of severity, in their own words."""
    for hit in group:
        for severity in (*(hit.affected.severity or ()), *(hit.record.severity or ())):
            yield f"{severity.type} {severity.score}"
        urgency = (hit.affected.ecosystem_specific or {}).get("urgency")
        if isinstance(urgency, str) and urgency:
            yield f"urgency {urgency[:80]}"
