"""Findings of an image as SARIF 2.1.0, for viewers and dashboards of other tools' findings.

Source: OASIS, "Static Analysis Results Interchange Format 2.1.0". No line numbers: an image's
files are no texts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from dlcontainer import __version__

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
SarifLevel = Literal["error", "warning", "note", "open"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SarifRule:
    """What a rule asks, and what helps where it is broken; both are sentences."""

    asks: str
    help: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SarifResult:
    """A finding; `open` is one that could not be decided. An empty file is the image as such.

    `allowed` is the reason for which it is accepted, where it is.
    """

    rule: str
    level: SarifLevel
    text: str
    file: str = ""
    allowed: str | None = None


def log(
    image: Path, rules: Mapping[str, SarifRule], results: Sequence[SarifResult]
) -> dict[str, object]:
    """Return a log of one run with all rules, whether they found anything or not."""
    artifacts = _Artifacts(image=image)
    numbers = {name: number for number, name in enumerate(rules)}
    written = [_result(result, numbers[result.rule], artifacts) for result in results]
    driver = {
        "name": "dlcontainer",
        "version": __version__,
        "rules": [
            {
                "id": name,
                "shortDescription": {"text": _text(rule.asks)},
                "help": {"text": _text(rule.help)},
            }
            for name, rule in rules.items()
        ],
    }
    run = {"tool": {"driver": driver}, "artifacts": artifacts.listed, "results": written}
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


def _result(result: SarifResult, number: int, artifacts: _Artifacts) -> dict[str, object]:
    # What could not be decided is of the kind `open`, whose level must be `none` (3.27.9, 3.27.10).
    # The others are of the kind `fail`, which stands for itself.
    is_open = result.level == "open"
    level = {"kind": "open", "level": "none"} if is_open else {"level": result.level}
    allowed = {}
    if result.allowed is not None:
        reason = {"kind": "external", "justification": _text(result.allowed)}
        allowed = {"suppressions": [reason]}
    place = {"artifactLocation": artifacts.location(result.file)}
    return {
        "ruleId": result.rule,
        "ruleIndex": number,
        **level,
        "message": {"text": _text(result.text)},
        "locations": [{"physicalLocation": place}],
        **allowed,
    }


def _text(text: str) -> str:
    """Replace bytes of names that are no text: JSON of other tools takes none."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def _uri(path: "str | Path") -> str:
    return quote(str(path).encode(errors="surrogateescape"))
