"""The rule of drivers: do they run the CUDA or ROCm that the image's files are linked to."""

import re
from collections.abc import Iterator

from dlcontainer.planning.compatibility import CUDA_DRIVERS, CUDA_SOURCE, ROCM_DRIVER_SOURCE
from dlcontainer.planning.conflicts.toolkits import line_of, rocm_driver
from dlcontainer.planning.versions import Numbers, compare, numbers, written
from dlcontainer.sites.facts import Accelerator
from dlcontainer.sites.site import Site
from dlcontainer.validate.static.finding import RuleFinding, needing
from dlcontainer.validate.static.questions import StaticQuestions

_CUDART = re.compile(r"libcudart\.so\.(\d+)(?:\.(\d+))?")
# HIP's library has the number of ROCm's major release: 7 in the wheel jax-rocm7-plugin 0.12.0; 5
# and 6 remembered.
_HIP = re.compile(r"libamdhip64\.so\.(\d+)()")
# 11.0 is the name of all of CUDA 11's: from there on, a major line has one name.
_ONE_NAME = 11


def driver_of(site: Site) -> Numbers | None:
    """Return the site's driver of accelerators; None where it is not stated, or is no version."""
    return numbers((site.accelerator and site.accelerator.driver) or "")


def gpu_driver(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Hold the CUDA or ROCm that the image's files are linked to against the site's driver."""
    gpu = image.site.accelerator
    if gpu is not None and gpu.vendor == "nvidia":
        for release, paths in _linked(image, _CUDART):
            yield from _against_driver(image, gpu, release, paths)
    elif gpu is not None and gpu.vendor == "amd":
        for release, paths in _linked(image, _HIP):
            yield from _against_amdgpu(image, gpu, release, paths)


def _linked(image: StaticQuestions, name: re.Pattern[str]) -> list[tuple[Numbers, list[str]]]:
    """Return the releases of a toolkit that files are linked to, by a library's name."""
    users: dict[Numbers, list[str]] = {}
    for path, file in sorted(image.files.items()):
        for match in map(name.fullmatch, file.described.needed if file.described else ()):
            if match:
                major, minor = int(match[1]), match[2]
                has_minor = minor and major < _ONE_NAME
                release: Numbers = (major, int(minor)) if has_minor else (major,)
                users.setdefault(release, []).append(path)
    return sorted(users.items())


def _against_driver(
    image: StaticQuestions, gpu: Accelerator, release: Numbers, paths: list[str]
) -> Iterator[RuleFinding]:
    line = line_of((*release, 1) if len(release) == 1 else release)
    driver = driver_of(image.site)
    if line is None or driver is None:
        yield RuleFinding(
            level="not decided",
            file=paths[0],
            what=f"{needing(paths)} CUDA {written(release)}; the site's driver is "
            f"{gpu.driver or 'not stated (accelerator.driver)'}",
            why=f"an older driver than CUDA's least sees no GPU ({CUDA_SOURCE})",
            fix="write accelerator.driver into the site's file",
        )
    elif compare(driver, line.driver) == -1:
        yield RuleFinding(
            level="error" if set(paths) & image.required else "warning",
            file=paths[0],
            what=f"{needing(paths)} CUDA {written(release)}, which needs driver "
            f"{written(line.driver)} or newer; the site has {gpu.driver}",
            why=f"with an older driver programs find no usable GPU ({CUDA_SOURCE})",
            fix=f"{_older_cuda(driver)}; is the site's driver newer than its file says "
            "(`nvidia-smi`)? Write accelerator.driver",
        )


def _older_cuda(driver: Numbers) -> str:
    newest = next((line for line in CUDA_DRIVERS if compare(driver, line.driver) in (0, 1)), None)
    return f"take a build for CUDA {newest.last[0]} or older" if newest else "take an older build"


def _against_amdgpu(
    image: StaticQuestions, gpu: Accelerator, release: Numbers, paths: list[str]
) -> Iterator[RuleFinding]:
    """Compare major releases: a library's name says no more of ROCm's."""
    line = rocm_driver(gpu)
    if line is None:
        yield RuleFinding(
            level="not decided",
            file=paths[0],
            what=f"{needing(paths)} ROCm {written(release)}; the releases that the site's driver "
            f"({gpu.driver or 'accelerator.driver is not stated'}) runs are open",
            why="a driver runs a range of releases",
            fix="write accelerator.driver as `modinfo amdgpu` says it",
        )
    elif not line.first[0] <= release[0] <= line.last[0]:
        yield RuleFinding(
            level="error" if set(paths) & image.required else "warning",
            file=paths[0],
            what=f"{needing(paths)} ROCm {written(release)}; driver {gpu.driver} runs "
            f"{written(line.first)} to {written(line.last)}",
            why=f"its libraries ask the driver for what it does not have ({ROCM_DRIVER_SOURCE})",
            fix=f"take a build for ROCm {written(line.last)} or older",
        )
