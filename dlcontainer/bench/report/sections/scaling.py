"""Scaling studies as sections of a report: each one alone, then each against the first."""

from collections.abc import Iterator, Sequence

from dlcontainer.bench.report.figures import scaling_plots
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.report.sections import scaling_cells as cells
from dlcontainer.bench.report.sections import scaling_comparison as compared
from dlcontainer.bench.report.sections import scaling_inputs
from dlcontainer.bench.report.sections import scaling_tables as tables
from dlcontainer.bench.report.sections import scaling_words as words
from dlcontainer.bench.report.sections.exhibit import Exhibit, plate
from dlcontainer.bench.report.sections.session_figures import Plate
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.study import study_analysis
from dlcontainer.bench.study.judged_study import JudgedStudy
from dlcontainer.bench.study.study_analysis import ForeseenStudy, PointAnalysis
from dlcontainer.bench.study.study_comparison import StudyComparison

_EFFICIENCY = (
    "Samples a second and rank against the first point, both arms with 95 % intervals; 1 is ideal. "
    "The axis of ranks is logarithmic."
)
_LOST = (
    "The step's share that each arm loses against the ideal, by term; the number behind a bar is "
    "all that is lost. A term below 0 has no bar."
)


def exhibits(findings: Sequence[InputFinding]) -> tuple[Exhibit, ...]:
    """Return a section for each study, and one for each two that stand side by side."""
    alone = [_study(finding, judged) for finding, judged in scaling_inputs.studies(findings)]
    together = [
        _pair(number, pair)
        for number, pair in enumerate(scaling_inputs.comparisons(findings), start=2)
    ]
    return (*together, *alone)


def _study(finding: InputFinding, judged: JudgedStudy) -> Exhibit:
    points = study_analysis.read(judged)
    plan = judged.study.plan
    ahead = study_analysis.against_first_points(judged, points)
    return Exhibit(
        anchor=f"scaling-{finding.sha256[:8]}",
        title=f"Scaling study: {plan.workload}, {plan.recipe} at {plan.site}",
        headline=words.headline(judged, points, ahead),
        words=" ".join(filter(None, (words.paragraph(judged, points), words.outlook(ahead)))),
        plates=tuple(_plates(finding, points, ahead)),
        open_plates=len(scaling_plots.families(points)),
        tables=(
            tables.points(points, finding.anchor),
            *tables.losses(points),
            *tables.foreseen(ahead),
        )
        if points
        else (),
        folded=(
            *tables.all_losses(points),
            tables.sessions(judged),
            *tables.messages(judged),
            tables.facts(judged),
        ),
        lines=(*lines(judged, points), *filter(None, (words.outlook(ahead),))),
    )


def _plates(
    finding: InputFinding, points: tuple[PointAnalysis, ...], ahead: ForeseenStudy | None
) -> Iterator[Plate]:
    expected = ahead.comparisons if ahead else ()
    families = scaling_plots.families(points)
    for family in families:
        name = "Efficiency" if len(families) == 1 else f"Efficiency, {family}"
        drawn = scaling_plots.efficiency(points, family, expected)
        yield plate(finding, name, drawn, _EFFICIENCY)
    if (bars := scaling_plots.losses(points)) is not None:
        yield plate(finding, "What is lost", bars, _LOST)


def lines(judged: JudgedStudy, points: tuple[PointAnalysis, ...]) -> tuple[str, ...]:
    """Return a line a point, for a terminal."""
    return tuple(_line(judged, point) for point in points)


def _line(judged: JudgedStudy, point: PointAnalysis) -> str:
    parts = [f"{counted(point.ranks, 'rank')}, {point.strategy}: {words.cost(point, judged)}"]
    for arm, reading in point.efficiencies.items():
        if not reading.is_base:
            parts.append(f"efficiency {arm} {cells.bracketed(reading.efficiency)}")
    if loss := point.losses.get(words.candidate(point)):
        parts.append(f"lost: {words.lost(loss)}")
    return "; ".join(parts)


def _pair(number: int, comparison: StudyComparison) -> Exhibit:
    anchor = f"studies-1-{number}"
    return Exhibit(
        anchor=anchor,
        title="Two scaling studies side by side",
        headline=compared.headline(comparison),
        words=compared.paragraph(comparison),
        plates=(),
        tables=(compared.ratios(comparison, f"{anchor}-points"),) if comparison.points else (),
        folded=compared.attestations(comparison),
        lines=compared.lines(comparison),
    )
