"""From the clocks of a job's ranks to its phases in seconds. Pure, but for reading their files.

The clock of the job's first node is the one that counts. Ranks of the same boot share its monotonic
clock. Of another node only this is certain: its ranks began after the job did, and ended before it
did. So its clock is right within an interval, which is narrow where little time passes before the
first rank begins and after the last one ends. A clock outside of it is moved to the nearest end.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from dlcontainer.bench.job.job_records import JobPhases, RankTimes
from dlcontainer.errors import BenchDataError
from dlcontainer.system import foreign_files

BEGAN, ENDED = "began.json", "ended.json"
_MOST_BYTES = 65_536
# What a real-time clock may be slewed by, as a share, and the steps that are no steps, s.
_SLEW, _STEP_S = 0.0005, 0.05


class ClockStamp(BaseModel):
    """A node's clocks at one moment; `code` is the job's exit code where it has ended."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    at: float
    mono: float
    boot: str
    node: str
    code: int = 0


class RankStamps(ClockStamp):
    """A rank's clock when it began, and its moments in seconds since."""

    rank: int
    ranks: str
    process_s: float | None
    first_s: float | None
    last_s: float | None
    ended_s: float
    matches: int
    # What it could use, and what the job asked for it, where anything told.
    cpus: int | None = None
    cpus_asked: int | None = None
    clock_set_s: float
    lines: tuple[str, ...]


S = TypeVar("S", bound=ClockStamp)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobStamps:
    """All that the clocks of one job have written; None for what is missing."""

    began: ClockStamp | None
    ended: ClockStamp | None
    ranks: tuple[RankStamps, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class JobTimes:
    """A job's phases and its ranks."""

    times: JobPhases
    ranks: tuple[RankTimes, ...]


def read(folder: Path) -> JobStamps:
    """Read what a job's clocks have written into a folder; a file that is cut is not there."""
    ranks = (_read(path, RankStamps) for path in sorted(folder.glob("rank-*.json")))
    return JobStamps(
        began=_read(folder / BEGAN, ClockStamp),
        ended=_read(folder / ENDED, ClockStamp),
        ranks=tuple(
            sorted(
                (rank_stamps for rank_stamps in ranks if rank_stamps),
                key=lambda rank_stamps: rank_stamps.rank,
            )
        ),
    )


def _read(path: Path, kind: type[S]) -> S | None:
    try:
        return kind.model_validate(foreign_files.loads(foreign_files.read(path, _MOST_BYTES)))
    except (OSError, ValueError, ValidationError):
        return None


def timed(stamps: JobStamps, submitted: float, first_step: str | None) -> JobTimes:
    """Return the phases of a job that ended well; raises BenchDataError where it did not."""
    began, ended = stamps.began, stamps.ended
    if began is None:
        raise BenchDataError("the job never began", why="its first line left no stamp")
    _require_all(stamps.ranks)
    failed = next((rank for rank in stamps.ranks if rank.code), None)
    if failed is not None:
        raise BenchDataError(
            f"rank {failed.rank} ended with exit code {failed.code}", why=_last(failed)
        )
    if ended is None or ended.code:
        code = "no stamp of its end" if ended is None else f"exit code {ended.code}"
        raise BenchDataError(f"the job's script failed: {code}")
    _require_steps(stamps.ranks, first_step)
    clocks = _Clocks.of(began, ended, stamps.ranks)
    ranks = tuple(_placed(rank, clocks) for rank in stamps.ranks)
    total = ended.mono - began.mono
    reached = max(rank.clock_s for rank in ranks)
    processes = max(rank.process_s or rank.clock_s for rank in ranks)
    start = min(total, max(rank.first_s or rank.process_s or rank.clock_s for rank in ranks))
    leaving = min(total, max(start, min(rank.ended_s for rank in ranks)))
    times = JobPhases(
        queue_s=max(0.0, began.at - submitted),
        launcher_s=min(start, max(0.0, reached)),
        process_s=min(start, max(0.0, processes)),
        start_s=start,
        steady_s=leaving - start,
        teardown_s=total - leaving,
        total_s=total,
        step_s=_step(ranks),
        clock_bound_s=clocks.bound,
        clock_moved_s=clocks.moved,
    )
    return JobTimes(times=times, ranks=ranks)


def _require_all(ranks: Sequence[RankStamps]) -> None:
    if not ranks:
        raise BenchDataError(
            "no rank ended",
            why="none left a stamp: the launcher failed, or the ranks were killed",
        )
    counts = {int(rank.ranks) for rank in ranks if rank.ranks.isdigit()}
    expected = max(counts, default=len(ranks))
    # One clock a node where a starter numbers the ranks itself.
    numbers = {rank.rank for rank in ranks}
    missing = [str(number) for number in range(expected) if number not in numbers]
    if missing:
        few = ", ".join(missing[:8]) + (" …" if missing[8:] else "")
        raise BenchDataError(f"no stamp of rank {few}", why="they were killed, or never began")
    for rank in ranks:
        if abs(rank.clock_set_s) > _STEP_S + _SLEW * rank.ended_s:
            raise BenchDataError(
                f"the clock of {rank.node} was set by {rank.clock_set_s:+.2f} s during the job"
            )
        if rank.cpus is not None and rank.cpus < (rank.cpus_asked or 0):
            raise BenchDataError(
                f"rank {rank.rank} on {rank.node} could use {rank.cpus} of the {rank.cpus_asked} "
                "CPUs "
                "that the job asked for each",
                why="the launcher did not hand them on: both sides would be measured on these",
            )
        if rank.process_s is None and not rank.code:
            raise BenchDataError(
                f"rank {rank.rank} never began its command",
                why=f"the image or its /bin/sh did not start: {_last(rank)}",
            )


def _require_steps(ranks: Sequence[RankStamps], first_step: str | None) -> None:
    if first_step is None or any(rank.matches for rank in ranks):
        return
    raise BenchDataError(
        f"no line of any rank matches --first-step {first_step!r}",
        why=f"the last lines of rank {ranks[0].rank}: {_last(ranks[0])}",
        next_step="give a pattern of a line that each step prints (Python's re, searched in the "
        "line), or leave --first-step out",
    )


def _last(rank: RankStamps) -> str:
    return " | ".join(rank.lines[-4:]) or "it printed nothing"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Clocks:
    """How the clocks of other nodes are moved, by boot, and within what they are right."""

    began: ClockStamp
    moves: Mapping[str, float]
    bound: float
    moved: float

    @classmethod
    def of(cls, began: ClockStamp, ended: ClockStamp, ranks: Iterable[RankStamps]) -> "_Clocks":
        moves, bound = {}, 0.0
        by_boot: dict[str, list[RankStamps]] = {}
        for rank in ranks:
            if not began.boot or rank.boot != began.boot:
                by_boot.setdefault(rank.boot or rank.node, []).append(rank)
        end = began.at + ended.mono - began.mono
        for boot, of_boot in by_boot.items():
            # How far its clock may be ahead of the first node's.
            most = min(rank.at for rank in of_boot) - began.at
            least = max(rank.at + rank.ended_s for rank in of_boot) - end
            move = min(max(0.0, least), most) if least <= most else (least + most) / 2
            moves[boot] = -move
            bound = max(bound, abs(most - move), abs(move - least))
        moved = max(map(abs, moves.values()), default=0.0)
        return cls(began=began, moves=moves, bound=bound, moved=moved)

    def place(self, rank: RankStamps) -> float:
        """Return when a rank's clock began, in seconds of the job."""
        move = self.moves.get(rank.boot or rank.node)
        if move is None:
            return rank.mono - self.began.mono
        return rank.at - self.began.at + move


def _placed(rank: RankStamps, clocks: _Clocks) -> RankTimes:
    begin = clocks.place(rank)

    def moment(since: float | None) -> float | None:
        return None if since is None else begin + since

    return RankTimes(
        rank=rank.rank,
        node=rank.node,
        clock_s=begin,
        process_s=moment(rank.process_s),
        first_s=moment(rank.first_s),
        last_s=moment(rank.last_s),
        matches=rank.matches,
        cpus=rank.cpus,
        ended_s=begin + rank.ended_s,
        code=rank.code,
    )


def _step(ranks: Sequence[RankTimes]) -> float | None:
    """Return the seconds of a step, in the median over the ranks that show several."""
    lengths = [
        (rank.last_s - rank.first_s) / (rank.matches - 1)
        for rank in ranks
        if rank.first_s is not None and rank.last_s is not None and rank.matches > 1
    ]
    return median(lengths) if lengths else None


def tail(log: Path, count: int = 12) -> tuple[str, ...]:
    """Return the last lines of a job's log."""
    try:
        text = foreign_files.read(log, 4_000_000).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ()
    return tuple(line[:300] for line in text.splitlines()[-count:])
