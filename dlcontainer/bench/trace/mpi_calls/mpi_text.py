"""What programs did in MPI in words and rows, for a terminal and for a page. Pure."""

from collections.abc import Iterator, Sequence

from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.trace.trace_records import MpiCallRow, MpiRankRow, MpiWorld
from dlcontainer.bench.trace.wait_words import ms, whom

RANKS_HEAD = (
    "rank", "node", "total, ms", "outside of MPI, ms", "waiting, ms", "for whom", "transfer, ms",
    "calls",
)  # fmt: skip
CALLS_HEAD = ("call", "bytes of a rank", "calls", "in it, ms", "of it waiting, ms")
# Of more kinds and sizes, and of more ranks, a terminal shows those that took longest.
MOST_CALLS, MOST_RANKS = 25, 64
_ENDS = {
    "exit": "ended without MPI_Finalize",
    "abort": "called MPI_Abort",
    "cut": "was killed, or its disk was full: its last calls are missing",
}


def headline(world: MpiWorld) -> str:
    """Say which program this is, on how many ranks."""
    ranks = counted(len(world.ranks), "rank")
    if world.missing:
        ranks = f"{len(world.ranks)} of {counted(world.size, 'rank')}"
    return f"MPI, {ranks} of {world.program}"


def longest_wait(world: MpiWorld) -> str:
    """Say which rank waited longest, and for which one."""
    waits = [
        (seconds, row, rank) for row in world.ranks for rank, seconds in row.waiting_for.items()
    ]
    if not waits:
        return f"no rank of {world.program} is known to wait for another"
    seconds, row, rank = max(waits, key=lambda wait: wait[0])
    return (
        f"rank {row.rank} of {world.program} waits for rank {rank}, {ms(seconds)} of "
        f"{ms(row.total_s)} ms"
    )


def notes(world: MpiWorld) -> Iterator[str]:
    """Yield what a reader must know of a world: what is missing, left out, or not told."""
    if world.reason:
        yield f"who waits for whom is not told: {world.reason}"
    if world.missing:
        shown = ", ".join(map(str, world.missing[:8])) + ", …" * (len(world.missing) > 8)
        yield f"no calls of rank {shown}: killed before, or its calls pass no shared library"
    for row in world.ranks:
        if row.ended in _ENDS:
            yield f"rank {row.rank} {_ENDS[row.ended]}"
    if any(row.left_out for row in world.ranks):
        most = max(row.left_out for row in world.ranks)
        yield f"up to {most:,} calls of a rank are in sums alone, beyond those with an event"
    if world.apart and not world.reason:
        yield f"{counted(world.apart, 'call')} without a counterpart at other ranks"


def rank_rows(rows: Sequence[MpiRankRow]) -> list[tuple[str, ...]]:
    """Return a row for each rank, of many for those that wait longest: its parts are its total."""
    longest = sorted(rows, key=lambda row: (-sum(row.waiting_for.values()), row.rank))
    return [
        (
            str(row.rank),
            row.node,
            ms(row.total_s),
            ms(row.computing_s),
            ms(sum(row.waiting_for.values())),
            whom(row.waiting_for),
            ms(row.transfer_s),
            f"{row.calls:,}",
        )
        for row in sorted(longest[:MOST_RANKS], key=lambda row: row.rank)
    ]


def call_rows(rows: Sequence[MpiCallRow]) -> list[tuple[str, ...]]:
    """Return a row for each call and size, over all ranks."""
    return [
        (
            row.kind,
            "-" if row.bytes is None else f"{row.bytes:,}",
            f"{row.calls:,}",
            ms(row.seconds),
            "not told" if row.waiting_s is None else ms(row.waiting_s),
        )
        for row in rows[:MOST_CALLS]
    ]
