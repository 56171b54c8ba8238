"""Claims of the literature against what was found here: rules are data, outcomes are not."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from dlcontainer import config
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.analysis.verdict import Word
from dlcontainer.bench.report import beside
from dlcontainer.bench.report.beside import FigureSelector
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.report.table import Table
from dlcontainer.bench.report.text import verdict_text
from dlcontainer.bench.samples.vocabulary import Question
from dlcontainer.config.field_types import Line, Strict
from dlcontainer.lab.filesystem.count_file import CountingRun, FileSystemCounts
from dlcontainer.lab.storm.prediction_file import Storm

Standing = Literal["supported", "not supported", "not testable here"]
_FILE = Path(__file__).with_name("claims.yaml")


class _Bounds(Strict):
    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> "_Bounds":
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("a bound needs either at_least or at_most")
        return self

    def holds(self, low: float, high: float) -> bool | None:
        """Return whether all of an interval keeps the bound; None where it lies on both sides."""
        if self.at_least is not None:
            return True if low >= self.at_least else False if high < self.at_least else None
        assert self.at_most is not None  # noqa: S101 - one of the two is there, see above
        return True if high <= self.at_most else False if low > self.at_most else None


class JudgedByVerdict(Strict):
    """By the verdicts of sessions."""

    by: Literal["verdict"]
    probe: Line
    question: Question
    supported: tuple[Word, ...]
    against: tuple[Word, ...]


class JudgedByRatio(_Bounds):
    """By the whole interval of sessions' ratios."""

    by: Literal["ratio"]
    probe: Line
    question: Question
    arch: Line | None = None


class JudgedByCount(_Bounds):
    """By counting runs whose command names something."""

    by: Literal["count"]
    about: Line
    value: Literal["pyc_per_so", "failed_per_rank"]


class JudgedByStorm(_Bounds):
    """By storm predictions."""

    by: Literal["storm"]
    value: Literal["launches_until_staging_pays"]


class JudgedByNothing(Strict):
    """By nothing that a session of ours could be; `beside` is what is shown next to it."""

    by: Literal["none"]
    needs: Line
    beside: tuple[FigureSelector, ...] = ()


Rule = Annotated[
    JudgedByVerdict | JudgedByRatio | JudgedByCount | JudgedByStorm | JudgedByNothing,
    Field(discriminator="by"),
]


class Claim(Strict):
    """What was claimed, by whom, with which figure, and how it is judged."""

    id: Line
    claim: Line
    stated: Line
    source: Line
    judged: Rule


class Claims(Strict):
    """The file of claims."""

    schema_: Literal[1] = Field(alias="schema")
    claims: tuple[Claim, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimScore:
    """A claim, what was found here, and what that makes of it."""

    claim: Claim
    standing: Standing
    value: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class _ClaimReading:
    holds: bool | None
    value: str


@cache
def claims() -> tuple[Claim, ...]:
    """Read the claims; raises ConfigError for a file that is wrong."""
    read = config.validate(config.load(_FILE, layer="claims", display=_FILE.name), Claims)
    return read.claims


def scores(
    analyses: Sequence[Analysis], findings: Sequence[InputFinding]
) -> tuple[ClaimScore, ...]:
    """Judge every claim by what was given."""
    return tuple(_score(claim, analyses, findings) for claim in claims())


def _score(
    claim: Claim, analyses: Sequence[Analysis], findings: Sequence[InputFinding]
) -> ClaimScore:
    rule = claim.judged
    if isinstance(rule, JudgedByNothing):
        texts = [beside.text(selector, analyses) for selector in rule.beside]
        value = "; ".join(text for text in texts if text)
        why = f"not run: needs {rule.needs}"
        return ClaimScore(claim=claim, standing="not testable here", value=value or "-", why=why)
    readings = _readings(rule, analyses, findings)
    if not readings:
        why = f"not among the files given: {_asked(rule)}"
        return ClaimScore(claim=claim, standing="not testable here", value="-", why=why)
    value = "; ".join(reading.value for reading in readings)
    decided = {reading.holds for reading in readings if reading.holds is not None}
    if len(decided) == 1:
        standing: Standing = "supported" if decided.pop() else "not supported"
        return ClaimScore(claim=claim, standing=standing, value=value, why=_rule(rule))
    why = "what was found disagrees" if decided else "what was found decides nothing"
    return ClaimScore(claim=claim, standing="not testable here", value=value, why=why)


def _readings(
    rule: JudgedByVerdict | JudgedByRatio | JudgedByCount | JudgedByStorm,
    analyses: Sequence[Analysis],
    findings: Sequence[InputFinding],
) -> list[_ClaimReading]:
    if isinstance(rule, JudgedByVerdict):
        return [_of_verdict(rule, analysis) for analysis in _sessions(rule, analyses)]
    if isinstance(rule, JudgedByRatio):
        return [
            _of_ratio(rule, analysis)
            for analysis in _sessions(rule, analyses)
            if rule.arch in (None, analysis.series.session.machine.get("arch"))
        ]
    if isinstance(rule, JudgedByCount):
        runs = [
            (finding.path.name, finding.finding)
            for finding in findings
            if isinstance(finding.finding, CountingRun)
        ]
        return [
            _of_number(rule, number, name)
            for name, run in runs
            if any(rule.about in word for word in run.command)
            and (number := _COUNTS[rule.value](run)) is not None
        ]
    storms = [
        (finding.path.name, finding.finding)
        for finding in findings
        if isinstance(finding.finding, Storm)
    ]
    return [reading for name, storm in storms if (reading := _of_storm(rule, storm, name))]


def _sessions(
    rule: JudgedByVerdict | JudgedByRatio, analyses: Sequence[Analysis]
) -> list[Analysis]:
    question = (rule.probe, rule.question)
    sessions = []
    for analysis in analyses:
        declared = analysis.series.session.declared
        sides = declared.sides.names
        # Beside the bare image a container's figure is the engine's part of its cost alone.
        is_whole = "container" in sides and "bare" not in sides
        if (declared.probe, declared.question) == question and is_whole:
            sessions.append(analysis)
    return sessions


def _of_verdict(rule: JudgedByVerdict, analysis: Analysis) -> _ClaimReading:
    word = analysis.verdict.word
    holds = True if word in rule.supported else False if word in rule.against else None
    return _ClaimReading(holds, f"{analysis.series.path.name}: {verdict_text.headline(analysis)}")


def _of_ratio(rule: JudgedByRatio, analysis: Analysis) -> _ClaimReading:
    interval, name = analysis.verdict.difference, analysis.series.path.name
    if interval is None or analysis.verdict.word == "NOT COMPARABLE":
        return _ClaimReading(None, f"{name}: {analysis.verdict.word}")
    holds = rule.holds(interval.low, interval.high)
    return _ClaimReading(
        holds, f"{name}: ratio {interval.ratio:.3f}, {verdict_text.bounds(interval)}"
    )


def _of_storm(rule: JudgedByStorm, storm: Storm, name: str) -> _ClaimReading | None:
    number = storm.launches_until_staging_pays
    if number is None:
        return None
    if any(fact.assumed for fact in storm.facts):
        # Nobody's figures are no evidence.
        return _ClaimReading(None, f"{name}: {number}, of a file system that is assumed")
    return _of_number(rule, float(number), name)


def _of_number(rule: _Bounds, number: float, name: str) -> _ClaimReading:
    return _ClaimReading(rule.holds(number, number), f"{name}: {number:,.3g}")


def _pyc_per_so(run: CountingRun) -> float | None:
    return run.per_node.pyc / run.per_node.so if run.per_node.so else None


def _failed_per_rank(run: CountingRun) -> float | None:
    # What audit hooks see has no failures in it.
    counts: FileSystemCounts | None = run.per_rank[0] if run.per_rank else None
    if counts is None:
        return None
    names = ("failed_open", "failed_stat", "failed_lookup")
    numbers = [counts.operations[name] for name in names if name in counts.operations]
    return float(sum(numbers)) if numbers else None


_COUNTS: Mapping[str, Callable[[CountingRun], float | None]] = {
    "pyc_per_so": _pyc_per_so,
    "failed_per_rank": _failed_per_rank,
}


def _asked(rule: JudgedByVerdict | JudgedByRatio | JudgedByCount | JudgedByStorm) -> str:
    if isinstance(rule, JudgedByVerdict | JudgedByRatio):
        of = f" on {rule.arch}" if isinstance(rule, JudgedByRatio) and rule.arch else ""
        return f"a session of bench {rule.probe}, {rule.question}{of}"
    if isinstance(rule, JudgedByCount):
        return f"lab count of an import of {rule.about}"
    return "lab storm with an image"


def _rule(rule: JudgedByVerdict | JudgedByRatio | JudgedByCount | JudgedByStorm) -> str:
    if isinstance(rule, JudgedByVerdict):
        return f"supported if the verdict is {' or '.join(rule.supported)}"
    bound = (
        f"at least {rule.at_least:g}" if rule.at_least is not None else f"at most {rule.at_most:g}"
    )
    what = "the whole interval" if isinstance(rule, JudgedByRatio) else rule.value.replace("_", " ")
    return f"supported if {what} is {bound}"


def table(scores: Sequence[ClaimScore]) -> Table:
    """Return the scorecard as rows."""
    return Table(
        name="Claims of the literature",
        head=("claim", "stated", "by", "here", "standing", "why"),
        rows=tuple(
            (s.claim.claim, s.claim.stated, s.claim.source, s.value, s.standing, s.why)
            for s in scores
        ),
        note="Each rule stands in claims.yaml; where a paper states no threshold, it is ours. What "
        "holds here holds for these machines and these files, not for the machines of the claims. "
        "Where a claim needs another machine, what was measured here stands beside and judges "
        "nothing.",
    )
