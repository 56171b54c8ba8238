"""Compilers, toolkits and targets of one recipe against each other: what can't have been built."""

from collections.abc import Iterator
from dataclasses import dataclass

from dlcontainer.planning.compatibility import (
    FIRST_CUDA_FOR_GPU,
    FIRST_CUDA_FOR_SUFFIX,
    FIRST_CUDA_SOURCE,
    FIRST_ROCM_FOR_GPU,
    FIRST_ROCM_SOURCE,
    LAST_CUDA_BELOW,
    NEWEST_GCC_FOR_CUDA,
    NEWEST_GCC_SOURCE,
    LastRelease,
)
from dlcontainer.planning.conflicts.model import FactConflict
from dlcontainer.planning.device_code import Capability, capability, spread, vendor_of
from dlcontainer.planning.versions import Numbers, compare, numbers, written
from dlcontainer.recipes.recipe import Recipe

# 10.1 became 11.0 (Thor). Source: CUDA 13.0 Release Notes.
_RENAMED = {
    (10, 1): LastRelease(
        release=(12, 9), source="CUDA 13.0 Release Notes: sm_101 is called sm_110 there"
    )
}


def gcc_for_cuda(recipe: Recipe) -> Iterator[FactConflict]:
    """Refuse a GCC that is newer than CUDA's compiler takes as its host's."""
    stack = recipe.stack
    gcc, cuda = numbers(stack.gcc or ""), numbers(stack.cuda or "")
    newest = NEWEST_GCC_FOR_CUDA.get(cuda[:2]) if cuda else None
    if gcc and newest and gcc[0] > newest:
        yield FactConflict(
            what=f"GCC {stack.gcc} is newer than {newest}, the newest that CUDA "
            f"{stack.cuda} supports",
            why=f"nvcc stops with 'unsupported GNU version' ({NEWEST_GCC_SOURCE})",
            first=("stack", "gcc"),
            second=("stack", "cuda"),
            way_out=f"compile with GCC {newest}, or use a newer CUDA",
        )


def cuda_targets(recipe: Recipe) -> Iterator[FactConflict]:
    """Refuse GPU targets that the recipe's CUDA can't compile: not yet, or no more."""
    stack = recipe.stack
    cuda = numbers(stack.cuda or "")
    for index, target in enumerate(stack.gpu_targets if cuda else ()):
        read = capability(spread([target])[0])
        limit = _can_not(cuda or (), read) if read else None
        if limit:
            yield FactConflict(
                what=f"CUDA {stack.cuda} cannot compile for {target}: {limit.what}",
                why=limit.source,
                first=("stack", "gpu_targets", index),
                second=("stack", "cuda"),
                way_out="remove the target from the list, or correct the version of CUDA",
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class _ToolkitLimit:
    """Why a target can't be compiled for, and where that is said."""

    what: str
    source: str


def _can_not(cuda: Numbers, target: Capability) -> _ToolkitLimit | None:
    suffix = FIRST_CUDA_FOR_SUFFIX.get(target.suffix, ())
    first = max(FIRST_CUDA_FOR_GPU.get(target.number, ()), suffix)
    if first and compare(cuda, first) == -1:
        return _ToolkitLimit(
            what=f"{written(first)} is the first release that can", source=FIRST_CUDA_SOURCE
        )
    last = _RENAMED.get(target.number) or next(
        (last for below, last in LAST_CUDA_BELOW if target.number < below), None
    )
    if last and compare(cuda, last.release) == 1:
        return _ToolkitLimit(
            what=f"{written(last.release)} is the last release that can", source=last.source
        )
    return None


def rocm_targets(recipe: Recipe) -> Iterator[FactConflict]:
    """Refuse GPU targets that the recipe's ROCm does not know yet."""
    stack = recipe.stack
    rocm = numbers(stack.rocm or "")
    for index, target in enumerate(stack.gpu_targets if rocm else ()):
        first = FIRST_ROCM_FOR_GPU.get(target.partition(":")[0])
        if rocm and first and compare(rocm, first) == -1:
            yield FactConflict(
                what=f"ROCm {stack.rocm} cannot compile for {target}: {written(first)} is "
                "the first release that can",
                why=FIRST_ROCM_SOURCE,
                first=("stack", "gpu_targets", index),
                second=("stack", "rocm"),
                way_out="remove the target from the list, or correct the version of ROCm",
            )


def target_vendor(recipe: Recipe) -> Iterator[FactConflict]:
    """Refuse a target of a vendor whose toolkit the build does not have."""
    stack = recipe.stack
    has = {"nvidia": ("cuda", stack.cuda), "amd": ("rocm", stack.rocm)}
    toolkits = [key for key, version in has.values() if version]
    for index, target in enumerate(stack.gpu_targets if toolkits else ()):
        vendor = vendor_of(target.replace("+PTX", ""))
        if vendor and not has[vendor][1]:
            yield FactConflict(
                what=f"{target} is a GPU of {vendor}, but the stack has {toolkits[0]} only",
                why="CUDA compiles for NVIDIA's sm_… only, ROCm for AMD's gfx… only",
                first=("stack", "gpu_targets", index),
                second=("stack", toolkits[0]),
                way_out="correct one of the two, or write a variant for each vendor",
            )
