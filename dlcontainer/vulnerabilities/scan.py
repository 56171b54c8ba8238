"""Hold what a bill lists against a database of OSV records. No data is *not checked*, never clean.

A record counts by ecosystem, release and source package; its range by the ecosystem's own order, so
that a distribution's backport is not taken for the old version.
"""

from collections.abc import Sequence
from pathlib import Path

from dlcontainer.vulnerabilities import reading
from dlcontainer.vulnerabilities.bill_packages import BillContents
from dlcontainer.vulnerabilities.findings import DatabaseSummary, EcosystemRecords, ScanReport
from dlcontainer.vulnerabilities.judge import Judge
from dlcontainer.vulnerabilities.reading import DatabaseReading
from dlcontainer.vulnerabilities.rules import ScanRules


def scan(bill: BillContents, rules: ScanRules, unlike: Sequence[str] = ()) -> ScanReport:
    """Hold a bill against the database; `unlike`: where it and the image differ.

    Raises EngineError where the library that orders Debian's versions is missing.
    """
    judge = Judge(rules)
    gathered = DatabaseReading()
    if rules.database is not None:
        gathered = reading.read(rules.database, bill.packages, rules.now, rules.tell)
    findings = tuple(judge.findings(gathered.hits))
    doubts = (
        *judge.of_bill(bill, unlike),
        *judge.of_database(bill, gathered),
        *judge.of_records(gathered),
    )
    return ScanReport(
        packages=len(bill.packages),
        of_debian=bill.of_debian,
        database=_summary(rules.database, bill, gathered),
        findings=findings,
        doubts=doubts,
        unused=judge.unused(),
    )


def _summary(
    path: Path | None, bill: BillContents, gathered: DatabaseReading
) -> DatabaseSummary | None:
    if path is None:
        return None
    ecosystems = sorted({package.ecosystem for package in bill.packages})
    return DatabaseSummary(
        path=str(path),
        records=gathered.records,
        unreadable=gathered.unreadable_count,
        ecosystems=tuple(
            EcosystemRecords(
                ecosystem=ecosystem,
                records=gathered.counts.get(ecosystem, 0),
                newest=gathered.newest.get(ecosystem.partition(":")[0]),
            )
            for ecosystem in ecosystems
        ),
    )
