"""A study's points: which there are, which are left out by name, what is refused and why."""

import pytest

from dlcontainer.bench.study import study_plan
from dlcontainer.bench.study.study_plan import StudyRequest
from dlcontainer.errors import UsageError


def request(*ranks: int, **changes: object) -> StudyRequest:
    usual: dict[str, object] = {"ranks_per_node": 4, "batch": 8}
    return StudyRequest(ranks=ranks, **{**usual, **changes})  # type: ignore[arg-type]


def test_few_pairs_below_the_last_point_and_all_looks_there() -> None:
    points = study_plan.points(request(1, 2, 8)).points
    assert [(one.ranks, one.looks) for one in points] == [(1, (8,)), (2, (8,)), (8, (8, 16, 32))]
    assert [one.nodes for one in points] == [1, 1, 2]
    assert [one.file for one in points] == ["1-dp1.jsonl", "2-dp2.jsonl", "8-dp8.jsonl"]


def test_one_rank_is_one_point_whatever_the_strategy() -> None:
    asked = request(1, 2, 4, strategies=("dp", "fsdp", "tp2", "pp2"))
    found = study_plan.points(asked)
    names = [one.strategy.name for one in found.points]
    assert names == ["dp1", "dp2", "fsdp2", "tp2", "pp2", "dp4", "fsdp4", "dp2xtp2", "dp2xpp2"]
    assert found.omitted == ()


def test_a_strategy_is_left_out_by_name_where_it_does_not_divide() -> None:
    found = study_plan.points(request(1, 2, 4, strategies=("dp", "tp4")))
    (gone,) = found.omitted
    assert (gone.ranks, gone.strategy) == (2, "tp4")
    assert "2 ranks can't be divided by 4" in gone.why
    assert [one.strategy.name for one in found.points] == ["dp1", "dp2", "dp4", "tp4"]


@pytest.mark.parametrize(
    ("strategy", "says"),
    [
        ("tp3", "4 ranks can't be divided by 3"),
        ("ep2", "unknown term 'ep2'"),
        ("tp", "tp has no number of ranks"),
        ("dp8", "can't be divided by 8"),
        ("", "unknown term ''"),
    ],
)
def test_a_strategy_without_a_point_is_refused(strategy: str, says: str) -> None:
    with pytest.raises(UsageError, match="--parallel") as refused:
        study_plan.points(request(1, 2, 4, strategies=("dp", strategy)))
    assert says in refused.value.what


@pytest.mark.parametrize("text", ["tp3", "ep2"])
def test_of_one_rank_too(text: str) -> None:
    with pytest.raises(UsageError, match=f"--parallel {text}"):
        study_plan.points(request(1, strategies=(text,)))
    assert len(study_plan.points(request(1)).points) == 1


def test_the_batch_in_weak_and_in_strong_scaling() -> None:
    weak = study_plan.points(request(1, 4, strategies=("dp", "tp2"))).points
    assert [(one.strategy.name, one.global_batch) for one in weak] == [
        ("dp1", 8), ("dp4", 32), ("dp2xtp2", 16),
    ]  # fmt: skip
    assert [study_plan.by_batch(one) for one in weak] == [8, 8, 8]
    strong = study_plan.points(request(1, 4, strategies=("dp", "tp2"), scaling="strong")).points
    assert [one.global_batch for one in strong] == [8, 8, 8]
    assert [study_plan.by_batch(one) for one in strong] == [8, 2, 4]


def test_a_batch_that_does_not_divide_is_refused_with_the_number() -> None:
    with pytest.raises(UsageError) as refused:
        study_plan.points(request(1, 3, scaling="strong"))
    assert "8 samples can't be divided among the 3 data-parallel groups" in refused.value.what
    with pytest.raises(UsageError, match="needs the samples of a step"):
        study_plan.points(request(1, 2, scaling="strong", batch=0))


def test_what_else_is_measured_at_the_first_two_points_of_several_ranks() -> None:
    found = study_plan.points(request(1, 2, 4, 8)).extras
    assert [(one.kind, one.ranks, one.file) for one in found] == [
        ("messages", 2, "2-messages.jsonl"),
        ("idle_neighbours", 2, "2-idle-neighbours.jsonl"),
        ("messages", 4, "4-messages.jsonl"),
        ("idle_neighbours", 4, "4-idle-neighbours.jsonl"),
    ]
    assert study_plan.points(request(1)).extras == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must be numbers of ranks"),
        ("1,,2", "must be numbers of ranks"),
        ("0,1", "must be numbers of ranks"),
        ("1,two", "must be numbers of ranks"),
        ("1,99999999999", "must be numbers of ranks"),
        ("4,2", "each number must be greater"),
        ("2,2", "each number must be greater"),
    ],
)
def test_numbers_of_ranks_that_are_none(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        study_plan.ranks(text)


def test_numbers_of_ranks() -> None:
    assert study_plan.ranks("1, 2,16") == (1, 2, 16)
    assert study_plan.strategies("dp, tp2,dp") == ("dp", "tp2")
    assert study_plan.strategies(None) == ("dp",)
