"""A parallel strategy: how ranks share a training, by its usual short name (`dp2xpp2`)."""

import re
from dataclasses import dataclass
from math import prod
from typing import Literal, get_args

from dlcontainer.errors import UsageError

Axis = Literal["dp", "fsdp", "tp", "pp"]
AXES: tuple[Axis, ...] = get_args(Axis)
# These take the ranks that no number names: a data-parallel training has as many as there are.
_FLEXIBLE = ("dp", "fsdp")
_TERM = re.compile(r"(dp|fsdp|tp|pp)([1-9][0-9]{0,6})?")


@dataclass(frozen=True, kw_only=True, slots=True)
class ParallelStrategy:
    """Numbers of ranks along each axis; their product is the number of ranks.

    dp: copies that average gradients; fsdp: parts of parameters, gradients and optimizer state;
    tp: parts of each layer; pp: stages of layers.
    """

    dp: int = 1
    fsdp: int = 1
    tp: int = 1
    pp: int = 1

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return self.dp * self.fsdp * self.tp * self.pp

    @property
    def batches(self) -> int:
        """Return how many ranks (or groups of ranks) train on samples of their own."""
        return self.dp * self.fsdp

    @property
    def name(self) -> str:
        """Return the short name: the axes of more than one rank; dp1 where one process trains."""
        sizes = {axis: self.size(axis) for axis in AXES}
        return "x".join(f"{axis}{size}" for axis, size in sizes.items() if size > 1) or "dp1"

    def size(self, axis: Axis) -> int:
        """Return the number of ranks along an axis."""
        return {"dp": self.dp, "fsdp": self.fsdp, "tp": self.tp, "pp": self.pp}[axis]


def parse(text: str, ranks: int) -> ParallelStrategy:
    """Read a strategy for so many ranks: dp and fsdp without a number take the ranks that are left.

    Without dp and fsdp, dp takes them. Raises UsageError for what is none, or doesn't divide.
    """
    sizes = _sizes(text)
    free = [axis for axis in _FLEXIBLE if axis in sizes and sizes[axis] is None]
    if not free and not any(axis in sizes for axis in _FLEXIBLE):
        free = ["dp"]
    fixed = prod(size for size in sizes.values() if size)
    if len(free) > 1:
        raise UsageError(
            f"--parallel {text}: dp and fsdp are both without a number",
            next_step="write one of them with its number of ranks, e.g. dp2xfsdp",
        )
    if ranks % fixed or (not free and fixed != ranks):
        raise UsageError(
            f"--parallel {text}: {ranks} ranks can't be divided by {fixed}"
            if ranks % fixed
            else f"--parallel {text}: it takes {fixed} ranks, and there are {ranks}",
            next_step=f"set --ranks to a multiple of {fixed}, or take another strategy",
        )
    numbered = {axis: size for axis, size in sizes.items() if size}
    return ParallelStrategy(**numbered, **dict.fromkeys(free, ranks // fixed))


def _sizes(text: str) -> dict[str, int | None]:
    sizes: dict[str, int | None] = {}
    for word in text.split("x"):
        term = _TERM.fullmatch(word)
        if term is None or term[1] in sizes:
            raise UsageError(
                f"--parallel {text}: "
                + (f"{term[1]} stands there twice" if term else f"unknown term '{word}'"),
                next_step="join dp, fsdp, tp and pp by x, with numbers of ranks: tp2, dp2xpp2",
            )
        if term[2] is None and term[1] not in _FLEXIBLE:
            raise UsageError(
                f"--parallel {text}: {term[1]} has no number of ranks",
                next_step=f"write it with one, e.g. {term[1]}2",
            )
        sizes[term[1]] = int(term[2]) if term[2] else None
    return sizes
