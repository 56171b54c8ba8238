"""Horovod's proof: the average that it computes by hand, and what it lets through and what not."""

import importlib.util
from types import ModuleType
from typing import Any

import numpy
import pytest

from tests.values import ROOT

PATH = ROOT / "recipes/horovod/verify.py"


@pytest.fixture
def verify() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verify_horovod", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def right(verify: Any, rank: int) -> tuple[Any, Any, Any]:
    """Give what a rank of a working Horovod would hand in: gradient, weights, and all ranks'."""
    first, _, trained = verify.expected(rank)
    return first, trained, [verify.flat(trained)] * verify.RANKS


def test_the_gradient_by_hand_is_that_of_the_loss(verify: Any) -> None:
    inputs, targets = (part.astype("float64") for part in verify.data(1))
    weights = [part.astype("float64") for part in verify.start(0)]

    def loss() -> float:
        first, first_bias, second, second_bias = weights
        hidden = numpy.tanh(inputs @ first + first_bias)
        return float(((hidden @ second + second_bias - targets) ** 2).mean())

    slopes = verify.gradient(weights, inputs, targets)
    for part, slope in zip(weights, slopes, strict=True):
        place = numpy.unravel_index(abs(slope).argmax(), slope.shape)
        kept = part[place]
        sides = []
        for step in (1e-6, -1e-6):
            part[place] = kept + step
            sides.append(loss())
        part[place] = kept
        assert slope[place] == pytest.approx((sides[0] - sides[1]) / 2e-6, rel=1e-5)


@pytest.mark.parametrize("rank", [0, 1])
def test_what_is_averaged_passes(verify: Any, rank: int) -> None:
    found = verify.judge(rank, *right(verify, rank))
    assert found["ok"]
    assert max(found[name] for name in verify.FIGURES) == 0


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_trains_alone_is_found_out(verify: Any, rank: int) -> None:
    _, trained, gathered = right(verify, rank)
    _, alone, _ = verify.expected(rank)
    found = verify.judge(rank, alone, trained, gathered)
    assert not found["ok"]
    assert found["gradient_off"] == found["alone_off"] > 0.1


def test_weights_that_drift_apart_are_found_out(verify: Any) -> None:
    first, trained, gathered = right(verify, 0)
    found = verify.judge(0, first, trained, [gathered[0], gathered[1] * 1.001])
    assert not found["ok"]
    assert found["ranks_apart"] > verify.TOLERANCE


def test_the_wrong_end_is_found_out(verify: Any) -> None:
    first, trained, gathered = right(verify, 0)
    found = verify.judge(0, first, [part + 0.01 for part in trained], gathered)
    assert not found["ok"]


@pytest.mark.parametrize("ranks", [1, 3])
def test_another_number_of_ranks_is_found_out(verify: Any, ranks: int) -> None:
    first, trained, gathered = right(verify, 0)
    assert not verify.judge(0, first, trained, [gathered[0]] * ranks)["ok"]


def test_no_number_is_no_small_difference(verify: Any) -> None:
    first, trained, gathered = right(verify, 0)
    assert not verify.judge(0, [part * numpy.nan for part in first], trained, gathered)["ok"]


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (
            "starting\n[1]<stderr>:OSError: no room\nRuntimeError: ranks ended\n\n",
            "OSError: no room",
        ),
        ("starting\nkilled\n", "killed"),
        ("", "nothing was said"),
    ],
)
def test_what_went_wrong_first_is_named(verify: Any, output: str, line: str) -> None:
    assert verify.complaint(output).endswith(line)
