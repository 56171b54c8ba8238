"""The step model against sums by hand, its limits, and what may not go down."""

import math
from dataclasses import replace

import pytest

from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.study.forecast import collective_times, placement, step_model
from dlcontainer.bench.study.forecast.step_terms import (
    Machine,
    RankLink,
    StrategyChoice,
    TrainedNetwork,
)

MS = 1e-3
# A sample of 90 ms: 30 forward, 60 backward; gradients of 2 MB, 8 layers, 10 kB between them.
NETWORK = TrainedNetwork(flops=0.09, gradient_bytes=2e6, layers=8, activation_bytes=1e4)
# A megabyte in 10 ms in a node, in 40 ms through a port; messages of 1 and of 2 ms.
IN_NODE = RankLink(latency_s=1 * MS, second_per_byte=1e-8)
PORT = RankLink(latency_s=2 * MS, second_per_byte=4e-8)
ALONE_ON_NODES = Machine(
    flops_per_s=1.0, ranks_per_node=1, in_node=IN_NODE, between_nodes=PORT, rendezvous=True
)
FREE = RankLink(latency_s=0.0, second_per_byte=0.0)
STRATEGIES = (
    ParallelStrategy(dp=4),
    ParallelStrategy(fsdp=4),
    ParallelStrategy(tp=4),
    ParallelStrategy(pp=4),
    ParallelStrategy(dp=2, pp=2),
    ParallelStrategy(dp=2, tp=2),
    ParallelStrategy(fsdp=2, tp=2),
    ParallelStrategy(dp=2, tp=2, pp=2),
)


def choice(strategy: ParallelStrategy, micro_batches: int = 4) -> StrategyChoice:
    return StrategyChoice(
        strategy=strategy,
        global_batch=strategy.batches * micro_batches,
        micro_batches=micro_batches,
    )


def test_one_rank_computes_and_nothing_else() -> None:
    terms = step_model.step(NETWORK, ALONE_ON_NODES, choice(ParallelStrategy(), 3))
    assert terms.step_s == terms.compute_s == pytest.approx(0.27)


def test_data_parallel_without_overlap() -> None:
    machine = replace(ALONE_ON_NODES, overlap=0.0)
    # A ring of 4: 6 messages of 2 ms; 2 * 3/4 of 2 MB at 40 ns.
    terms = step_model.step(NETWORK, machine, choice(ParallelStrategy(dp=4), 1))
    assert terms.compute_s == pytest.approx(0.09)
    assert terms.exposed_communication_s == pytest.approx(6 * 2 * MS + 1.5 * 2e6 * 4e-8)


def test_buckets_beside_the_backward_pass() -> None:
    # Two buckets of 1 MB at 2 ranks: 4 + 40 ms each. Ready at 60 and 90 ms: they end at 104, 148.
    machine = replace(ALONE_ON_NODES, bucket_bytes=1e6)
    terms = step_model.step(NETWORK, machine, choice(ParallelStrategy(dp=2), 1))
    assert terms.step_s == pytest.approx(0.148)
    # Four of 0.5 MB, at a tenth of the time: the last one alone is exposed.
    quick = RankLink(latency_s=0.2 * MS, second_per_byte=4e-9)
    machine = replace(machine, between_nodes=quick, bucket_bytes=5e5)
    terms = step_model.step(NETWORK, machine, choice(ParallelStrategy(dp=2), 1))
    assert terms.exposed_communication_s == pytest.approx(0.4 * MS + 5e5 * 4e-9)


def test_gradients_are_sent_once_for_all_micro_batches() -> None:
    machine = replace(ALONE_ON_NODES, overlap=0.0)
    once, often = (
        step_model.step(NETWORK, machine, choice(ParallelStrategy(dp=2), micro)) for micro in (1, 5)
    )
    assert once.exposed_communication_s == pytest.approx(often.exposed_communication_s)
    assert often.compute_s == pytest.approx(5 * once.compute_s)


def test_tensor_parallel_sends_four_all_reduces_a_layer() -> None:
    terms = step_model.step(NETWORK, ALONE_ON_NODES, choice(ParallelStrategy(tp=2), 1))
    assert terms.compute_s == pytest.approx(0.045)
    assert terms.exposed_communication_s == pytest.approx(4 * 8 * (2 * 2 * MS + 1e4 * 4e-8))
    again = step_model.step(
        replace(NETWORK, recomputed=True), ALONE_ON_NODES, choice(ParallelStrategy(tp=2), 1)
    )
    assert again.exposed_communication_s == pytest.approx(terms.exposed_communication_s * 1.5)


def test_fsdp_gathers_ahead() -> None:
    # A layer: 0.25 MB, a gather of 2 ranks is 2 + 5 ms. 3.75 ms forward, 7.5 backward a layer:
    # forward 7 + 7 * 3.25, backward 7 + 7 * 6.5.
    terms = step_model.step(NETWORK, ALONE_ON_NODES, choice(ParallelStrategy(fsdp=2), 1))
    assert terms.exposed_communication_s == pytest.approx((14 + 7 * 3.25 + 7 * 6.5) * MS)


def test_a_pipeline_has_a_bubble_and_messages() -> None:
    free = replace(ALONE_ON_NODES, between_nodes=FREE)
    terms = step_model.step(NETWORK, free, choice(ParallelStrategy(pp=3), 6))
    # A stage's micro-batch takes 30 ms; 6 of them, and 2 that it waits for.
    assert terms.compute_s == pytest.approx(0.18)
    assert terms.bubble_s == pytest.approx(0.06)
    assert terms.exposed_communication_s == pytest.approx(0.0, abs=1e-12)
    # One micro-batch through 2 stages: two messages of 2.4 ms are on its way.
    terms = step_model.step(NETWORK, ALONE_ON_NODES, choice(ParallelStrategy(pp=2), 1))
    assert terms.exposed_communication_s == pytest.approx(2 * (2 * MS + 1e4 * 4e-8))


def test_behind_a_pipeline_gradients_are_exposed() -> None:
    without = step_model.step(NETWORK, ALONE_ON_NODES, choice(ParallelStrategy(pp=2), 4))
    terms = step_model.step(NETWORK, ALONE_ON_NODES, choice(ParallelStrategy(dp=2, pp=2), 4))
    # Of 2 ranks, half the gradients each.
    added = terms.exposed_communication_s - without.exposed_communication_s
    assert added == pytest.approx(2 * 2 * MS + 1e6 * 4e-8)


def test_neighbours_and_waiting() -> None:
    machine = replace(ALONE_ON_NODES, ranks_per_node=4, neighbours=0.3, scatter=0.02)
    two = step_model.step(NETWORK, machine, choice(ParallelStrategy(dp=2), 1))
    # One neighbour of three.
    assert two.idle_neighbours_s == pytest.approx(0.09 * 0.1)
    # The largest of two normals lies 0.564 above their mean; Blom has 0.589.
    assert two.waiting_s == pytest.approx(0.099 * 0.02 * 0.589, rel=0.01)
    many = step_model.step(NETWORK, machine, choice(ParallelStrategy(dp=64), 1))
    assert many.idle_neighbours_s == pytest.approx(0.027)
    assert many.waiting_s / (0.117 * 0.02) == pytest.approx(2.4, abs=0.1)


def test_passes_and_input_cost_their_own() -> None:
    machine = replace(ALONE_ON_NODES, pass_s=5 * MS, input_s=3 * MS)
    terms = step_model.step(NETWORK, machine, choice(ParallelStrategy(), 4))
    assert terms.compute_s == pytest.approx(4 * 0.095)
    assert terms.input_s == pytest.approx(4 * 3 * MS)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_limits(strategy: ParallelStrategy) -> None:
    asked = choice(strategy)
    free = replace(ALONE_ON_NODES, between_nodes=FREE)
    terms = step_model.step(NETWORK, free, asked)
    # Nothing to send in no time: compute and a bubble are left.
    assert terms.step_s == pytest.approx(terms.compute_s + terms.bubble_s)
    work = NETWORK.flops * asked.global_batch / strategy.ranks
    assert terms.compute_s == pytest.approx(work)
    before = terms.step_s
    for factor in (0.1, 1.0, 3.0, 50.0):
        link = RankLink(latency_s=PORT.latency_s * factor, second_per_byte=4e-8 * factor)
        now = step_model.step(NETWORK, replace(free, between_nodes=link), asked).step_s
        assert now > before
        before = now


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_less_overlap_is_never_quicker(strategy: ParallelStrategy) -> None:
    steps = [
        step_model.step(NETWORK, replace(ALONE_ON_NODES, overlap=share), choice(strategy)).step_s
        for share in (1.0, 0.7, 0.3, 0.0)
    ]
    assert steps == sorted(steps)


def test_a_rendezvous_is_never_quicker() -> None:
    for strategy in (ParallelStrategy(pp=4), ParallelStrategy(dp=2, pp=2)):
        for schedule in ("1f1b", "gpipe"):
            asked = replace(choice(strategy, 6), schedule=schedule)
            waits, buffers = (
                step_model.step(NETWORK, replace(ALONE_ON_NODES, rendezvous=waits), asked).step_s
                for waits in (True, False)
            )
            assert waits >= buffers
    assert waits > buffers


def test_ranks_of_a_node_share_its_port() -> None:
    machine = replace(ALONE_ON_NODES, ranks_per_node=4)
    strategy = ParallelStrategy(dp=2, tp=4)
    inner = placement.group(strategy, "tp", 4)
    outer = placement.group(strategy, "dp", 4)
    assert (inner.nodes, inner.on_a_node) == (1, 4)
    assert (outer.nodes, outer.on_a_node, outer.groups_on_a_node) == (2, 1, 4)
    assert placement.link(machine, inner) == IN_NODE
    assert placement.link(machine, outer).second_per_byte == pytest.approx(4 * 4e-8)
    # One ring over both nodes goes through each port once.
    ring = placement.group(ParallelStrategy(dp=8), "dp", 4)
    assert (ring.nodes, ring.groups_on_a_node) == (2, 1)
    assert placement.link(machine, ring) == PORT


def test_stages_lie_outermost() -> None:
    machine = replace(ALONE_ON_NODES, ranks_per_node=4)
    inside, away, third = placement.borders(ParallelStrategy(tp=2, pp=4), machine)
    # Stages 0 and 1 share a node, 1 and 2 don't: both ranks of stage 1 send at once.
    assert inside == third == IN_NODE
    assert away.second_per_byte == pytest.approx(2 * 4e-8)
    apart = RankLink(latency_s=3 * MS, second_per_byte=5e-8)
    machine = replace(machine, stage_in_node=apart)
    assert placement.borders(ParallelStrategy(pp=2), machine) == [apart]


def test_trees_are_taken_where_they_are_quicker() -> None:
    many = placement.group(ParallelStrategy(dp=1024), "dp", 1)
    ring = collective_times.all_reduce(ALONE_ON_NODES, many, 4e3)
    trees = replace(ALONE_ON_NODES, algorithm="ring or tree")
    assert ring > 2 * 1023 * 2 * MS
    assert collective_times.all_reduce(trees, many, 4e3) == pytest.approx(
        2 * 10 * 2 * MS + 2 * 4e3 * 4e-8
    )
    few = placement.group(ParallelStrategy(dp=2), "dp", 1)
    assert collective_times.all_reduce(trees, few, 1e9) == pytest.approx(
        collective_times.all_reduce(ALONE_ON_NODES, few, 1e9)
    )


def test_an_all_reduce_is_a_scatter_and_a_gather() -> None:
    ranks = placement.group(ParallelStrategy(dp=3), "dp", 1)
    whole = collective_times.all_reduce(ALONE_ON_NODES, ranks, 3e6)
    assert whole == pytest.approx(2 * collective_times.all_gather(ALONE_ON_NODES, ranks, 3e6))
    alone = placement.group(ParallelStrategy(), "dp", 1)
    assert collective_times.all_reduce(ALONE_ON_NODES, alone, 3e6) == 0.0
    assert collective_times.all_gather(ALONE_ON_NODES, alone, 3e6) == 0.0


def test_the_slowest_of_many() -> None:
    assert step_model.slowest_of(1) == 0.0
    rising = [step_model.slowest_of(2**power) for power in range(14)]
    assert rising == sorted(rising)
    assert rising[-1] < math.sqrt(2 * math.log(2**13))
