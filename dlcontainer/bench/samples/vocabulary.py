"""The closed sets of a benchmark's command line, and numbers of things; cheap to import."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

ArmName = Literal["native", "bare", "unpacked", "container"]
# These run on the host as it is; the others through an engine.
ON_HOST: frozenset[ArmName] = frozenset({"native", "bare"})
# How an import is shown the native tree.
NativeAs = Literal["tree", "staged", "packed", "squashfs"]
Question = Literal["overhead", "deployment"]
# Ranks import when all are there, or each as soon as it can.
Start = Literal["storm", "natural"]
# In a declaration: the CPUs that the job asked for each rank, where anything said it.
CPUS_ASKED = "cpus_asked"


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmPair:
    """Two arms, the second held against the first."""

    reference: ArmName
    candidate: ArmName

    @property
    def names(self) -> tuple[ArmName, ArmName]:
        """Both, the reference first."""
        return self.reference, self.candidate


IMAGE_MOUNT = "image mount"
# What two arms of one session differ in; of three arms, the outer two come first.
MEANINGS: Mapping[ArmPair, str] = {
    ArmPair(reference="native", candidate="container"): "the whole",
    ArmPair(reference="native", candidate="unpacked"): "build and namespaces",
    ArmPair(reference="native", candidate="bare"): "build",
    ArmPair(reference="bare", candidate="container"): "engine",
    ArmPair(reference="bare", candidate="unpacked"): "engine without the image mount",
    ArmPair(reference="unpacked", candidate="container"): IMAGE_MOUNT,
}
# Three arms back to back.
TRIPLES: tuple[tuple[ArmName, ArmName, ArmName], ...] = (
    ("native", "unpacked", "container"),
    ("native", "bare", "container"),
    ("bare", "unpacked", "container"),
)


def counted(count: int, singular: str, more: str = "") -> str:
    """Write a number of things.

    >>> counted(1, "pair"), counted(1200, "pair")
    ('1 pair', '1,200 pairs')
    """
    return f"{count:,} {singular}" if count == 1 else f"{count:,} {more or singular + 's'}"
