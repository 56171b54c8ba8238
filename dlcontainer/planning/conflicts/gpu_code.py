"""NVIDIA's names of GPU code: sm_70 for machine code, compute_70 for PTX."""

import re
from dataclasses import dataclass
from typing import Literal

from dlcontainer.planning.compatibility import TEGRA

_NAME = re.compile(r"(sm|compute)_([0-9]{1,3})([0-9])([af]?)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Capability:
    """A compute capability as a target of code."""

    kind: Literal["sm", "compute"]
    number: tuple[int, int]
    suffix: str

    def runs_as_machine_code_on(self, gpu: "Capability") -> bool:
        """Whether machine code for this target runs on a GPU."""
        if self.kind != "sm":
            return False
        if self.suffix == "a" or {self.number, gpu.number} & TEGRA:
            return self.number == gpu.number
        return self.number[0] == gpu.number[0] and self.number[1] <= gpu.number[1]

    def compiles_for(self, gpu: "Capability") -> bool:
        """Whether PTX for this target can be compiled for a GPU when the program starts."""
        if self.kind != "compute":
            return False
        return self.number == gpu.number if self.suffix == "a" else self.number <= gpu.number


def capability(text: str) -> Capability | None:
    """Read sm_70, sm_90a or compute_80; None for any other name."""
    found = _NAME.fullmatch(text)
    if found is None:
        return None
    kind: Literal["sm", "compute"] = "sm" if found[1] == "sm" else "compute"
    return Capability(kind=kind, number=(int(found[2]), int(found[3])), suffix=found[4])
