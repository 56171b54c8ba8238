"""A launch's rows: joined over ranks, held to the plan before the launch counts."""

from dataclasses import asdict, replace

import pytest

from dlcontainer.bench.measure import outlook
from dlcontainer.bench.measure.launch import LaunchOutcome
from dlcontainer.bench.measure.units.launches import held
from dlcontainer.bench.samples.rows import joining
from dlcontainer.bench.samples.traits import ROWS_METRIC
from tests.rowseries import PLAN, N, row

ROWS = tuple(row(number, 1e-3) for number in range(len(PLAN.rows)))
FINE = LaunchOutcome(status="ok", returncode=0, elapsed_s=3.0, values={"wall_s": 2.0}, rows=ROWS)


def test_what_a_probe_says_is_read() -> None:
    assert joining.read([asdict(one) for one in ROWS]) == ROWS
    assert joining.read(()) == ()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, "1", None])
def test_a_time_that_is_none(value: object) -> None:
    with pytest.raises(ValueError, match=r"0\.median"):
        joining.read([{**asdict(ROWS[0]), "median": value}])


def test_of_ranks_the_slowest_counts() -> None:
    slow = replace(ROWS[0], best=2e-3, median=3e-3, cpu_s=1.0, steal_s=0.5, checked=7)
    (joined,) = joining.merged([[ROWS[0]], [slow]])
    assert (joined.best, joined.median, joined.n) == (2e-3, 3e-3, N)
    assert joined.cpu_s == ROWS[0].cpu_s + 1.0
    assert (joined.steal_s, joined.checked) == (0.5, 1)


def test_ranks_that_measured_other_rows() -> None:
    with pytest.raises(
        ValueError, match=r"all_reduce, bytes 4, 30 times, and operation all_reduce"
    ):
        joining.merged([[ROWS[0]], [ROWS[1]]])
    with pytest.raises(ValueError, match="different numbers of rows"):
        joining.merged([ROWS, ROWS[1:]])
    with pytest.raises(ValueError, match=r"30 times, and .* 29 times"):
        joining.merged([[ROWS[0]], [replace(ROWS[0], n=29)]])


def test_a_launch_with_all_rows_has_the_judged_figure() -> None:
    found = held(FINE, PLAN)
    assert found.values == {"wall_s": 2.0, ROWS_METRIC: pytest.approx(1e-3)}
    assert found.rows == ROWS


def test_a_launch_without_one_of_its_rows_is_lost() -> None:
    found = held(replace(FINE, rows=ROWS[1:]), PLAN)
    assert (found.status, found.rows) == ("failed", ())
    assert found.reason == "a row is missing: operation all_reduce, bytes 4"


def test_rows_that_nobody_declared() -> None:
    assert held(FINE, None).status == "failed"
    assert held(replace(FINE, rows=()), None).status == "ok"


def test_a_launch_that_failed_stays_as_it_is() -> None:
    lost = LaunchOutcome(status="failed", returncode=1, elapsed_s=1.0, reason="rank 1: gone")
    assert held(lost, PLAN) is lost


def test_more_ranks_than_cores_are_said() -> None:
    assert outlook.crowd(2, 2) == ""
    assert outlook.crowd(4, 2).startswith("warning: 4 ranks on 2 cores: ranks wait for a core")
