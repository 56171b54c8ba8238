"""The orders of a group: drawn from the seed, and balanced so that a turn's traces cancel."""

import random
from itertools import islice

import pytest

from dlcontainer.bench.samples.launch_order import ScheduledPair
from dlcontainer.bench.samples.resident import balanced, order
from dlcontainer.bench.samples.resident.resident_records import GroupPlan


def plan(per_arm: int = 2, rounds: int = 4) -> GroupPlan:
    return GroupPlan(
        per_arm=per_arm, rounds=rounds, turn_steps=8, renew_rounds=1, gap_s=0.01, cpus=(0,),
        lost_most=2,
    )  # fmt: skip


def pair(number: int) -> ScheduledPair:
    return ScheduledPair(series="pair", number=number, native_first=number % 2 == 0)


@pytest.mark.parametrize("per_arm", [2, 3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_each_arm_follows_each_arm_equally_often(per_arm: int, seed: int) -> None:
    everyone = order.names(per_arm)
    rounds = list(islice(balanced.blocks(random.Random(seed), everyone), 2 * balanced.ROUNDS))
    for block in (rounds[: balanced.ROUNDS], rounds[balanced.ROUNDS :]):
        followed = [balanced.counts(each.makes, each.turns) for each in block]
        # Of one before, and of two before: who is there, before whom.
        assert {sum(column) for column in zip(*followed, strict=True)} == {2 * per_arm}
        assert len({(each.makes[-1][0], each.turns[0][0]) for each in block}) == balanced.ROUNDS
    for each in rounds:
        assert sorted(each.makes) == sorted(each.turns) == sorted(everyone)
        assert each.makes[-1] != each.turns[0]


def test_what_a_turn_leaves_to_the_next_two_is_no_arm_s() -> None:
    carry = {1: 0.02, 2: 0.01}  # to the next turn, and to the one after it
    for number in range(1, 9):
        slowed = {"n": 0.0, "c": 0.0}
        for each in order.drawn(3, pair(number), plan()).rounds:
            ran = [*each.makes, *each.turns]
            for place, name in enumerate(each.turns, start=len(each.makes)):
                slowed[name[0]] += sum(
                    share for back, share in carry.items() if ran[place - back][0] == "c"
                )
        assert slowed["c"] == pytest.approx(slowed["n"])


def test_the_seed_and_the_number_draw_the_order() -> None:
    one, again, other = (order.drawn(seed, pair(1), plan()) for seed in (1, 1, 2))
    assert one == again != other
    assert one.start[0][0] == pair(1).order[0]
    assert len({order.drawn(1, pair(n), plan()).rounds for n in range(9)}) > 5
