"""In which order a group's processes start and have their turns: drawn from the seed. Pure."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from dlcontainer.bench.samples.launch_order import Group
from dlcontainer.bench.samples.resident import balanced
from dlcontainer.bench.samples.resident.balanced import Names, Round
from dlcontainer.bench.samples.resident.resident_records import GroupPlan

REFERENCE, CANDIDATE = balanced.REFERENCE, balanced.CANDIDATE


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupOrder:
    """The names of a group's processes as they start, and as they work in each round."""

    start: Names
    rounds: tuple[Round, ...]


def names(per_arm: int) -> Names:
    """Name the processes of a group, those of the reference first."""
    return tuple(f"{arm}{number}" for arm in (REFERENCE, CANDIDATE) for number in range(per_arm))


def drawn(seed: int, group: Group, plan: GroupPlan, *, is_balanced: bool) -> GroupOrder:
    """Draw a group's orders; which arm starts first is the group's own, balanced in fours.

    Without `is_balanced`, as earlier programs drew them: each round by itself.
    """
    draw = random.Random(f"dlcontainer/group/1:{seed}:{group.number}")  # noqa: S311 - no secret
    everyone = names(plan.per_arm)
    first = draw.choice([name for name in everyone if name[0] == group.order[0]])
    followers = [name for name in everyone if name != first]
    draw.shuffle(followers)
    start = (first, *followers)
    rounds = balanced.blocks(draw, everyone) if is_balanced else _by_lot(draw, start, everyone)
    return GroupOrder(start=start, rounds=tuple(islice(rounds, plan.rounds)))


def _by_lot(draw: random.Random, start: Names, everyone: Names) -> Iterator[Round]:
    makes: Names = start
    while True:
        turns = tuple(draw.sample(everyone, len(everyone)))
        # The first trainers were made in the order of the start.
        yield Round(makes or turns, turns)
        makes = ()
