"""What a trace's collectives say of a step's gradients, and when they say nothing."""

from dataclasses import replace

import pytest

from dlcontainer.bench.trace import gradient_traffic
from dlcontainer.errors import BenchDataError
from tests import forecast_traces as made
from tests.forecast_traces import MB, STEPS


def test_gradients_are_bytes_and_messages_a_step() -> None:
    # A loss and a norm are reduced as well: they are no gradients.
    sent = {**made.REDUCED, ("all_reduce", 12 * MB): STEPS, ("all_reduce", 4): 3 * STEPS}
    step = gradient_traffic.of(made.side(sent={**sent, ("broadcast", 8): STEPS}), "t")
    assert (step.axis, step.gradient_bytes, step.messages) == ("dp", 92 * MB, 5)
    first = step.ranks[0]
    assert (first.computing_s, first.transfer_s, first.exposed_s) == pytest.approx((0.9, 0.4, 0.2))
    assert step.waiting == 0


def test_without_operations_bytes_alone_are_told() -> None:
    step = gradient_traffic.of(replace(made.side(), is_computing_known=False), "t")
    assert (step.gradient_bytes, step.messages, step.ranks) == (80 * MB, 4, ())


def test_under_fsdp_gradients_are_what_is_scattered() -> None:
    step = gradient_traffic.of(made.side(sent=made.SCATTERED), "t")
    assert (step.axis, step.gradient_bytes, step.messages) == ("fsdp", 50 * MB, 5)


def test_under_gloo_gradients_are_reduced_whole_before_they_are_scattered() -> None:
    # As PyTorch 2.13 was traced: each shard is gathered twice a step.
    sent: dict[tuple[str, int | None], int] = {
        ("all_gather", 131_584): 8 * STEPS,
        ("all_reduce", 263_168): 4 * STEPS,
    }
    step = gradient_traffic.of(made.side(sent=sent), "t")
    assert (step.axis, step.gradient_bytes, step.messages) == ("fsdp", 4 * 263_168, 4)


def test_what_is_gathered_beside_gradients_is_no_fsdp() -> None:
    step = gradient_traffic.of(made.side(sent={**made.REDUCED, ("all_gather", MB): STEPS}), "t")
    assert step.axis == "dp"


def test_waiting_is_the_mean_of_the_ranks() -> None:
    assert gradient_traffic.of(made.side(waiting=1.1), "t").waiting == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("kinds", "says"),
    [
        ((), "it has no collectives"),
        (("broadcast", "barrier"), "no gradients are sent in it: barrier, broadcast"),
        (("all_reduce", "send"), "this has all_reduce, send"),
        (("all_reduce", "all_to_all"), "this has all_reduce, all_to_all"),
        (("all_reduce", "reduce_scatter"), "this has all_reduce, reduce_scatter"),
    ],
)
def test_what_tells_nothing_is_refused(kinds: tuple[str, ...], says: str) -> None:
    with pytest.raises(BenchDataError, match="tells nothing for a forecast") as raised:
        gradient_traffic.of(made.side(sent=made.kinds(kinds)), "t")
    assert says in str(raised.value.why)


def test_sizes_that_are_not_told_are_refused() -> None:
    traced = made.side()
    unsized = replace(traced, collectives=(replace(traced.collectives[0], bytes=None),))
    with pytest.raises(BenchDataError, match="tells nothing"):
        gradient_traffic.of(unsized, "t")


def test_ranks_without_a_common_step_are_refused() -> None:
    with pytest.raises(BenchDataError, match="tells nothing"):
        gradient_traffic.of(replace(made.side(), steps=0), "t")
