import random

import pytest

from dlcontainer.bench.samples.launch_order import (
    Group,
    LaunchCounts,
    ScheduledPair,
    balanced,
    due,
    plan_stages,
)


def only_pairs(stage: list[Group]) -> list[ScheduledPair]:
    assert all(isinstance(group, ScheduledPair) for group in stage)
    return [group for group in stage if isinstance(group, ScheduledPair)]


def plan_pairs(*, pairs: int, joiners: int, controls: int, seed: int) -> list[ScheduledPair]:
    counts = LaunchCounts(joiners=joiners, controls=controls)
    (stage,) = plan_stages(looks=(pairs,), counts=counts, seed=seed)
    return only_pairs(stage)


def test_the_same_seed_gives_the_same_order() -> None:
    first = plan_pairs(pairs=8, joiners=8, controls=4, seed=7)
    assert first == plan_pairs(pairs=8, joiners=8, controls=4, seed=7)
    assert first != plan_pairs(pairs=8, joiners=8, controls=4, seed=8)


@pytest.mark.parametrize("count", range(17))
def test_every_block_of_four_is_balanced(count: int) -> None:
    for seed in range(20):
        drawn = balanced(count, random.Random(seed))
        assert len(drawn) == count
        for start in range(0, count, 4):
            block = drawn[start : start + 4]
            assert abs(2 * sum(block) - len(block)) <= len(block) % 2


def test_both_orders_and_all_places_come_up() -> None:
    drawn = {tuple(balanced(4, random.Random(seed))) for seed in range(200)}
    assert len(drawn) == 6


def test_series_are_whole_and_interleaved() -> None:
    pairs = plan_pairs(pairs=8, joiners=8, controls=2, seed=3)
    for series, count in (("pair", 8), ("joiner", 8), ("control", 2)):
        numbers = [pair.number for pair in pairs if pair.series == series]
        assert numbers == list(range(1, count + 1))
    places = [index for index, pair in enumerate(pairs) if pair.series == "control"]
    assert places[0] < 9 <= places[1]


def test_one_pair_is_possible() -> None:
    assert len(plan_pairs(pairs=1, joiners=0, controls=0, seed=0)) == 1


def test_each_look_has_its_share_balanced_and_numbered_through() -> None:
    looks = (8, 16, 32)
    for seed in range(20):
        stages = plan_stages(looks=looks, counts=LaunchCounts(joiners=8, controls=32), seed=seed)
        done: list[ScheduledPair] = []
        for look, stage in zip(looks, stages, strict=True):
            done += only_pairs(stage)
            for series, count in (("pair", 32), ("joiner", 8), ("control", 32)):
                firsts = [pair.native_first for pair in done if pair.series == series]
                assert len(firsts) == due(count, look, looks) == count * look // 32
                assert 2 * sum(firsts) == len(firsts) or series == "joiner"
        for series, count in (("pair", 32), ("joiner", 8), ("control", 32)):
            numbers = [pair.number for pair in done if pair.series == series]
            assert numbers == list(range(1, count + 1))
