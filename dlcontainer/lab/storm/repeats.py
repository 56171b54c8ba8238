"""Times of repeated imports: when they are settled, and when a machine is too busy. Pure.

What others do beside an import only ever adds to its times, so the least ones count. They count
once several agree: one quick run may be luck, several are the import.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dlcontainer.errors import BenchDataError

# So many of the least times agree within a share of the least, or within what is nothing beside the
# seconds of a storm.
AGREEING = 3
WITHIN = 0.10
_GRAIN_S = 0.05
MOST_RUNS = 12
# A rank that has waited for so many times its own work was hardly ever alone on a core: caches and
# clocks that others share with it are then part of its processor time too.
MOST_WAITED = 8.0
_LEAST_WAITED_S = 3.0
# How many reads are waited for comes of times on the wall: with prompt answers, and with late ones.
MOST_PAIRS = 3
WAITS_WITHIN = 0.10
# Some 25 reads.
_WAITS_GRAIN_S = 0.25

QUIETER = (
    "measure in a job, on a node of your own, and keep it: --keep FILE.json; then predict anywhere "
    "with --loads FILE.json"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class WarmImport:
    """One warm import: seconds of the processor, and on the wall."""

    processor_s: float
    wall_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuringNode:
    """The measuring node: cores that may be used, and the load of the minute before it began."""

    cores: int
    load_1min: float

    @property
    def is_shared(self) -> bool:
        """Return whether others were at work."""
        return self.load_1min > self.cores

    def __str__(self) -> str:
        return f"load {self.load_1min:.1f} on {self.cores} cores"


def settled(run: Callable[[], WarmImport], node: MeasuringNode) -> tuple[WarmImport, ...]:
    """Repeat a warm import until its least processor times agree; return all runs.

    Raises BenchDataError on a machine that is too busy for it.
    """
    runs: list[WarmImport] = []
    while len(runs) < MOST_RUNS:
        runs.append(run())
        if _agree(runs) and not _starved(runs):
            return tuple(runs)
    raise _too_busy(runs, node)


def processor_s(runs: Sequence[WarmImport]) -> float:
    """Return the processor time of an import: the mean of the least ones, which agree."""
    return math.fsum(_least(runs)) / AGREEING


def _least(runs: Sequence[WarmImport]) -> list[float]:
    return sorted(run.processor_s for run in runs)[:AGREEING]


def _agree(runs: Sequence[WarmImport]) -> bool:
    """Return whether there are enough of the least processor times, close to each other."""
    least = _least(runs)
    if len(least) < AGREEING:
        return False
    return least[-1] - least[0] <= max(WITHIN * least[0], _GRAIN_S)


def _starved(runs: Sequence[WarmImport]) -> bool:
    """Return whether even the quickest run waited much longer for a core than it computed."""
    quickest = min(runs, key=lambda run: run.wall_s)
    waited = quickest.wall_s - quickest.processor_s
    return waited > max(MOST_WAITED * quickest.processor_s, _LEAST_WAITED_S)


def _too_busy(runs: Sequence[WarmImport], node: MeasuringNode) -> BenchDataError:
    least, quickest = _least(runs), min(run.wall_s for run in runs)
    if not _agree(runs):
        why = (
            f"the least processor times of {len(runs)} warm imports are {least[0]:.2f} to "
            f"{least[-1]:.2f} s: they don't settle"
        )
    else:
        why = (
            f"the quickest of {len(runs)} warm imports took {quickest:.2f} s for {least[0]:.2f} s "
            "of processor time: it waited for a core"
        )
    return BenchDataError(
        f"this machine is too busy to measure an import: {node}", why=why, next_step=QUIETER
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ColdImport:
    """One cold import: seconds on the wall, and its reads, those under way together as one."""

    wall_s: float
    read_turns: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadWaits:
    """How many reads were waited for, and from which seconds: prompt answers, and late ones.

    `is_bound`: the times did not settle, and these are all that can have been waited for.
    """

    reads: float
    is_bound: bool
    prompt_s: tuple[float, ...]
    late_s: tuple[float, ...]


def waits(cold: Callable[[float], ColdImport], late_s: float) -> ReadWaits:
    """Return how many reads an import waits for: what a late answer to each costs, in units of it.

    `cold` imports once, with reads that are answered so late. Never more than those that were not
    under way together with another: on a machine whose times don't settle it is these.
    """
    prompt: list[float] = []
    late: list[float] = []
    most, settles = math.inf, False
    while len(late) < MOST_PAIRS and not settles:
        prompt.append(cold(0.0).wall_s)
        delayed = cold(late_s)
        late.append(delayed.wall_s)
        most = min(most, delayed.read_turns)
        # The least two of each: so far apart may the result be.
        apart = math.fsum(_apart(times) for times in (prompt, late))
        settles = apart <= max(WAITS_WITHIN * min(late), _WAITS_GRAIN_S)
    waited = max((min(late) - min(prompt)) / late_s, 0.0)
    return ReadWaits(
        reads=min(waited, most) if settles else most,
        is_bound=not settles or waited > most,
        prompt_s=tuple(prompt),
        late_s=tuple(late),
    )


def _apart(times: Sequence[float]) -> float:
    if len(times) < 2:
        return math.inf
    least, second = sorted(times)[:2]
    return second - least
