"""Findings as SARIF 2.1.0, for viewers and dashboards of other tools' findings.

Source: OASIS, "Static Analysis Results Interchange Format 2.1.0". No line numbers: an image's
files are no texts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from dlcontainer import __version__
from dlcontainer.validate.static.finding import Level, StaticFinding
from dlcontainer.validate.static.rules import RULES

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
# *Not decided* is the kind `open`: too little is known to decide; its level must be `none`
# (3.27.9, 3.27.10). The others are of the kind `fail`, which stands for itself.
_LEVELS: Mapping[Level, Mapping[str, str]] = {
    "error": {"level": "error"},
    "warning": {"level": "warning"},
    "note": {"level": "note"},
    "not decided": {"kind": "open", "level": "none"},
}


def log(image: Path, findings: Sequence[StaticFinding]) -> dict[str, object]:
    """Return a log of one run with all rules, whether they found anything or not."""
    artifacts = _Artifacts(image=image)
    results = [_result(finding, artifacts) for finding in findings]
    driver = {
        "name": "dlcontainer",
        "version": __version__,
        "rules": [
            {
                "id": name,
                "shortDescription": {"text": rule.asks},
                "help": {"text": rule.help},
            }
            for name, rule in RULES.items()
        ],
    }
    run = {"tool": {"driver": driver}, "artifacts": artifacts.listed, "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


@dataclass(kw_only=True, slots=True)
class _Artifacts:
    """The image, and in it, as artifacts nested in it, the files that findings name."""

    image: Path
    numbers: dict[str, int] = field(default_factory=dict)

    @property
    def listed(self) -> list[dict[str, object]]:
        inner = [{"location": {"uri": _uri(path)}, "parentIndex": 0} for path in self.numbers]
        return [{"location": {"uri": _uri(self.image)}, "roles": ["analysisTarget"]}, *inner]

    def location(self, path: str) -> dict[str, object]:
        """Return where a file is; an empty path is the image as such."""
        number = self.numbers.setdefault(path, len(self.numbers) + 1) if path else 0
        return {"uri": _uri(path or self.image), "index": number}


def _result(finding: StaticFinding, artifacts: _Artifacts) -> dict[str, object]:
    # What the host brings has a path of the host.
    path = "" if RULES[finding.rule].names_host_files else finding.file
    text = f"{finding.what}; {finding.why}" + (f". Next: {finding.fix}" if finding.fix else "")
    return {
        "ruleId": finding.rule,
        "ruleIndex": list(RULES).index(finding.rule),
        **_LEVELS[finding.level],
        "message": {"text": _text(text)},
        "locations": [{"physicalLocation": {"artifactLocation": artifacts.location(path)}}],
    }


def _text(text: str) -> str:
    """Replace bytes of names that are no text: JSON of other tools takes none."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def _uri(path: "str | Path") -> str:
    return quote(str(path).encode(errors="surrogateescape"))
