"""A table of a report: rows of text, and the raw lines they come from."""

from collections.abc import Iterable
from dataclasses import dataclass

# A cell of as many characters is not broken: numbers with their interval, a few words.
_SHORT = 28


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows under a head; `strong` numbers (from 0) the rows that forbid the comparison.

    `anchor` and `ids` name the places of the table and of its rows in a page.
    """

    name: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    strong: tuple[int, ...] = ()
    numeric: bool = False
    anchor: str = ""
    ids: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return of each column whether its cells are `short`, and stay on one line, or `long`."""
        return tuple(
            "short" if all(len(row[i]) <= _SHORT for row in self.rows) else "long"
            for i in range(len(self.head))
        )


def ranges(numbers: Iterable[int]) -> str:
    """Write line numbers briefly: 3-5, 9.

    >>> ranges([9, 3, 4, 5])
    '3-5, 9'
    """
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][-1]:
            continue
        if spans and number == spans[-1][-1] + 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    return ", ".join("-".join(str(number) for number in run) for run in spans)
