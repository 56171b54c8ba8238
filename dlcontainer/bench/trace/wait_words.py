"""Times, waits and critical paths as all tables of a trace say them. Pure."""

from collections.abc import Callable, Mapping, Sequence

from dlcontainer.bench.trace.trace_records import PathPart, ProgramPath, SlowestStep

# A path of more parts is said by its longest, where these are at least such a share of it.
_MOST_PARTS, _LEAST_SHOWN = 9, 0.5


def ms(seconds: float, *, sign: bool = False) -> str:
    """Say seconds in milliseconds."""
    milliseconds = 1000 * seconds
    return f"{milliseconds:{'+' if sign else ''}.{3 if abs(milliseconds) < 10 else 1}f}"


def whom(waiting_for: Mapping[int, float], steps: int = 1) -> str:
    """Say which ranks were waited for longest, and how long a step."""
    by_time = sorted(waiting_for.items(), key=lambda pair: -pair[1])[:3]
    return ", ".join(f"rank {rank} {ms(seconds / steps)}" for rank, seconds in by_time) or "-"


def step_path(slowest: SlowestStep, *, is_computing_known: bool = True) -> str:
    """Say the critical path of the slowest step."""
    words = _parts(slowest.path, _in_step if is_computing_known else _in_collectives)
    return f"step {slowest.step}, {ms(slowest.seconds)} ms: {words}"


def program_path(program: str, path: ProgramPath) -> str:
    """Say the critical path of a program of MPI; one of many short parts by their sums."""
    longest = sorted((part.seconds for part in path.parts), reverse=True)[:_MOST_PARTS]
    if sum(longest) >= _LEAST_SHOWN * path.seconds:
        words = _parts(path.parts, _in_program, path.left_out, path.left_out_s)
    else:
        shown = [_part(part, _in_program) for part in path.sums[:_MOST_PARTS]]
        more = ", …" * (len(path.sums) > _MOST_PARTS)
        words = f"{len(path.parts) + path.left_out:,} parts, in all {', '.join(shown)}{more}"
    return f"{program}, {ms(path.seconds)} ms: {words}"


def _parts(
    of: Sequence[PathPart],
    rank_words: Callable[[PathPart], str],
    left_out: int = 0,
    left_out_s: float = 0.0,
) -> str:
    """Say the longest parts in their order, and how long all others are."""
    parts = [part for part in of if part.seconds > 0]
    longest = sorted(range(len(parts)), key=lambda number: -parts[number].seconds)
    shown = sorted(longest[:_MOST_PARTS])
    words = " -> ".join(_part(parts[number], rank_words) for number in shown)
    more = len(parts) - len(shown) + left_out
    rest = sum(parts[number].seconds for number in longest[_MOST_PARTS:]) + left_out_s
    return f"{words} (and {more:,} shorter parts, {ms(rest)} ms)" if more else words


def _part(part: PathPart, rank_words: Callable[[PathPart], str]) -> str:
    if part.rank is None:
        return f"{part.collective} {ms(part.seconds)} ms"
    return f"rank {part.rank} {ms(part.seconds)} ms ({rank_words(part)})"


def _in_step(part: PathPart) -> str:
    rest = max(0.0, part.seconds - part.computing_s - part.other_s)
    return f"computing {ms(part.computing_s)}, communication {ms(rest)}, other {ms(part.other_s)}"


def _in_collectives(part: PathPart) -> str:
    within = max(0.0, part.seconds - part.other_s)
    return f"outside of collectives {ms(part.other_s)}, in them {ms(within)}"


def _in_program(part: PathPart) -> str:
    within = max(0.0, part.seconds - part.computing_s - part.other_s)
    return f"outside of MPI {ms(part.computing_s + part.other_s)}, in MPI {ms(within)}"
