"""Facts of one site that contradict each other: no machine is like that. Pure."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dlcontainer.config import suggest
from dlcontainer.planning.compatibility import (
    CPU_FEATURES,
    CPU_SOURCE,
    LAST_CUDA_BELOW,
    LAST_CUDA_FOR_ARCH,
    LastRelease,
)
from dlcontainer.planning.conflicts.model import FactConflict
from dlcontainer.planning.device_code import capability, vendor_of
from dlcontainer.planning.versions import compare, numbers, written
from dlcontainer.sites.site import Site

if TYPE_CHECKING:
    from dlcontainer.config import KeyPath

# What a group of instructions says of the architecture; the groups are those of CPU_FEATURES.
_ARCH_OF = {"x86": "x86_64", "power": "ppc64le", "aarch64": "aarch64"}
# Processors with fast memory of their own: MCDRAM, HBM. Source: Intel's and Fujitsu's data sheets
# of Xeon Phi, Xeon Max and A64FX (remembered).
_FAST_MEMORY = frozenset({"knl", "knm", "sapphirerapids", "a64fx"})


def processor(site: Site) -> Iterator[FactConflict]:
    """Refuse a processor of another architecture than the site's."""
    target = site.cpu.target if site.cpu else None
    archs = {_ARCH_OF[name] for name in CPU_FEATURES.get(target or "", ()) if name in _ARCH_OF}
    if archs and site.arch not in archs:
        yield FactConflict(
            what=f"{target} is a processor for {' or '.join(sorted(archs))}, but the site "
            f"is {site.arch}",
            why=CPU_SOURCE,
            first=("cpu", "target"),
            second=("arch",),
        )


def gpu_vendor(site: Site) -> Iterator[FactConflict]:
    """Refuse a GPU target of another vendor than the site's."""
    gpu = site.accelerator
    vendor = vendor_of(gpu.target) if gpu and gpu.target else None
    if gpu and vendor and vendor != gpu.vendor:
        yield FactConflict(
            what=f"{gpu.target} is a GPU of {vendor}, but the site's vendor is {gpu.vendor}",
            why="sm_… are NVIDIA's names, gfx… are AMD's",
            first=("accelerator", "target"),
            second=("accelerator", "vendor"),
        )


def toolkit(site: Site) -> Iterator[FactConflict]:
    """Refuse a CUDA that has dropped the site's GPU or architecture."""
    gpu = site.accelerator
    if gpu is None or gpu.vendor != "nvidia" or gpu.toolkit is None:
        return
    gpu_capability = capability(gpu.target or "")
    generation = next(
        (
            last
            for below, last in LAST_CUDA_BELOW
            if gpu_capability and gpu_capability.number < below
        ),
        None,
    )
    limits: tuple[tuple[str | None, LastRelease | None, KeyPath], ...] = (
        (site.arch, LAST_CUDA_FOR_ARCH.get(site.arch), ("arch",)),
        (gpu.target, generation, ("accelerator", "target")),
    )
    newest = numbers(gpu.toolkit)
    for what, last, place in limits:
        # A patch release of the last line is of that line.
        if last and newest and compare(newest, last.release) == 1:
            yield FactConflict(
                what=f"CUDA {gpu.toolkit} does not support {what}: {written(last.release)} "
                "is the last release that does",
                why=last.source,
                first=("accelerator", "toolkit"),
                second=place,
            )


def fast_memory(site: Site) -> Iterator[FactConflict]:
    """Refuse fast memory of its own with a processor that has none."""
    target = site.cpu.target if site.cpu else None
    if site.memory and site.memory.fast_gb and target in CPU_FEATURES:
        if target in _FAST_MEMORY or target.startswith("x86-64"):
            return
        yield FactConflict(
            what=f"{target} has no fast memory of its own (MCDRAM, HBM)",
            why="only Xeon Phi, Xeon Max (sapphirerapids) and A64FX have it",
            first=("memory", "fast_gb"),
            second=("cpu", "target"),
        )


def unknown(site: Site) -> Iterator[str]:
    """Yield what of a site's facts is no name that anything is known of."""
    target = site.cpu.target if site.cpu else None
    if target and target not in CPU_FEATURES:
        yield (
            "cpu.target: dlcontainer does not know "
            f"{target!r}{_near_cpu(target, site.arch)}: cannot guarantee that code for it, "
            "or for other processors, runs there"
        )


def _near_cpu(target: str, arch: str) -> str:
    """Suggest the processor that is meant, of those of the architecture."""
    processors = [
        name
        for name, has in CPU_FEATURES.items()
        if arch in {_ARCH_OF.get(feature) for feature in has}
    ]
    # As AMD says it, and GCC does not: Zen 4 is znver4.
    as_gcc = re.sub(r"^zen[-_]?(?=[0-9])", "znver", target)
    return suggest(as_gcc, processors)
