"""What `scan` finds, as SARIF: each vulnerability is a rule, and what was not checked is another.

An allowed finding is a suppressed one, with the reason of its entry.
"""

from pathlib import Path

from dlcontainer.image import sarif
from dlcontainer.image.sarif import SarifResult, SarifRule
from dlcontainer.vulnerabilities.findings import Doubt, Finding, ScanReport

NOT_CHECKED = "not-checked"
_DOUBTS = SarifRule(
    asks="All packages of the image are held against records of vulnerabilities.",
    help="Name a newer database, or allow what it can't decide, with a reason and a last day.",
)


def log(image: Path, report: ScanReport) -> dict[str, object]:
    """Return a log of a scan; a vulnerability that several packages have is one rule."""
    rules = {NOT_CHECKED: _DOUBTS}
    for finding in report.findings:
        rules.setdefault(finding.ids[0], _rule(finding))
    results = [
        *(_finding(finding) for finding in report.findings),
        *(_doubt(doubt) for doubt in report.doubts),
    ]
    return sarif.log(image, rules, results)


def _rule(finding: Finding) -> SarifRule:
    also = f" Its other names: {', '.join(finding.ids[1:])}." if finding.ids[1:] else ""
    return SarifRule(
        asks=f"{finding.summary.rstrip('.') or f'No package has {finding.ids[0]}'}.",
        help=f"Build the image again with a fixed package, or allow it with a reason.{also}",
    )


def _finding(finding: Finding) -> SarifResult:
    package = finding.package
    binaries = f" ({', '.join(package.binaries)})" if package.binaries else ""
    fixed = f"fixed in {' or '.join(finding.fixed)}" if finding.fixed else "no fix is known"
    parts = (
        f"{package.name} {package.version}{binaries}, {package.ecosystem}",
        *finding.severity,
        fixed,
    )
    return SarifResult(
        rule=finding.ids[0],
        # A severity is the records' own, in several scales; none is turned into a level.
        level="error",
        text="; ".join(parts),
        allowed=finding.entry.reason if finding.entry and finding.is_allowed else None,
    )


def _doubt(doubt: Doubt) -> SarifResult:
    return SarifResult(
        rule=NOT_CHECKED,
        level="open",
        text=f"{doubt.what}: {doubt.why}",
        allowed=doubt.entry.reason if doubt.entry and doubt.is_allowed else None,
    )
