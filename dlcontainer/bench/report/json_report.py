"""What a report says, for programs."""

from collections.abc import Sequence
from dataclasses import asdict
from math import expm1, inf

from dlcontainer.bench.analysis import qualification
from dlcontainer.bench.analysis.across_sessions import across
from dlcontainer.bench.analysis.contrasts import ArmContrast
from dlcontainer.bench.analysis.metrics import MetricFamily
from dlcontainer.bench.analysis.pairing import PairFigure
from dlcontainer.bench.analysis.qualification import SiteQualification
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.job import job_analysis as jobbing
from dlcontainer.bench.job.job_records import JobSession
from dlcontainer.bench.report import scale_json as scaled
from dlcontainer.bench.report import scorecard
from dlcontainer.bench.report.figures import session_plots
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.report.sections import answers, jobs, scaling_inputs, scaling_json
from dlcontainer.bench.report.tables import row_tables
from dlcontainer.bench.report.text import verdict_text
from dlcontainer.bench.samples.encoding import plain
from dlcontainer.bench.samples.traits import ProbeTable
from dlcontainer.bench.scale.matrix_records import MatrixSession
from dlcontainer.bench.stats.paired import Interval
from dlcontainer.bench.study.judged_study import JudgedStudy
from dlcontainer.bench.trace.trace_records import JobTrace


def report(
    analyses: Sequence[Analysis], findings: Sequence[InputFinding] = ()
) -> dict[str, object]:
    """Return all sessions, what they say together, and what they make of the literature's
    claims.
    """
    standings = qualification.standings(analyses)
    sessions = []
    for analysis in analyses:
        standing = _standing(standings[analysis.series.seal])
        sessions.append({**session(analysis), "site_standing": standing})
    joint = [
        {
            "files": [str(member.series.path) for member in item.members],
            "verdict": item.word,
            "headline": verdict_text.joint_headline(item),
            "reasons": list(item.reasons),
            "difference": _interval(item.difference),
            "equivalence": _interval(item.equivalence),
        }
        for item in across(analyses)
    ]
    claims = [
        {"id": s.claim.id, "standing": s.standing, "value": s.value, "why": s.why}
        for s in scorecard.scores(analyses, findings)
    ]
    bodies = [
        {
            "file": str(finding.path),
            "sha256": finding.sha256,
            **_figures(finding),
        }
        for finding in findings
    ]
    answered = [
        {
            "question": answer.question,
            "answer": answer.reply,
            "figures": answer.figures,
            "sure": answer.sure,
        }
        for answer in answers.of(analyses, findings)
    ]
    return {
        "answers": answered,
        "sessions": sessions,
        "across": joint,
        "findings": bodies,
        "studies_compared": [
            scaling_json.comparison(together) for together in scaling_inputs.comparisons(findings)
        ],
        "scorecard": claims,
    }


def _figures(finding: InputFinding) -> dict[str, object]:
    if isinstance(finding.finding, MatrixSession):
        return {"cells": scaled.cells(finding.finding)}
    if isinstance(finding.finding, JobSession):
        return {"job": jobs.figures(finding.finding, jobbing.read(finding.finding))}
    if isinstance(finding.finding, JudgedStudy):
        return {"study": scaling_json.study(finding.finding)}
    if isinstance(finding.finding, JobTrace):
        return {"trace": asdict(finding.finding)}
    return {}


def session(analysis: Analysis) -> dict[str, object]:
    """Return one session's verdict and figures for programs."""
    series, verdict = analysis.series, analysis.verdict
    roles = {"A/B": analysis.main, "joiner": analysis.joiner, "A/A": analysis.control}
    roles["B/B"] = analysis.candidate_control
    return {
        "file": str(series.path),
        "verdict": verdict.word,
        "headline": verdict_text.headline(analysis),
        "sentence": verdict_text.sentence(analysis),
        "declared": plain(series.session.declared),
        "declared_sha256": series.declared_sha256,
        "seal": series.seal,
        "complete": series.complete,
        # Of each that is reported: for scripts, which from 0.7.0 to 0.9.1 had to ask.
        "checked_for_contradictions": True,
        "reasons": list(verdict.reasons),
        "beyond_margin": verdict.beyond,
        "tail_pairs": list(verdict.tail),
        "more_pairs": verdict.more_pairs,
        "intervals": {
            "difference": _interval(verdict.difference),
            "equivalence": _interval(verdict.equivalence),
            "ranks": _interval(verdict.robust),
            "control": _interval(verdict.control),
            "candidate_control": _interval(verdict.candidate_control),
        },
        "controls_tell": {
            control.role: control.tells for control in qualification.controls(analysis)
        },
        "figures": {name: _figure(figure) for name, figure in roles.items() if figure},
        "contrasts": [_contrast(item) for item in analysis.contrasts],
        "metrics": _family(analysis.family),
        "secondary": [_figure(figure) for figure in analysis.secondary],
        "section": _section(analysis.traits.section),
        **({"charts": plain(charts)} if (charts := analysis.traits.charts) else {}),
        **({"rows": rows} if (rows := row_tables.plain(analysis)) else {}),
        "phases_s": dict(session_plots.phase_means(analysis)),
        "differences": [asdict(item) for item in analysis.differences],
        "losses": asdict(analysis.losses) if analysis.losses else None,
        "resumed_lines": [resume.line for resume in series.resumes],
        "failed_lines": analysis.failed.lines(),
    }


def _section(section: ProbeTable | None) -> dict[str, object] | None:
    if section is None:
        return None
    rows = [dict(zip(section.head, row, strict=True)) for row in section.rows]
    body: dict[str, object] = {"title": section.title, "rows": rows, "note": section.note}
    return body | (
        {"beside": table_beside} if (table_beside := _section(section.companion)) else {}
    )


def _contrast(item: ArmContrast) -> dict[str, object]:
    verdict = item.verdict
    return {
        "reference": item.sides.reference,
        "candidate": item.sides.candidate,
        "meaning": item.meaning,
        "verdict": verdict.word,
        "reasons": list(verdict.reasons),
        "beyond_margin": verdict.beyond,
        "difference": _interval(verdict.difference),
        "equivalence": _interval(verdict.equivalence),
        "p_holm": item.p_holm,
        "different": item.is_different,
        "figure": _figure(item.figure),
    }


def _figure(figure: PairFigure) -> dict[str, object]:
    fitted = figure.fitted
    has_df = fitted.df > 0
    return {
        "metric": figure.metric,
        "pairs": fitted.n,
        "means": list(figure.means),
        "interval": _interval(figure.interval),
        "sd_of_a_pair": fitted.sd if has_df else None,
        "order_effect": expm1(fitted.order_effect) if has_df else None,
        "third_effect": expm1(fitted.third) if fitted.third is not None else None,
    }


def _interval(interval: Interval | None) -> dict[str, float | None] | None:
    if interval is None:
        return None
    body: dict[str, float | None] = dict(asdict(interval))
    # JSON has no infinity: an interval without an upper end.
    return {key: value if value != inf else None for key, value in body.items()}


def _family(family: MetricFamily | None) -> dict[str, object] | None:
    if family is None:
        return None
    return {
        "all_within": family.all_within,
        "missing": list(family.missing),
        "readings": [
            {
                "metric": reading.figure.metric,
                "margin": reading.margin,
                "p_holm": reading.p_holm,
                "verdict": reading.word,
                "within": reading.is_within,
                "different": reading.is_different,
            }
            for reading in family.readings
        ],
    }


def _standing(standing: SiteQualification) -> dict[str, object]:
    return {
        # Open where there are too few pairs to tell: that is no "no".
        "qualified": standing.is_qualified if standing.interval else None,
        "node": standing.node,
        "sessions": standing.sessions,
        "control_pairs": standing.pairs,
        "interval": _interval(standing.interval),
        "half_margin": standing.margin / 2,
        "more_pairs": standing.more,
        "planned_pairs": standing.planned,
        "smallest_margin": standing.supported,
    }
