"""Ranks whose weights went different ways did not train one network: the launch is refused."""

import importlib
import math
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from dlcontainer.bench.probes.networks import gradient_check
from dlcontainer.config.resources import PROBE


@pytest.fixture
def probe_train(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(PROBE)
    yield importlib.import_module("probe_train")
    for name in ("probe_train", "ranks", "barrier"):
        del sys.modules[name]


def said(moved: Any, way: str | None = "horovod") -> dict[str, Any]:
    return {"workload": {"distributed": way}, "moved": moved}


def weights(seed: int, count: int = 1000) -> list[float]:
    return [math.sin(seed + number * number) for number in range(count)]


def test_ranks_that_average_agree_but_for_rounding(probe_train: Any) -> None:
    before, after = weights(1), weights(2)
    rounded = [value * (1 + 1e-7) for value in after]
    one, other = probe_train.movement(before, after), probe_train.movement(before, rounded)
    assert one["length"] > 1
    assert gradient_check.problem([said(one), said(other)]) == ""


def test_ranks_that_go_their_own_ways_are_refused(probe_train: Any) -> None:
    before = weights(1)
    one, other = (probe_train.movement(before, weights(seed)) for seed in (2, 3))
    problem = gradient_check.problem([said(one), said(one), said(other)])
    assert "gradients are not averaged (horovod)" in problem


def test_a_small_share_of_weights_that_is_not_averaged_is_seen(probe_train: Any) -> None:
    before, after = weights(1), weights(2)
    forgotten = [*after[:-10], *weights(3)[-10:]]
    ways = [probe_train.movement(before, end) for end in (after, forgotten)]
    assert "not averaged" in gradient_check.problem([said(way) for way in ways])


@pytest.mark.parametrize(
    ("moved", "says"),
    [
        (None, "build the image again"),
        ({"length": 0.0, "sums": [0.0]}, "moved by 0"),
        ({"length": math.nan, "sums": [math.nan]}, "moved by nan"),
        ({"length": math.inf, "sums": [0.0]}, "moved by inf"),
        ({"length": 1.0}, "not said whole"),
        ({"length": "x", "sums": [0.0]}, "not said whole"),
    ],
)
def test_what_says_nothing_is_refused(moved: Any, says: str) -> None:
    assert says in gradient_check.problem([said(moved), said(moved)])


def test_whoever_trains_alone_averages_nothing() -> None:
    assert gradient_check.problem([said(None, None)]) == ""
    assert gradient_check.problem([{"probe": "import"}, {"probe": "import"}]) == ""
