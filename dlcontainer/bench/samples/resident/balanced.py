"""Turns in an order in which what one leaves to the next cancels between the arms. Pure.

Before each round all processes make a new trainer, then each has its turn. In four rounds each arm
is at work equally often just before itself and before the other one, and the same holds for the
one before that; a first turn follows each arm's making once in each arm. So much as a turn adds to
the next two turns is the same for both arms (after Williams, 1949). No process follows itself.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product

REFERENCE, CANDIDATE = "n", "c"
# So many rounds are balanced together.
ROUNDS = 4
_ARMS = (REFERENCE, CANDIDATE)
_PAIRS = tuple(product(_ARMS, _ARMS))

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Round:
    """The names of all processes: as they make their trainers, then as they have their turns."""

    makes: Names
    turns: Names


@dataclass(frozen=True, slots=True)
class _Shape:
    """A round by its arms: the last two that make, and all turns; `after` as `counts` has it."""

    last: Names
    turns: Names
    after: tuple[int, ...]

    @property
    def first(self) -> Names:
        """Return the arm that makes the last trainer, and that of the first turn."""
        return (self.last[-1], self.turns[0])


@dataclass(frozen=True, slots=True)
class _Shapes:
    """Every round by its arms, and those by their counts."""

    every: tuple[_Shape, ...]
    by_counts: dict[tuple[int, ...], list[_Shape]]


def blocks(draw: random.Random, everyone: Names) -> Iterator[Round]:
    """Draw rounds without end, four by four."""
    shapes = _shapes(len(everyone) // len(_ARMS))
    while True:
        for shape in _block(draw, shapes, len(everyone)):
            yield _named(draw, everyone, shape)


def _block(draw: random.Random, shapes: _Shapes, turns: int) -> list[_Shape]:
    """Draw three rounds until there is a fourth that balances them."""
    copies = ROUNDS * turns // len(_PAIRS)
    while True:
        three = [draw.choice(shapes.every) for _ in range(ROUNDS - 1)]
        firsts = {shape.first for shape in three}
        missing = tuple(
            copies - sum(so_far) for so_far in zip(*(shape.after for shape in three), strict=True)
        )
        fitting = [
            shape for shape in shapes.by_counts.get(missing, ()) if shape.first not in firsts
        ]
        if fitting and len(firsts) == len(three):
            return [*three, draw.choice(fitting)]


@lru_cache(maxsize=8)
def _shapes(per_arm: int) -> _Shapes:
    every = tuple(
        _Shape(last, turns, counts(last, turns))
        for last in _PAIRS
        for turns in sorted(set(permutations(per_arm * _ARMS)))
    )
    by_counts: dict[tuple[int, ...], list[_Shape]] = {}
    for shape in every:
        by_counts.setdefault(shape.after, []).append(shape)
    return _Shapes(every, by_counts)


def counts(last: Names, turns: Names) -> tuple[int, ...]:
    """Count the arms one, then two, before each turn's arm; `last` are the last two that made."""
    arms = [name[0] for name in (*last[-2:], *turns)]
    return tuple(
        list(zip(arms[2 - back :], arms[2:], strict=False)).count(pair)
        for back in (1, 2)
        for pair in _PAIRS
    )


def _named(draw: random.Random, everyone: Names, shape: _Shape) -> Round:
    """Put processes in the arms' places; the last to make a trainer has not the first turn."""
    mixed = draw.sample(everyone, len(everyone))
    turns = tuple(_taken(mixed, arm) for arm in shape.turns)
    makes = draw.sample([name for name in everyone if name != turns[0]], len(everyone) - 1)
    last = _taken(makes, shape.last[1])
    makes.insert(draw.randrange(len(makes) + 1), turns[0])
    before = _taken(makes, shape.last[0])
    return Round((*makes, before, last), turns)


def _taken(remaining: list[str], arm: str) -> str:
    """Take the first process of an arm out of those that are left."""
    return remaining.pop(next(i for i, name in enumerate(remaining) if name[0] == arm))
