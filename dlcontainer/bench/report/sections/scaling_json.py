"""Scaling studies for programs."""

from math import isfinite

from dlcontainer.bench.samples.encoding import plain
from dlcontainer.bench.stats.mean_ratios import Share
from dlcontainer.bench.stats.paired import Interval
from dlcontainer.bench.study import study_analysis
from dlcontainer.bench.study.judged_study import JudgedStudy, PointVerdict
from dlcontainer.bench.study.loss_terms import PointLoss
from dlcontainer.bench.study.study_analysis import ForeseenStudy, PointAnalysis
from dlcontainer.bench.study.study_comparison import StudyComparison


def study(judged: JudgedStudy) -> dict[str, object]:
    """Return a study's declaration and points."""
    points = study_analysis.read(judged)
    return {
        "declared": plain(judged.study.plan),
        "digest": judged.study.digest,
        "points": [_point(point) for point in points],
        "foreseen": _foreseen(study_analysis.against_first_points(judged, points)),
    }


def _foreseen(ahead: ForeseenStudy | None) -> dict[str, object] | None:
    if ahead is None:
        return None
    return {
        "arm": ahead.arm,
        "calibrated_at_ranks": list(ahead.ranks),
        "reason": ahead.reason,
        "points": [
            {
                "ranks": point.ranks,
                "strategy": point.strategy,
                "efficiency": interval(point.foreseen),
                "measured": interval(point.measured),
                "below": point.is_below,
                "term": point.term,
            }
            for point in ahead.comparisons
        ],
    }


def _point(point: PointAnalysis) -> dict[str, object]:
    plan = point.point.plan
    return {
        "ranks": plan.ranks,
        "nodes": plan.nodes,
        "strategy": plan.strategy.name,
        "global_batch": plan.global_batch,
        "file": plan.file,
        "complete": point.point.complete,
        "emulated": point.point.emulated,
        "verdict": _verdict(point.verdict),
        "arms": {
            arm: {
                "launches": reading.launches,
                "step_s": reading.step_s,
                "efficiency": interval(reading.efficiency),
                "loss": _loss(point.losses.get(arm)),
            }
            for arm, reading in point.efficiencies.items()
        },
    }


def _verdict(verdict: PointVerdict | None) -> dict[str, object] | None:
    if verdict is None:
        return None
    return {
        "word": verdict.word,
        "reason": verdict.reason,
        "pairs": verdict.pairs,
        "margin": verdict.margin,
        "ratio": interval(verdict.difference) if verdict.difference else None,
    }


def _loss(loss: PointLoss | None) -> dict[str, object] | None:
    if loss is None:
        return None
    return {
        "share": _share(loss.total),
        "terms": {
            term.name: {**_share(term.share), "told_apart": term.share.is_told_apart}
            for term in loss.terms
        },
        "input_wait": loss.input_share,
        "remarks": list(loss.remarks),
    }


def comparison(together: StudyComparison) -> dict[str, object]:
    """Return two studies side by side."""
    return {
        "studies": [str(judged.study.folder) for judged in (together.first, together.second)],
        "refusals": list(together.refusals),
        "left_out": list(together.left_out),
        "points": [
            {
                "ranks": point.ranks,
                "strategy": point.strategy,
                "nodes": list(point.nodes),
                "arm": point.arm,
                "step_s": list(point.step_s),
                "ratio": interval(point.ratio),
            }
            for point in together.points
        ],
    }


def interval(bounds: Interval) -> dict[str, float | None]:
    """Return a number with its interval; null where nothing bounds it."""
    is_bounded = bounds.low > 0 and isfinite(bounds.high)
    return {
        "value": bounds.ratio,
        "low": bounds.low if is_bounded else None,
        "high": bounds.high if is_bounded else None,
        "level": bounds.level,
    }


def _share(share: Share) -> dict[str, float | None]:
    ends = {"low": share.low, "high": share.high}
    return {"value": share.share, **{k: v if isfinite(v) else None for k, v in ends.items()}}
