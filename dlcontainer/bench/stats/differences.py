"""Log-ratios of pairs, with what of the schedule may shift each of them. Pure."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload


class PairOrder(NamedTuple):
    """How a pair ran: the places of its reference and candidate, and what ran before each.

    `carry` has a number for each arm of the session but the first: 1 where that arm ran just
    before the candidate, less 1 where it ran just before the reference.
    """

    places: tuple[int, int]
    carry: tuple[int, ...] = ()

    @property
    def candidate_first(self) -> bool:
        """Whether the candidate ran before the reference."""
        return self.places[1] < self.places[0]


AFTER, BEFORE = (0, 1), (1, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class PairDifference:
    """One pair: its number, d, and whether the candidate ran before the reference.

    In a triple `places` are the reference's and the candidate's, from 0.
    """

    number: int
    d: float
    candidate_first: bool
    places: tuple[int, int] | None = None
    carry: tuple[int, ...] = ()

    @property
    def ran(self) -> PairOrder:
        """How it ran."""
        return PairOrder(self.places or (BEFORE if self.candidate_first else AFTER), self.carry)


class Differences(Sequence[PairDifference]):
    """Many pairs as columns, for there may be a million: numbers, d, and how each pair ran."""

    def __init__(
        self, numbers: Iterable[int], d: Iterable[float], ran: Sequence[PairOrder]
    ) -> None:
        self.numbers, self.d, self.ran = array("Q", numbers), array("d", d), ran

    @classmethod
    def of(cls, pairs: Sequence[PairDifference]) -> "Differences":
        """Return pairs as columns."""
        if isinstance(pairs, Differences):
            return pairs
        orders: dict[PairOrder, PairOrder] = {}
        ran = [orders.setdefault(item.ran, item.ran) for item in pairs]
        return cls((item.number for item in pairs), (item.d for item in pairs), ran)

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> PairDifference: ...
    @overload
    def __getitem__(self, index: slice) -> "Differences": ...
    def __getitem__(self, index: int | slice) -> "PairDifference | Differences":
        if isinstance(index, slice):
            return Differences(self.numbers[index], self.d[index], self.ran[index])
        ran = self.ran[index]
        return PairDifference(
            number=self.numbers[index],
            d=self.d[index],
            candidate_first=ran.candidate_first,
            places=ran.places,
            carry=ran.carry,
        )
