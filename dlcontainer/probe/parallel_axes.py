"""How ranks share a training: `dp2xtp2` as numbers of ranks, and a rank's place. Python >= 3.6.

dp: copies that average gradients; fsdp: parts of weights, gradients and the optimizer's state; tp:
parts of each layer; pp: stages of layers. Neighbours are of one tensor group, then of one fsdp
group, then of one dp group; stages lie farthest apart: the axes that talk most lie closest.
"""

import re

# The last one changes from a rank to the next.
AXES = ("pp", "dp", "fsdp", "tp")
_TERM = re.compile(r"(dp|fsdp|tp|pp)([1-9][0-9]{0,6})$")


class AxesError(Exception):
    """A name is none of a strategy, or its ranks are not those that there are."""


class Axes(object):
    """Numbers of ranks along each axis."""

    def __init__(self, text):
        self.name, self.sizes = text, dict.fromkeys(AXES, 1)
        seen = set()
        for word in text.split("x"):
            term = _TERM.match(word)
            if term is None or term.group(1) in seen:
                raise AxesError(
                    "--parallel {}: join dp, fsdp, tp and pp with their numbers of ranks by x, "
                    "each once: dp2xtp2".format(text)
                )
            seen.add(term.group(1))
            self.sizes[term.group(1)] = int(term.group(2))

    def __getitem__(self, axis):
        return self.sizes[axis]

    @property
    def ranks(self):
        """Give the number of ranks."""
        return self["pp"] * self["dp"] * self["fsdp"] * self["tp"]

    @property
    def streams(self):
        """Give how many ranks, or groups of them, train on samples of their own."""
        return self["dp"] * self["fsdp"]

    @property
    def shares(self):
        """Give how many ranks train together on the samples of one stream."""
        return self["pp"] * self["tp"]

    @property
    def is_plain(self):
        """Tell whether ranks do nothing but average gradients."""
        return self["dp"] == self.ranks

    def at(self, rank):
        """Give a rank's number along each axis."""
        places = {}
        for axis in reversed(AXES):
            rank, places[axis] = divmod(rank, self[axis])
        return places

    def stream(self, rank):
        """Give the number of the samples that a rank trains on."""
        places = self.at(rank)
        return places["dp"] * self["fsdp"] + places["fsdp"]

    def hold(self, ranks):
        """Hold the strategy against the ranks that there are; raises AxesError."""
        if self.ranks != ranks:
            raise AxesError(
                "--parallel {}: it takes {} ranks, and there are {}".format(
                    self.name, self.ranks, ranks
                )
            )
