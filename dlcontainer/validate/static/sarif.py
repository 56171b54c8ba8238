"""What `validate --static` finds, as SARIF."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from dlcontainer.image import sarif
from dlcontainer.image.sarif import SarifLevel, SarifResult, SarifRule
from dlcontainer.validate.static.finding import Level, StaticFinding
from dlcontainer.validate.static.rules import RULES

_LEVELS: Mapping[Level, SarifLevel] = {
    "error": "error",
    "warning": "warning",
    "note": "note",
    "not decided": "open",
}


def log(image: Path, findings: Sequence[StaticFinding]) -> dict[str, object]:
    """Return a log with all rules, whether they found anything or not."""
    rules = {name: SarifRule(asks=rule.asks, help=rule.help) for name, rule in RULES.items()}
    return sarif.log(image, rules, [_result(finding) for finding in findings])


def _result(finding: StaticFinding) -> SarifResult:
    return SarifResult(
        rule=finding.rule,
        level=_LEVELS[finding.level],
        text=f"{finding.what}; {finding.why}" + (f". Next: {finding.fix}" if finding.fix else ""),
        # What the host brings has a path of the host.
        file="" if RULES[finding.rule].names_host_files else finding.file,
    )
