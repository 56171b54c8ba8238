"""Several metrics of one session: the same on all of them, or different on some. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlcontainer.bench.analysis.pairing import PairFigure
from dlcontainer.bench.analysis.verdict import VerdictRules, Word, worded
from dlcontainer.bench.stats import paired
from dlcontainer.bench.stats.paired import Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricReading:
    """One declared metric: within its margin, different (Holm's p over all of them), or neither."""

    figure: PairFigure
    margin: float
    equivalence: Interval
    p_holm: float
    word: Word
    is_within: bool
    is_different: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricFamily:
    """All metrics that were declared, the main one first; those missing in a launch are named."""

    readings: tuple[MetricReading, ...]
    missing: tuple[str, ...] = ()

    @property
    def all_within(self) -> bool:
        """Whether every metric is within its margin: each must be shown, so none is corrected."""
        return not self.missing and all(reading.is_within for reading in self.readings)

    @property
    def different(self) -> tuple[MetricReading, ...]:
        """The metrics of which a difference is shown."""
        return tuple(reading for reading in self.readings if reading.is_different)


def family(
    rules: VerdictRules,
    main: PairFigure,
    further: Sequence[PairFigure],
    margins: Mapping[str, float],
) -> MetricFamily:
    """Read the main metric and the declared secondary ones together."""
    by_metric = {figure.metric: figure for figure in further}
    figures = [(main, rules.margin)]
    figures += [(by_metric[name], margin) for name, margin in margins.items() if name in by_metric]
    adjusted = paired.holm([paired.p_value(figure.fitted) for figure, _ in figures])
    readings = []
    for (figure, margin), p in zip(figures, adjusted, strict=True):
        equivalence = paired.interval(figure.fitted, 1 - 2 * rules.alpha)
        # Of import times it is never said that they are the same; of memory it is.
        may_be = rules.equivalence or figure is not main
        metric_rules = replace(rules, margin=margin, equivalence=may_be)
        # The Holm correction is that of "different on some"; a word is of this figure alone.
        too_few = figure.fitted.n < rules.fewest or figure.fitted.se == 0
        word: Word = (
            "INCONCLUSIVE" if too_few else worded(metric_rules, figure.interval, equivalence)
        )
        readings.append(
            MetricReading(
                figure=figure,
                margin=margin,
                equivalence=equivalence,
                p_holm=p,
                word=word,
                is_within=may_be and equivalence.within(margin),
                is_different=p <= rules.alpha,
            )
        )
    missing = tuple(name for name in margins if name not in by_metric)
    return MetricFamily(readings=tuple(readings), missing=missing)
