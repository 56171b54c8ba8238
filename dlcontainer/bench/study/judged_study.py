"""A study with the verdicts of its points: each session is judged as `report` judges any other."""

from collections.abc import Mapping
from dataclasses import dataclass

from dlcontainer.bench.analysis import interim
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.analysis.verdict import Word
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.stats.paired import Interval
from dlcontainer.bench.study.study_records import MeasuredPoint, MeasuredStudy


@dataclass(frozen=True, kw_only=True, slots=True)
class PointVerdict:
    """The container against the native side at a point; `word` is None where pairs are too few.

    `reason` says why there is no verdict, or no difference is told.
    """

    word: Word | None
    pairs: int
    margin: float
    difference: Interval | None
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedStudy:
    """A study and its sessions by their files; one that does not exist yet is in none."""

    study: MeasuredStudy
    sessions: Mapping[str, Analysis]

    def session(self, point: MeasuredPoint) -> Analysis | None:
        """Return the session of a point; None where it was not measured."""
        return self.sessions.get(point.plan.file)

    def verdict(self, point: MeasuredPoint) -> PointVerdict | None:
        """Return what its session says; None where it was not measured."""
        analysis = self.session(point)
        return _verdict(analysis) if analysis else None

    @property
    def last(self) -> MeasuredPoint | None:
        """Return the last point that was measured: it answers what the study was made for."""
        measured = [point for point in self.study.points if any(_steps(point))]
        return measured[-1] if measured else None

    def micro_batches(self, point: MeasuredPoint) -> int | None:
        """Return the micro-batches of a point's step; None where its session does not say."""
        analysis = self.session(point)
        count = analysis.series.session.declared.workload.get("micro_batches") if analysis else None
        return count if isinstance(count, int) and count > 0 else None


def _verdict(analysis: Analysis) -> PointVerdict:
    verdict, margin = analysis.verdict, analysis.series.session.declared.margin
    pairs = len(analysis.pairs["pair"])
    fewest = interim.rules(analysis.series, equivalence=analysis.traits.equivalence).fewest
    word: Word | None = verdict.word
    reason = verdict.reasons[0] if verdict.reasons else ""
    if word == "INCONCLUSIVE" and pairs < fewest:
        word = None
        reason = f"{counted(pairs, 'pair')}; a verdict takes {fewest}"
    return PointVerdict(
        word=word, pairs=pairs, margin=margin, difference=verdict.difference, reason=reason
    )


def _steps(point: MeasuredPoint) -> list[float]:
    return [seconds for arm in point.arms.values() for seconds in arm.step_s]
