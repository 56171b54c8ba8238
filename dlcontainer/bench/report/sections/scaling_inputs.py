"""The scaling studies among what a report was given, and each two that stand side by side."""

from collections.abc import Sequence

from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.study import study_comparison
from dlcontainer.bench.study.judged_study import JudgedStudy
from dlcontainer.bench.study.study_comparison import StudyComparison


def studies(findings: Sequence[InputFinding]) -> list[tuple[InputFinding, JudgedStudy]]:
    """Return the studies among what was given."""
    return [
        (finding, finding.finding)
        for finding in findings
        if isinstance(finding.finding, JudgedStudy)
    ]


def sessions(findings: Sequence[InputFinding]) -> list[Analysis]:
    """Return the sessions of all studies' points."""
    return [analysis for _, judged in studies(findings) for analysis in judged.sessions.values()]


def comparisons(findings: Sequence[InputFinding]) -> list[StudyComparison]:
    """Hold each study but the first against the first."""
    judged = [study for _, study in studies(findings)]
    return [study_comparison.compare(judged[0], later) for later in judged[1:]]
