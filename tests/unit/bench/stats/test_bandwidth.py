"""Bandwidths by hand, and by the definitions of nccl-tests; the line through times over bytes."""

import importlib
import math

import pytest

from dlcontainer.bench.probes import collectives
from dlcontainer.bench.stats import bandwidth
from dlcontainer.bench.stats.bandwidth import TransferTime, bus, line
from dlcontainer.config.resources import PROBE


@pytest.mark.parametrize(
    ("operation", "ranks", "value"),
    [
        # 1 GB in half a second is 2 GB/s, of which a rank's link moves:
        ("broadcast", 4, 2.0),
        ("all_reduce", 2, 2.0),
        ("all_reduce", 4, 3.0),
        ("all_reduce", 1024, 2.0 * 2 * 1023 / 1024),
        ("reduce_scatter", 4, 1.5),
        ("all_gather", 2, 1.0),
        ("all_to_all", 8, 1.75),
        ("send_recv", 4, 2.0),
        ("barrier", 4, None),
    ],
)
def test_bus_bandwidth(operation: str, ranks: int, value: float | None) -> None:
    found = bus(operation, 10**9, 0.5, ranks)
    assert found == (value if value is None else pytest.approx(value))


def test_algorithm_bandwidth_is_size_over_time() -> None:
    assert bandwidth.algorithm(64 << 20, 0.067108864) == pytest.approx(1.0)


def test_every_operation_with_bytes_has_a_definition() -> None:
    for operation in collectives.OPERATIONS:
        assert (bus(operation, 4, 1.0, 2) is None) == (operation == "barrier")


def test_a_proof_has_the_same_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PROBE)
    proof = importlib.import_module("prove_figures").figures(1 << 20, 0.002, 6)
    assert proof["algbw"] == bandwidth.algorithm(1 << 20, 0.002)
    assert proof["busbw"] == pytest.approx(bus("all_reduce", 1 << 20, 0.002, 6))


def points(alpha: float, beta: float, *sizes: int) -> list[TransferTime]:
    return [TransferTime(size=size, seconds=alpha + beta * size) for size in sizes]


def test_a_line_is_found() -> None:
    found = line(points(30e-6, 0.5e-9, 4, 1024, 65536, 1 << 20, 1 << 26))
    assert found.problem == ""
    assert found.alpha == pytest.approx(30e-6)
    assert found.gigabytes_per_s == pytest.approx(2.0)
    assert found.residual < 1e-9


def test_small_sizes_count_as_much_as_large_ones() -> None:
    # By hand: of T = 1, 1.2, 2 at S = 0, 1, 2 the equations alpha/T + beta S/T = 1 have the normal
    # matrix [[1.944444, 1.194444], [1.194444, 1.694444]] and the right side [2.333333, 1.833333].
    rows = [
        TransferTime(size=0, seconds=1.0),
        TransferTime(size=1, seconds=1.2),
        TransferTime(size=2, seconds=2.0),
    ]
    found = line(rows)
    determinant = 1.9444444 * 1.6944444 - 1.1944444**2
    assert found.alpha == pytest.approx(
        (2.3333333 * 1.6944444 - 1.8333333 * 1.1944444) / determinant
    )
    assert found.beta == pytest.approx(
        (1.8333333 * 1.9444444 - 2.3333333 * 1.1944444) / determinant
    )


@pytest.mark.parametrize(("factor", "is_fitted"), [(1.2, True), (2.5, False)])
def test_a_line_that_misses_a_size_is_not_fitted(factor: float, *, is_fitted: bool) -> None:
    given = points(30e-6, 0.5e-9, 4, 1024, 65536, 1 << 20)
    given[2] = TransferTime(size=65536, seconds=factor * given[2].seconds)
    found = line(given)
    assert (found.problem == "") == is_fitted
    assert is_fitted or "more than 25 %" in found.problem


def test_what_is_no_line() -> None:
    assert "2 sizes" in line(points(1e-6, 1e-9, 4, 1024)).problem
    assert math.isnan(line([]).alpha)
    # Quicker with more bytes: no bandwidth.
    flat = [TransferTime(size=size, seconds=1e-3 - size * 1e-10) for size in (4, 1 << 20, 1 << 21)]
    assert line(flat).problem == "a latency or a bandwidth below 0"
