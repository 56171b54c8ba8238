"""From what was asked for to a study's points and further measurements. Pure.

Below the last number of ranks a point has few pairs and no controls: there it gives a step's time.
At the last number it has all looks, and controls as any session has: there the arms are judged.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dlcontainer.bench.samples import parallel_strategy
from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.samples.schedule import DEFAULT_LOOKS, FEWEST
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.study.study_records import (
    Extra,
    ExtraPlan,
    PointPlan,
    Scaling,
)
from dlcontainer.errors import UsageError

# At so many numbers of ranks above one something else is measured besides.
EXTRA_POINTS = 2
EXTRAS: tuple[Extra, ...] = ("collectives", "idle_neighbours")
USUAL_STRATEGIES = ("dp",)
_MOST_RANKS = 10_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyRequest:
    """What was asked for: numbers of ranks, strategies as typed, the batch, the looks at the end.

    `batch` is that of one data-parallel group, in strong scaling that of all ranks together; 0
    where a user's own build() sets it.
    """

    ranks: tuple[int, ...]
    ranks_per_node: int
    batch: int
    strategies: tuple[str, ...] = USUAL_STRATEGIES
    scaling: Scaling = "weak"
    looks: tuple[int, ...] = DEFAULT_LOOKS
    extras: tuple[Extra, ...] = EXTRAS


@dataclass(frozen=True, kw_only=True, slots=True)
class OmittedPoint:
    """A strategy that does not fit a number of ranks, and why."""

    ranks: int
    strategy: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedPoints:
    """What a study measures, in its order, and what it leaves out."""

    points: tuple[PointPlan, ...]
    extras: tuple[ExtraPlan, ...]
    omitted: tuple[OmittedPoint, ...]


def ranks(text: str) -> tuple[int, ...]:
    """Read the numbers of ranks, `1,2,4`; raises UsageError."""
    words = [word.strip() for word in text.split(",")]
    numbers = [int(word) for word in words if word.isdecimal() and len(word) < 9]
    if len(numbers) < len(words) or not all(0 < number <= _MOST_RANKS for number in numbers):
        raise UsageError(
            f"--ranks {text}: must be numbers of ranks, 1 or more, with commas between them",
            next_step="give, for example, --ranks 1,2,4,8",
        )
    if sorted(set(numbers)) != numbers:
        raise UsageError(
            f"--ranks {text}: each number must be greater than the one before",
            next_step=f"give --ranks {','.join(map(str, sorted(set(numbers))))}",
        )
    return tuple(numbers)


def strategies(text: str | None) -> tuple[str, ...]:
    """Read the strategies, `dp,fsdp,tp2`: each once, in their order; `points` says what is none."""
    if text is None:
        return USUAL_STRATEGIES
    return tuple(dict.fromkeys(word.strip() for word in text.split(",")))


def points(request: StudyRequest) -> PlannedPoints:
    """Settle the points; raises UsageError for a strategy that fits no number of ranks.

    A strategy that does not divide some number of ranks is left out there, by name. One rank is
    one point, whatever the strategy.
    """
    fitting, omitted = _fitting(request)
    last = request.ranks[-1]
    planned = tuple(
        PointPlan(
            ranks=strategy.ranks,
            nodes=nodes(strategy.ranks, request.ranks_per_node),
            strategy=strategy,
            global_batch=_global_batch(strategy, request),
            looks=request.looks if strategy.ranks == last else few(request.looks),
            file=f"{strategy.ranks}-{strategy.name}.jsonl",
        )
        for strategy in fitting
    )
    return PlannedPoints(
        points=planned, extras=tuple(_extras(planned, request)), omitted=tuple(omitted)
    )


def nodes(count: int, ranks_per_node: int) -> int:
    """Return the nodes of so many ranks."""
    return -(-count // ranks_per_node)


def few(looks: Sequence[int]) -> tuple[int, ...]:
    """Return the one look of a point below the last: the pairs that a verdict takes, or fewer."""
    return (min(FEWEST, looks[-1]),)


def _fitting(request: StudyRequest) -> tuple[list[ParallelStrategy], list[OmittedPoint]]:
    fitting: dict[ParallelStrategy, None] = {}
    omitted: list[OmittedPoint] = []
    refused: dict[str, UsageError] = {}
    fits: set[str] = set()
    for count in request.ranks:
        if count == 1:
            fitting[ParallelStrategy()] = None
        # Of one rank there is one point, and yet a word that is no strategy is refused.
        if count == 1 < request.ranks[-1]:
            continue
        for text in request.strategies:
            try:
                strategy = parallel_strategy.parse(text, count)
            except UsageError as error:
                refused[text] = error
                omitted.append(OmittedPoint(ranks=count, strategy=text, why=error.what))
                continue
            fits.add(text)
            fitting[strategy] = None
    for text, refusal in refused.items():
        if text not in fits:
            raise refusal
    return list(fitting), omitted


def _global_batch(strategy: ParallelStrategy, request: StudyRequest) -> int:
    batch, groups = request.batch, strategy.batches
    if request.scaling == "weak":
        return batch * groups
    if not batch:
        raise UsageError(
            "--scaling strong needs the samples of a step of all ranks together",
            next_step="set them with --batch N",
        )
    if batch % groups:
        raise UsageError(
            f"--batch {batch}: {counted(batch, 'sample')} can't be divided among the {groups} "
            f"data-parallel groups of {strategy.name} on {counted(strategy.ranks, 'rank')}",
            next_step=f"give a multiple of {groups}, or leave {strategy.ranks} out of --ranks",
        )
    return batch


def _extras(planned: Sequence[PointPlan], request: StudyRequest) -> Iterator[ExtraPlan]:
    several = {point.ranks: point.nodes for point in planned if point.ranks > 1}
    for count, on in list(several.items())[:EXTRA_POINTS]:
        for kind in request.extras:
            name = kind.replace("_", "-")
            yield ExtraPlan(kind=kind, ranks=count, nodes=on, file=f"{count}-{name}.jsonl")


def by_batch(point: PointPlan) -> int:
    """Return the batch of one data-parallel group; 0 where a user's own build() sets it."""
    return point.global_batch // point.strategy.batches


def options_of(typed: Mapping[str, object]) -> dict[str, str | int | float | bool]:
    """Return what was typed of other options, for the declaration: nothing of what was not."""
    return {
        name: value
        for name, value in typed.items()
        if isinstance(value, str | int | float | bool) and value is not False
    }
