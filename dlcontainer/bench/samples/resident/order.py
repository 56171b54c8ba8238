"""In which order a group's processes start and have their turns: drawn from the seed. Pure."""

import random
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


def drawn(seed: int, group: Group, plan: GroupPlan) -> GroupOrder:
    """Draw a group's orders; which arm starts first is the group's own, balanced in fours."""
    draw = random.Random(f"dlcontainer/group/1:{seed}:{group.number}")  # noqa: S311 - no secret
    everyone = names(plan.per_arm)
    first = draw.choice([name for name in everyone if name[0] == group.order[0]])
    followers = [name for name in everyone if name != first]
    draw.shuffle(followers)
    start = (first, *followers)
    rounds = islice(balanced.blocks(draw, everyone), plan.rounds)
    return GroupOrder(start=start, rounds=tuple(rounds))
