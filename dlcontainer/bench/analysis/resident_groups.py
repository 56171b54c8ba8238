"""What resident groups hold beside the verdict's ratio: where the scatter comes from. Pure.

The endpoint of a group is one number, the log of the ratio of the arms' mean step times. All else
here describes it and judges nothing: the processes of one arm ran the same bits, so their
differences (A/A, B/B) are no gate but the size of what a process is by chance.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from dlcontainer.bench.samples import continuation
from dlcontainer.bench.samples.records import Sample
from dlcontainer.bench.samples.resident.resident_records import ResidentProcess, Turn
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import ArmName

# A fifth of the rounds at each end.
_TRIMMED = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupFigure:
    """One group; logs of ratios, candidate over reference.

    `log_ratio` is that of the mean step times and has the verdict. `trimmed` leaves out the most
    extreme rounds, `cpu` is of processor time. `reference` and `candidate` are the logs of each
    process's mean step time, s.
    """

    number: int
    candidate_first: bool
    log_ratio: float
    trimmed: float
    cpu: float
    reference: tuple[float, ...]
    candidate: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupScatter:
    """The scatter of one arm, in logs: between its processes, and between turns of one process.

    `farthest` is the largest distance of a process from the mean of its arm in its group; `lost`
    counts the groups that a process of this arm cost.
    """

    arm: ArmName
    processes: int
    step_s: float
    between: float
    turns: float
    farthest: float
    lost: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthRatio:
    """The ratio that turns of fewer steps would have given: the first `steps` of each turn."""

    steps: int
    ratio: float


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupSeconds:
    """The seconds of a group by the session's own stamps.

    `start_s` is until all have imported, `first_s` then until the first turn, `turns_s` that of all
    turns, `between_s` between them (new trainers, gaps), `end_s` from the last turn on.
    """

    start_s: float
    first_s: float
    turns_s: float
    between_s: float
    end_s: float

    @property
    def whole_s(self) -> float:
        """The seconds of the whole group."""
        return self.start_s + self.first_s + self.turns_s + self.between_s + self.end_s


@dataclass(frozen=True, kw_only=True, slots=True)
class ResidentGroups:
    """All groups of a session, in the order of their numbers; `spent` is a group's mean."""

    groups: tuple[GroupFigure, ...]
    spent: GroupSeconds
    reference: GroupScatter
    candidate: GroupScatter
    lengths: tuple[LengthRatio, ...]

    @property
    def trimmed(self) -> float:
        """The ratio without the most extreme rounds."""
        return math.exp(statistics.fmean(group.trimmed for group in self.groups))

    @property
    def cpu(self) -> float:
        """The ratio of processor time."""
        return math.exp(statistics.fmean(group.cpu for group in self.groups))


def of(series: Series) -> ResidentGroups | None:
    """Describe the groups of a session; None where it has none."""
    declared = series.session.declared
    if declared.groups is None:
        return None
    aside = continuation.set_aside(series)
    arms: dict[int, dict[ArmName, Sample]] = {}
    for sample in series.samples:
        if sample.role == "pair" and sample.ok and sample.index not in aside:
            arms.setdefault(sample.pair, {})[sample.arm] = sample
    whole = {number: parts for number, parts in sorted(arms.items()) if len(parts) == 2}
    if not whole:
        return None
    reference, candidate = declared.sides.names
    return ResidentGroups(
        groups=tuple(
            _figure(number, parts[reference], parts[candidate]) for number, parts in whole.items()
        ),
        spent=_mean([_spent(parts.values()) for parts in whole.values()]),
        reference=_component(series, reference, whole),
        candidate=_component(series, candidate, whole),
        lengths=tuple(
            LengthRatio(
                steps=steps, ratio=_ratio(list(whole.values()), declared.sides.names, steps)
            )
            for steps in _lengths(declared.groups.turn_steps)
        ),
    )


def _figure(number: int, reference: Sample, candidate: Sample) -> GroupFigure:
    ours, theirs = (_by_round(sample.residents) for sample in (reference, candidate))
    rounds = sorted(
        candidate - reference for reference, candidate in zip(ours, theirs, strict=True)
    )
    cut = int(_TRIMMED * len(rounds))
    cpu = [sum(turn.cpu_s for turn in _turns(sample)) for sample in (reference, candidate)]
    return GroupFigure(
        number=number,
        candidate_first=reference.order == "cn",
        log_ratio=math.log(candidate.wall_s / reference.wall_s),
        trimmed=statistics.fmean(rounds[cut : len(rounds) - cut]),
        cpu=math.log(cpu[1] / cpu[0]) if min(cpu) > 0 else math.nan,
        reference=tuple(map(_log_step, reference.residents)),
        candidate=tuple(map(_log_step, candidate.residents)),
    )


def _spent(parts: Iterable[Sample]) -> GroupSeconds:
    samples = list(parts)
    residents = [resident for sample in samples for resident in sample.residents]
    turns = [turn for sample in samples for turn in _turns(sample)]
    begun = min(resident.started_s for resident in residents)
    ready = max(resident.started_s + resident.ready_s for resident in residents)
    first = min(turn.start_s for turn in turns)
    over = max(turn.start_s + turn.first_s + turn.wall_s for turn in turns)
    at_work = sum(turn.first_s + turn.wall_s for turn in turns)
    return GroupSeconds(
        start_s=ready - begun,
        first_s=first - ready,
        turns_s=at_work,
        between_s=over - first - at_work,
        end_s=(samples[0].figure("elapsed_s") or 0.0) - (over - begun),
    )


def _mean(groups: Sequence[GroupSeconds]) -> GroupSeconds:
    means = {
        part.name: statistics.fmean(getattr(group, part.name) for group in groups)
        for part in fields(GroupSeconds)
    }
    return GroupSeconds(**means)


def _turns(sample: Sample) -> list[Turn]:
    return [turn for resident in sample.residents for turn in resident.turns]


def _by_round(residents: Sequence[ResidentProcess]) -> list[float]:
    """Return the mean over processes of a turn's log time, round by round."""
    turns = zip(*(resident.turns for resident in residents), strict=True)
    return [
        statistics.fmean(math.log(turn.wall_s) for turn in turns_of_round)
        for turns_of_round in turns
    ]


def _log_step(resident: ResidentProcess) -> float:
    return math.log(resident.wall_s / sum(len(turn.steps_s) for turn in resident.turns))


def _component(
    series: Series, arm: ArmName, groups: Mapping[int, Mapping[ArmName, Sample]]
) -> GroupScatter:
    parts = [group[arm].residents for group in groups.values()]
    steps = [math.exp(_log_step(resident)) for residents in parts for resident in residents]
    rows = [
        [[math.log(turn.wall_s) for turn in resident.turns] for resident in residents]
        for residents in parts
    ]
    turns = _pooled(_residuals(group) for group in rows)
    means = [[statistics.fmean(turns) for turns in group] for group in rows]
    turn_variance = statistics.fmean(statistics.variance(group) for group in means)
    # What the scatter of turns alone would make of a process's mean is none of the process's.
    between = math.sqrt(max(0.0, turn_variance - turns**2 / len(rows[0][0])))
    far = max(abs(mean - statistics.fmean(group)) for group in means for mean in group)
    return GroupScatter(
        arm=arm,
        processes=len(steps),
        step_s=statistics.fmean(steps),
        between=between,
        turns=turns,
        farthest=far,
        lost=sum(group.arm == arm for group in series.lost),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Residuals:
    squares: float
    df: int


def _residuals(rows: Sequence[Sequence[float]]) -> _Residuals:
    """Return what is left of turns without the effects of their process and of their round."""
    processes, rounds = len(rows), len(rows[0])
    mean = statistics.fmean(value for row in rows for value in row)
    row_means = [statistics.fmean(row) for row in rows]
    common = [statistics.fmean(column) for column in zip(*rows, strict=True)]
    squares = sum(
        (rows[i][j] - row_means[i] - common[j] + mean) ** 2
        for i in range(processes)
        for j in range(rounds)
    )
    return _Residuals(squares=squares, df=(processes - 1) * (rounds - 1))


def _pooled(residuals: Iterable[_Residuals]) -> float:
    parts = list(residuals)
    df = sum(part.df for part in parts)
    return math.sqrt(sum(part.squares for part in parts) / df) if df else 0.0


def _lengths(longest: int) -> list[int]:
    """Return one step, a quarter, a half of a turn, and all of it."""
    return sorted({1, max(1, longest // 4), max(1, longest // 2), longest})


def _ratio(
    groups: Sequence[Mapping[ArmName, Sample]], arms: Sequence[ArmName], steps: int
) -> float:
    logs = []
    for parts in groups:
        ours, theirs = (
            sum(sum(turn.steps_s[:steps]) for turn in _turns(parts[arm])) for arm in arms
        )
        logs.append(math.log(theirs / ours))
    return math.exp(statistics.fmean(logs))
