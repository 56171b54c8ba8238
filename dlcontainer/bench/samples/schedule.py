"""How often the arms of a session are launched: its numbers, and those that a verdict takes."""

from dataclasses import dataclass

from dlcontainer.bench.samples import launch_order
from dlcontainer.bench.samples.launch_order import Group, LaunchCounts
from dlcontainer.bench.samples.vocabulary import ArmName

FEWEST = 8
FEWEST_TRIPLES = 12
DEFAULT_LOOKS = (8, 16, 32)
DEFAULT_TRIPLES = (12, 18, 36)
# One in so many of the longest session may be lost and measured again.
_LOST_SHARE = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """The arms and how often they are launched, in an order drawn with the seed.

    `looks` are the numbers of pairs (triples) at which the session may end; the last one is its
    longest. Without `arms` it is the native side, or what stands for it, and the container.
    """

    looks: tuple[int, ...]
    seed: int
    arms: tuple[ArmName, ...] = ()
    controls: int = 0
    candidate_controls: int = 0
    joiners: int = 0
    # Groups of resident processes in place of pairs.
    grouped: bool = False

    @property
    def longest(self) -> int:
        """The pairs (triples) of the last look."""
        return self.looks[-1]

    @property
    def unit(self) -> str:
        """Which of them are counted."""
        if self.grouped:
            return "groups"
        return "triples" if self.is_triple else "pairs"

    @property
    def is_triple(self) -> bool:
        """Whether three arms are launched back to back."""
        return len(self.arms) == 3

    @property
    def fewest(self) -> int:
        """The pairs (triples) that a verdict takes."""
        return FEWEST_TRIPLES if self.is_triple else FEWEST

    @property
    def lost_most(self) -> int:
        """How many pairs, triples or groups may be lost and measured again."""
        return max(2, self.longest // _LOST_SHARE)

    def stages(self, *, with_joiners: bool) -> list[list[Group]]:
        """Return all pairs and triples, one list for what comes before each look."""
        counts = LaunchCounts(
            joiners=self.joiners if with_joiners else 0,
            controls=self.controls,
            candidate_controls=self.candidate_controls,
            triples=self.is_triple,
        )
        return launch_order.plan_stages(looks=self.looks, counts=counts, seed=self.seed)
