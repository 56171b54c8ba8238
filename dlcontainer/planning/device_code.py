"""Device code against a GPU: which code runs there, and how well. Pure; each rule has its source.

NVIDIA: a cubin (`sm_86`) runs on its own major version with the same or a higher minor one; PTX
(`compute_90`, or `sm_90+PTX` for both) is compiled for any newer GPU when a program starts.
Embedded parts take their own cubins only, and give theirs to no other.
    Source: CUDA C++ Best Practices Guide and Programming Guide, Binary Compatibility and PTX
    Compatibility; that Tegra stands apart: the same section.
`a` (`sm_90a`) is for this very GPU, as cubin and as PTX; `f` (`sm_100f`) for its family, which is
the same major version with the same or a higher minor one.
    Source: CUDA Programming Guide, Architecture- and Family-Specific Features.
AMD: code is for one processor, in the modes that its name gives (`gfx90a:xnack-`; one that it does
not give is free); `gfx9-4-generic` and its like serve a list of processors.
    Source: LLVM, User Guide for the AMDGPU Backend, Generic Processor Code Object Versioning
    (table of generic processors) and Target ID; the table as in AMD's hip-tests.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from dlcontainer.config.gpu_targets import AMD, NVIDIA

SASS_SOURCE = (
    "CUDA Programming Guide, Binary Compatibility: code runs on GPUs of its own major and the "
    "same or a higher minor"
)
PTX_SOURCE = (
    "CUDA Runtime API, cudaErrorUnsupportedPtxVersion: a driver compiles no PTX of newer toolkits"
)
GFX_SOURCE = "AMD's code objects are made for one processor (LLVM, User Guide for AMDGPU)"

# Compute capabilities of NVIDIA's embedded parts: their code and that of other GPUs never mix.
# Thor was 10.1 and is 11.0 since CUDA 13 (CUDA 13.0 Release Notes); 8.8: remembered.
TEGRA = frozenset({(5, 3), (6, 2), (7, 2), (8, 7), (8, 8), (10, 1), (11, 0)})
GENERIC_GFX: dict[str, frozenset[str]] = {
    name: frozenset(f"gfx{number}" for number in numbers.split())
    for name, numbers in {
        "gfx9-generic": "900 902 904 906 909 90c",
        "gfx9-4-generic": "940 941 942 950",
        "gfx10-1-generic": "1010 1011 1012 1013",
        "gfx10-3-generic": "1030 1031 1032 1033 1034 1035 1036",
        # 1152 and 1153: LLVM's table; AMD's stops at 1151.
        "gfx11-generic": "1100 1101 1102 1103 1150 1151 1152 1153",
        "gfx12-generic": "1200 1201",
    }.items()
}
# The mode of a GPU whose target gives none. xnack is off unless the site turns it on
# (HSA_XNACK=1), sramecc is on in data centre parts. Source: AMD's ROCm documentation (remembered).
USUAL_MODES = {"xnack": "-", "sramecc": "+"}


class CodeFit(IntEnum):
    """How code runs on a GPU, the best first."""

    NATIVE = 0
    RELATED = 1  # a cubin of a lower minor version, a generic processor
    COMPILED = 2  # PTX, SPIR-V: compiled when the program starts


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """The code that a GPU takes of several."""

    code: str
    fit: CodeFit

    @property
    def words(self) -> str:
        """The match in words, for the plan."""
        return {
            CodeFit.NATIVE: f"native code {self.code}",
            CodeFit.RELATED: f"code of a related GPU, {self.code}",
            CodeFit.COMPILED: f"{self.code}, compiled when a program starts",
        }[self.fit]


@dataclass(frozen=True, kw_only=True, slots=True)
class Capability:
    """A compute capability as a target of code."""

    kind: Literal["sm", "compute"]
    number: tuple[int, int]
    suffix: str

    def fit(self, gpu: "Capability") -> CodeFit | None:
        """Return how code for this target runs on a GPU; None where it does not."""
        if self.suffix == "a":
            return self._own() if self.number == gpu.number else None
        in_family = self.number[0] == gpu.number[0] and self.number[1] <= gpu.number[1]
        if self.kind == "compute":
            newer = in_family if self.suffix == "f" else self.number <= gpu.number
            return CodeFit.COMPILED if newer else None
        if self.number == gpu.number:
            return CodeFit.NATIVE
        return CodeFit.RELATED if in_family and not {self.number, gpu.number} & TEGRA else None

    def _own(self) -> CodeFit:
        return CodeFit.NATIVE if self.kind == "sm" else CodeFit.COMPILED


def capability(text: str) -> Capability | None:
    """Read sm_70, sm_90a or compute_80; None for any other name."""
    read = NVIDIA.fullmatch(text)
    if read is None or read[5]:
        return None
    kind: Literal["sm", "compute"] = "sm" if read[1] == "sm" else "compute"
    return Capability(kind=kind, number=(int(read[2]), int(read[3])), suffix=read[4])


def vendor_of(target: str) -> str | None:
    """Name the vendor that a target is of; None for a name that is no NVIDIA or AMD one."""
    if NVIDIA.fullmatch(target):
        return "nvidia"
    return "amd" if target.startswith("gfx") else None


def spread(codes: Iterable[str]) -> list[str]:
    """Write `sm_90+PTX` as the two that it stands for: sm_90 and compute_90."""
    parts = []
    for code in codes:
        bare = code.removesuffix("+PTX")
        parts.append(bare)
        if bare != code:
            parts.append(bare.replace("sm_", "compute_"))
    return parts


def best(codes: Iterable[str], target: str) -> Match | None:
    """Return the code that runs best on a GPU; None where none of them runs there."""
    matches = [
        Match(code=code, fit=fit)
        for code in spread(codes)
        if (fit := _fit(code, target)) is not None
    ]
    # Of code of the same fit the nearest: the highest minor, the newest PTX.
    return min(matches, key=lambda match: (match.fit, _farness(match.code)), default=None)


def _farness(code: str) -> tuple[int, int]:
    read = capability(code)
    return (-read.number[0], -read.number[1]) if read else (0, 0)


def _fit(code: str, target: str) -> CodeFit | None:
    gpu, read = capability(target), capability(code)
    if gpu is not None:
        return read.fit(gpu) if read else None
    if target.startswith("gfx"):
        return _gfx(code, target)
    if code == target:
        return CodeFit.NATIVE
    # SPIR-V serves any GPU of those that are neither NVIDIA's nor AMD's.
    return CodeFit.COMPILED if code.startswith("spir") else None


def _gfx(code: str, target: str) -> CodeFit | None:
    made_for, gpu = AMD.fullmatch(code), AMD.fullmatch(target)
    if made_for is None or gpu is None:
        return None
    modes = USUAL_MODES | _modes(gpu[2])
    if any(modes.get(name) != mode for name, mode in _modes(made_for[2]).items()):
        return None
    if made_for[1] == gpu[1]:
        return CodeFit.NATIVE
    return CodeFit.RELATED if gpu[1] in GENERIC_GFX.get(made_for[1], frozenset()) else None


def _modes(text: str) -> dict[str, str]:
    return {part[:-1]: part[-1] for part in text.split(":") if part}
