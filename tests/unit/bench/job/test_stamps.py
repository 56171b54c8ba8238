"""From ranks' clocks to phases: sums, several nodes, and jobs that did not end well."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.job import stamps
from dlcontainer.bench.job.stamps import JobTimes
from dlcontainer.errors import BenchDataError
from tests.jobsessions import NOW, leave, rank


def timed(
    folder: Path, ranks: list[dict[str, Any]], first: str | None = "step", **job: Any
) -> JobTimes:
    leave(folder, ranks, **job)
    return stamps.timed(stamps.read(folder), NOW - 5, first)


def test_phases_add_up(tmp_path: Path) -> None:
    times = timed(tmp_path, [rank(0, 0.2), rank(1, 0.4, ended_s=2.2)]).times
    assert times.queue_s == pytest.approx(5)
    assert times.launcher_s == pytest.approx(0.4)
    assert times.process_s == pytest.approx(0.5)
    # The last rank's first step; the first rank's exit; the job's end.
    assert times.start_s == pytest.approx(0.9)
    assert times.steady_s == pytest.approx(2.2 - 0.9)
    assert times.teardown_s == pytest.approx(3.0 - 2.2)
    assert times.start_s + times.steady_s + times.teardown_s == pytest.approx(times.total_s)
    assert times.step_s == pytest.approx(0.5)
    assert (times.clock_bound_s, times.clock_moved_s) == (0, 0)


def test_without_a_pattern_the_start_ends_where_processes_begin(tmp_path: Path) -> None:
    ranks = [rank(n, 0.2, first_s=None, last_s=None, matches=0) for n in range(2)]
    times = timed(tmp_path, ranks, None).times
    assert times.start_s == times.process_s == pytest.approx(0.3)
    assert times.step_s is None


def test_a_rank_that_prints_nothing_counts_by_its_process(tmp_path: Path) -> None:
    silent = rank(1, 0.9, first_s=None, last_s=None, matches=0)
    assert timed(tmp_path, [rank(0, 0.2), silent]).times.start_s == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("ahead", "moved"),
    [(0.0, 0.0), (0.3, 0.0), (1.5, 0.9), (-3.0, 2.6)],
    ids=["right", "within", "ahead", "behind"],
)
def test_another_nodes_clock_is_held_to_what_is_possible(
    tmp_path: Path, ahead: float, moved: float
) -> None:
    """In truth it began at 0.4 and ended at 2.4 of 3.0: between -0.6 and 0.4 s are possible."""
    real = {"boot": "b-2", "node": "n2", "mono": 9e6}
    other = rank(1, 0.4 + ahead, **real)
    found = timed(tmp_path, [rank(0, 0.2), other])
    begin = found.ranks[1].clock_s
    assert found.times.clock_moved_s == pytest.approx(moved, abs=1e-4)
    # Wherever it was set to: no further from the truth than what is printed.
    assert abs(begin - 0.4) <= found.times.clock_bound_s + 1e-4
    assert found.times.clock_bound_s <= 1.0001


@pytest.mark.parametrize(
    ("ranks", "job", "says"),
    [
        ([], {}, "no rank ended"),
        ([rank(0, 0.2)], {}, "no stamp of rank 1"),
        ([rank(0, 0.2), rank(1, 0.2, code=9)], {"code": 1}, "rank 1 ended with exit code 9"),
        ([rank(0, 0.2), rank(1, 0.2)], {"code": 3}, "script failed: exit code 3"),
        ([rank(0, 0.2), rank(1, 0.2, process_s=None)], {}, "rank 1 never began its command"),
        ([rank(0, 0.2), rank(1, 0.2, clock_set_s=-4.0)], {}, "clock of n1 was set by -4.00 s"),
        ([rank(n, 0.2, matches=0, first_s=None) for n in (0, 1)], {}, "no line of any rank match"),
    ],
)
def test_what_did_not_end_well(
    tmp_path: Path, ranks: list[dict[str, Any]], job: dict[str, Any], says: str
) -> None:
    with pytest.raises(BenchDataError, match=says):
        timed(tmp_path, ranks, **job)


def test_a_stamp_that_is_cut_is_none(tmp_path: Path) -> None:
    leave(tmp_path, [rank(0, 0.2)])
    (tmp_path / "ended.json").write_text('{"at": 1')
    found = stamps.read(tmp_path)
    assert (found.ended, len(found.ranks)) == (None, 1)
    (tmp_path / "began.json").unlink()
    with pytest.raises(BenchDataError, match="the job never began"):
        stamps.timed(stamps.read(tmp_path), NOW, None)


def test_a_rank_on_fewer_cpus_than_asked_for_is_no_measurement(tmp_path: Path) -> None:
    enough = rank(0, 0.2, cpus=4, cpus_asked=2)
    assert [one.cpus for one in timed(tmp_path, [enough, rank(1, 0.4)]).ranks] == [4, None]
    few = rank(1, 0.4, node="n2", cpus=1, cpus_asked=2)
    (tmp_path / "few").mkdir()
    with pytest.raises(BenchDataError, match="rank 1 on n2 could use 1 of the 2 CPUs"):
        timed(tmp_path / "few", [enough, few])
