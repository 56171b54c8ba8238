"""Is a site steady enough? Its A/A controls, pooled over sessions. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from dlcontainer.bench.analysis import interim, pairing
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.stats import paired, power, regression
from dlcontainer.bench.stats.differences import Differences
from dlcontainer.bench.stats.paired import Interval

LEVEL = 0.9
_ALPHA = (1 - LEVEL) / 2
# Beyond so many of the longest sessions a number of pairs is no advice.
_MOST_SESSIONS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """What a site's controls show: qualified where their interval lies inside half the margin.

    `more` is how many further A/A pairs would do at a power of 0.9, None where no ten sessions do.
    `supported` is the smallest margin within which sessions of `planned` pairs and this scatter can
    be expected to end EQUIVALENT; None where no equivalence is judged, and above 100 %.
    """

    site: str
    node: str
    metric: str
    margin: float
    sessions: int
    pairs: int
    sd: float | None
    interval: Interval | None
    more: int | None
    planned: int
    supported: float | None

    @property
    def is_qualified(self) -> bool:
        """Whether the whole interval lies inside half the margin."""
        return self.interval is not None and self.interval.within(self.margin / 2)


def standings(analyses: Sequence[Analysis]) -> dict[str, Standing]:
    """Give the standing of each session's site, by the session's seal.

    Controls are pooled over the sessions of one site, kind of node, workload and metric.
    """
    found: dict[str, Standing] = {}
    for key, group in groupby(sorted(analyses, key=_key), key=_key):
        members = list(group)
        standing = _pooled(key, members)
        found |= {item.series.seal: standing for item in members}
    return found


def _key(analysis: Analysis) -> tuple[str, ...]:
    declared, machine = analysis.series.session.declared, analysis.series.session.machine
    cores = machine.get("cores")
    facts = (machine.get("arch"), machine.get("cpu_model"), f"{cores} cores" if cores else None)
    node = ", ".join(str(fact) for fact in facts if fact)
    work = sorted((name, str(value)) for name, value in declared.workload.items())
    return (
        declared.site, node, declared.metric, str(declared.margin), declared.probe,
        declared.arms[0], str(work),
    )  # fmt: skip


def _pooled(key: tuple[str, ...], members: Sequence[Analysis]) -> Standing:
    declared = members[0].series.session.declared
    found = [pairing.differences(declared.metric, item.pairs["control"]) for item in members]
    count = sum(map(len, found))
    pooled = Differences(
        range(1, count + 1),
        chain.from_iterable(part.d for part in found),
        [ran for part in found for ran in part.ran],
    )
    fitted = regression.fit(pooled) if pooled else None
    known = fitted is not None and fitted.df > 0
    half = declared.margin / 2
    longest = max(members, key=lambda item: item.series.looks[-1])
    planned = longest.series.looks[-1]
    more = None
    if fitted is not None and known:
        needed = power.pairs_needed(fitted.sd, half, _ALPHA, equivalence=True, truth=0.0)
        if needed is not None and needed <= _MOST_SESSIONS * planned:
            more = max(power.BLOCK, needed - fitted.n)
    rules = interim.rules(longest.series, equivalence=longest.traits.equivalence)
    supported = None
    if fitted is not None and known and rules.equivalence:
        supported = power.smallest_margin(planned, fitted.sd, rules.alpha)
    return Standing(
        planned=planned,
        supported=supported,
        site=declared.site,
        node=key[1],
        metric=declared.metric,
        margin=declared.margin,
        sessions=len(members),
        pairs=len(pooled),
        sd=fitted.sd if fitted is not None and known else None,
        interval=paired.interval(fitted, LEVEL) if fitted is not None and known else None,
        more=more,
    )
