"""Strategies at numbers of ranks: those that don't divide are left out with the number."""

import pytest

from dlcontainer.bench.samples.parallel_strategy import parse
from dlcontainer.bench.study.advice import candidates
from dlcontainer.bench.study.advice.candidates import DividedWork
from dlcontainer.errors import UsageError

TEXT = DividedWork(layers=6, heads=8, batch=16, micro_batches=0, scaling="weak")


@pytest.mark.parametrize(
    ("name", "ranks", "work", "why"),
    [
        ("tp3", 3, TEXT, "tp3: 8 heads can't be divided by 3"),
        ("pp4", 4, TEXT, "pp4: 6 layers can't be divided by 4"),
        ("dp", 3, DividedWork(layers=0, heads=0, batch=16, micro_batches=0, scaling="strong"),
         "3 data-parallel groups: 16 samples of a step can't be divided by 3"),
        ("pp2", 2, DividedWork(layers=6, heads=8, batch=16, micro_batches=5, scaling="weak"),
         "5 micro-batches: 16 samples of a data-parallel group can't be divided by 5"),
        ("tp2", 2, DividedWork(layers=0, heads=0, batch=16, micro_batches=0, scaling="weak"),
         "nothing tells the network's layers, which tp and pp divide"),
        ("dp2xtp2xpp2", 8, TEXT, ""),
    ],
)  # fmt: skip
def test_which_number_does_not_divide(name: str, ranks: int, work: DividedWork, why: str) -> None:
    assert candidates.undivided(parse(name, ranks), work) == why


def test_what_divides_and_what_was_left_out() -> None:
    listed = candidates.listed(("dp", "tp2", "pp3"), (1, 2, 6), 4, TEXT)
    assert [(one.choice.strategy.name, one.nodes) for one in listed.candidates] == [
        ("dp1", 1), ("dp2", 1), ("dp6", 2), ("tp2", 1), ("dp3xtp2", 2), ("dp2xpp3", 2),
    ]  # fmt: skip
    assert [(each.strategy, each.ranks, each.why) for each in listed.left_out] == [
        ("tp2", 1, "1 ranks can't be divided by 2"),
        ("pp3", 1, "1 ranks can't be divided by 3"),
        ("pp3", 2, "2 ranks can't be divided by 3"),
    ]


def test_batches_grow_with_the_data_parallel_groups_alone() -> None:
    listed = candidates.listed(("dpxtp2",), (8,), 4, TEXT)
    assert listed.candidates[0].choice.global_batch == 64
    strong = DividedWork(layers=6, heads=8, batch=64, micro_batches=0, scaling="strong")
    listed = candidates.listed(("dpxtp2",), (8,), 4, strong)
    assert listed.candidates[0].choice.global_batch == 64


def test_a_pipeline_cuts_as_the_trainer_does() -> None:
    assert candidates.micro_batches(parse("pp3", 3), TEXT) == 6
    small = DividedWork(layers=6, heads=8, batch=2, micro_batches=0, scaling="weak")
    assert candidates.micro_batches(parse("pp3", 3), small) == 2


def test_numbers_of_ranks_double_within_a_node_and_then_in_nodes() -> None:
    assert candidates.counts(1, 6, 36) == (1, 2, 4, 6, 12, 24, 36)
    assert candidates.counts(8, 4, 8) == (8,)


def test_one_rank_is_one_point_whatever_the_strategy() -> None:
    listed = candidates.listed(("dp", "fsdp"), (1, 2), 4, TEXT)
    assert [one.choice.strategy.name for one in listed.candidates] == ["dp1", "dp2", "fsdp2"]


def test_too_many_combinations_are_refused() -> None:
    with pytest.raises(UsageError, match="at most 2000"):
        candidates.listed(("dp",), tuple(range(1, 2002)), 4, TEXT)


@pytest.mark.parametrize(
    ("name", "why"),
    [("dp", ""), ("tp64", ""), ("dp2xfsdp", ""), ("tp", "tp has no number of ranks"),
     ("dpxfsdp", "dp and fsdp are both without a number"), ("", "unknown term ''"),
     ("tp2xtp2", "tp stands there twice")],
)  # fmt: skip
def test_names_that_are_no_strategy_at_any_number(name: str, why: str) -> None:
    assert candidates.wrong_name(name) == why
