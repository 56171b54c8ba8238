"""A GPU's model against what the site says of it. Pure.

The tables hold what centres have; a model that is not in them is not judged. Intel's are left
out: no table of Intel's that names targets as compilers do was found.
"""

import re
from collections.abc import Iterator

from dlcontainer.planning.compatibility import FIRST_CUDA_FOR_GPU, FIRST_CUDA_SOURCE
from dlcontainer.planning.conflicts.model import FactConflict
from dlcontainer.planning.device_code import capability
from dlcontainer.planning.versions import compare, numbers, written
from dlcontainer.sites.site import Site

# Source: developer.nvidia.com/cuda-gpus and /cuda-legacy-gpus (read 2026-11-26).
NVIDIA_SOURCE = "developer.nvidia.com/cuda-gpus, cuda-legacy-gpus"
_NVIDIA: dict[str, str] = {
    "12.1": "GB10",
    "12.0": "RTX PRO 6000",
    "10.3": "GB300 B300",
    "10.0": "GB200 B200",
    "9.0": "GH200 H200 H100",
    "8.9": "L40S L40 L4",
    "8.6": "A40 A16 A10 A2",
    "8.0": "A100 A30",
    "7.5": "T4",
    "7.0": "V100 GV100",
    "6.1": "P40 P4",
    "6.0": "P100 GP100",
}
# Source: rocm.docs.amd.com/en/7.13.0-preview/reference/gpu-specs.html; MI250, MI210 and MI100 also
# in LLVM's User Guide for the AMDGPU Backend.
AMD_SOURCE = "rocm.docs.amd.com, AMD GPU specifications (7.13.0)"
_AMD: dict[str, str] = {
    "gfx950": "MI355X MI350X",
    "gfx942": "MI325X MI300X MI300A",
    "gfx90a": "MI250X MI250 MI210",
    "gfx908": "MI100",
}


def _models() -> dict[str, str]:
    table = {"RTX PRO 6000": "12.0"}
    for target, names in {**_NVIDIA, **_AMD}.items():
        if target != "12.0":
            table |= dict.fromkeys(names.split(), target)
    return table


# Each model -> its compute capability, or AMD's name of the processor.
MODELS = _models()
# A model's name by itself: A100-SXM4 is an A100, XA100B is not.
_NAMES = re.compile(r"(?<![A-Za-z0-9])(?:" + "|".join(map(re.escape, MODELS)) + r")(?![A-Za-z0-9])")
_MAKERS = {"nvidia": "nvidia", "amd": "amd", "intel": "intel"}


def model_target(site: Site) -> Iterator[FactConflict]:
    """Refuse a GPU whose model has another target than the site says.

    A model may be named with a second one that it holds: GH200 (H100 96 GB).
    """
    gpu = site.accelerator
    if gpu is None or gpu.target is None:
        return
    named = {name: MODELS[name] for name in _NAMES.findall(gpu.model)}
    if named and _plain(gpu.target) not in named.values():
        name, gpu_code = next(iter(named.items()))
        of_amd = gpu_code.startswith("gfx")
        target = gpu_code if of_amd else f"sm_{gpu_code.replace('.', '')}"
        yield FactConflict(
            what=f"{name} is {target}, but accelerator.target is {gpu.target}",
            why=AMD_SOURCE if of_amd else NVIDIA_SOURCE,
            first=("accelerator", "target"),
            second=("accelerator", "model"),
            way_out=f"write accelerator.target: {target}, or correct the model",
        )


def _plain(target: str) -> str:
    """Write a target as the table does: 9.0 of sm_90a, gfx90a of gfx90a:xnack-."""
    read = capability(target)
    return ".".join(map(str, read.number)) if read else target.partition(":")[0]


def model_vendor(site: Site) -> Iterator[FactConflict]:
    """Refuse a GPU whose model names another vendor than the site does."""
    gpu = site.accelerator
    if gpu is None:
        return
    words = {word.lower() for word in re.findall(r"[A-Za-z]+", gpu.model)} & set(_MAKERS)
    if words and gpu.vendor not in words:
        yield FactConflict(
            what=f"the model names {' and '.join(sorted(words))}, but the vendor is {gpu.vendor}",
            why="the vendor decides the runtime's GPU flag and the builds that can run",
            first=("accelerator", "vendor"),
            second=("accelerator", "model"),
        )


def toolkit_before_gpu(site: Site) -> Iterator[FactConflict]:
    """Refuse a site whose newest CUDA is older than the first that knows its GPU."""
    gpu = site.accelerator
    gpu_capability = capability((gpu and gpu.target) or "")
    first = FIRST_CUDA_FOR_GPU.get(gpu_capability.number) if gpu_capability else None
    newest = numbers((gpu and gpu.toolkit) or "")
    if gpu and gpu.vendor == "nvidia" and first and newest and compare(newest, first) == -1:
        yield FactConflict(
            what=f"CUDA {gpu.toolkit} does not support {gpu.target}: {written(first)} is "
            "the first release that does",
            why=FIRST_CUDA_SOURCE,
            first=("accelerator", "toolkit"),
            second=("accelerator", "target"),
        )
