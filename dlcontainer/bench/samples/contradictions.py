"""Files that contradict themselves are refused, though all their hashes fit. Pure.

A hash chain shows that a file is as it was written, not that it was measured. What no session can
be is refused here: an order that the declared seed does not draw, a time that its own phases or the
supervisor's clock deny, launches that began before those before them had ended, two pairs that are
the same to the last digit. The processes of a resident group are alive at once; the reader holds
their turns against each other (resident/agreement.py), here groups are held against groups.
"""

from collections.abc import Iterator
from datetime import datetime

from dlcontainer.bench.samples import continuation
from dlcontainer.bench.samples.launch_order import LaunchCounts, plan_stages
from dlcontainer.bench.samples.records import Sample
from dlcontainer.bench.samples.series import Series
from dlcontainer.errors import BenchDataError

# Stamps count nanoseconds; a sum of their differences as floats errs by far less.
_CLOSE_S = 1e-6
# The supervisor's clock is another one; it starts before the launch and stops after it.
_BETWEEN_CLOCKS_S = 0.05
# `started` is in whole seconds.
_STAMP_S = 1.0


def refuse(series: Series, ends_at: str) -> None:
    """Raise BenchDataError for the first contradiction, with its line.

    `ends_at` names the phase with which the wall time of a launch ends, empty where the probe
    times itself.
    """
    _refuse_order(series)
    before: Sample | None = None
    spans: dict[tuple[float, float], int] = {}
    is_grouped = series.session.declared.groups is not None
    for sample in series.samples:
        wrong = list(_of_launch(sample, ends_at))
        if before and is_grouped and _are_together(before, sample):
            wrong += [*_of_group(before, sample), *_of_pair(before, sample, spans)]
        elif before:
            length = _elapsed(before) if is_grouped else before.wall_s
            wrong += [*_in_time(before, sample, length), *_of_pair(before, sample, spans)]
        for what, why in wrong:
            raise BenchDataError(
                f"the file contradicts itself: {what}",
                where=f"{series.path}:{sample.line}",
                why=why,
                next_step="give the original file, or measure again",
            )
        before = sample


def _refuse_order(series: Series) -> None:
    declared = series.session.declared
    counts = LaunchCounts(
        joiners=declared.joiner_pairs,
        controls=declared.control_pairs,
        candidate_controls=declared.candidate_control_pairs,
        triples=declared.is_triple,
    )
    stages = plan_stages(looks=series.looks, counts=counts, seed=declared.seed)
    continuation.groups_done(series, [group for stage in stages for group in stage])


def _of_launch(sample: Sample, ends_at: str) -> Iterator[tuple[str, str]]:
    if not sample.ok or sample.ranks:
        return
    if ends_at and [*sample.phases][-1:] == [ends_at]:
        whole = sum(sample.phases.values())
        if abs(whole - sample.wall_s) > _CLOSE_S:
            yield f"a wall time of {sample.wall_s:.6f} s", f"its phases take {whole:.6f} s"
    elapsed = _elapsed(sample)
    if sample.wall_s > elapsed + _BETWEEN_CLOCKS_S:
        yield f"a wall time of {sample.wall_s:.3f} s", f"the supervisor saw {elapsed:.3f} s"


def _are_together(before: Sample, sample: Sample) -> bool:
    """Whether two parts are of one group: both arms of it are measured in the same run."""
    first, second = ((part.role, part.pair, part.started) for part in (before, sample))
    return first == second and before.arm != sample.arm


def _of_group(before: Sample, sample: Sample) -> Iterator[tuple[str, str]]:
    turns, elapsed = before.wall_s + sample.wall_s, _elapsed(sample)
    if turns > elapsed + _BETWEEN_CLOCKS_S:
        yield f"turns of {turns:.3f} s", f"the supervisor saw {elapsed:.3f} s of the whole group"


def _in_time(before: Sample, sample: Sample, length_s: float) -> Iterator[tuple[str, str]]:
    gap = _gap(before, sample)
    # A clock that was set back is noted elsewhere: only time that did not pass is denied.
    if gap is not None and 0 <= gap < length_s - _STAMP_S:
        yield (
            f"launch {sample.index} began {gap:g} s after launch {before.index}",
            f"that one took {length_s:.3f} s, and launches run one after the other",
        )


def _of_pair(
    before: Sample, sample: Sample, spans: dict[tuple[float, float], int]
) -> Iterator[tuple[str, str]]:
    if sample.position == 1 and sample.ok and before.ok:
        times = (before.wall_s, sample.wall_s)
        if times in spans:
            yield (
                f"both times are those of the pair that ends in line {spans[times]}",
                "stamps count nanoseconds",
            )
        spans[times] = sample.line


def _elapsed(sample: Sample) -> float:
    elapsed = sample.values.get("elapsed_s")
    return elapsed if isinstance(elapsed, float) else sample.wall_s


def _gap(before: Sample, after: Sample) -> float | None:
    try:
        first, second = (datetime.fromisoformat(part.started) for part in (before, after))
        return (second - first).total_seconds()
    except (ValueError, TypeError):
        return None
