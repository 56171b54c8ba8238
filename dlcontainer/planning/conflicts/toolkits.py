"""Toolkits for accelerators: whose they are, and which releases a site's parts can use."""

from collections.abc import Iterator

from dlcontainer.planning.compatibility import (
    CUDA_DRIVERS,
    CUDA_SOURCE,
    FIRST_CUDA_FOR_GPU,
    LAST_CUDA_BELOW,
    LAST_CUDA_FOR_ARCH,
    ROCM_DRIVER_SOURCE,
    ROCM_DRIVERS,
    ROCM_PACKAGE,
    LastRelease,
    RocmDriver,
    Toolkit,
)
from dlcontainer.planning.conflicts.model import Contradiction, Finding, UnknownFact
from dlcontainer.planning.device_code import capability
from dlcontainer.planning.versions import Numbers, compare, numbers, written
from dlcontainer.recipes.stack import Stack
from dlcontainer.sites.facts import Accelerator
from dlcontainer.sites.site import Site

# key in the stack -> vendor, and how the toolkit is called
_TOOLKITS = {"cuda": ("nvidia", "CUDA"), "rocm": ("amd", "ROCm"), "oneapi": ("intel", "oneAPI")}


def other_vendor(site: Site, stack: Stack) -> Iterator[Finding]:
    """Refuse an image for one vendor's GPUs at a site with another's."""
    # oneAPI also serves processors, so it contradicts no GPU.
    for key in ("cuda", "rocm"):
        vendor, name = _TOOLKITS[key]
        if getattr(stack, key) and site.accelerator and site.accelerator.vendor != vendor:
            yield Contradiction(
                what=f"the image is built with {name}, but the site's accelerators are "
                f"{site.accelerator.vendor}'s",
                why=f"{name} supports {vendor}'s GPUs only",
                in_site=("accelerator", "vendor"),
                in_recipe=("stack", key),
                way_out=f"use a variant for {site.accelerator.vendor}, or one for CPUs only",
            )


def newer_than_site(site: Site, stack: Stack) -> Iterator[Finding]:
    """Refuse a toolkit newer than the site's driver permits or, where unknown, its own newest."""
    accelerator = site.accelerator
    for key, (vendor, name) in _TOOLKITS.items():
        text = getattr(stack, key)
        if text is None or accelerator is None or accelerator.vendor != vendor:
            continue
        version = numbers(text)
        if version is None:
            yield UnknownFact(
                text=f"{name} {text!r} was not checked: its version cannot be compared"
            )
        elif key == "cuda" and accelerator.driver is not None:
            yield from _against_driver(site, accelerator.driver, version)
        elif key == "rocm" and (line := rocm_driver(accelerator)) is not None:
            yield from _against_amdgpu(accelerator, line, version)
            if stack.mpi is not None and brings_gtl(site):
                yield from _against_gtl(site, accelerator, version)
        else:
            yield from _against_toolkit(site, accelerator, key, version)


def newer_than_arch(site: Site, stack: Stack) -> Iterator[Finding]:
    """Refuse a CUDA newer than the last for the architecture."""
    last = LAST_CUDA_FOR_ARCH.get(site.arch)
    if last is not None:
        yield from _past_the_last(site, stack, last, site.arch, ("arch",))


def newer_than_gpu(site: Site, stack: Stack) -> Iterator[Finding]:
    """Refuse a CUDA newer than the last for the site's generation of GPUs."""
    last = _last_for_gpu(site)
    if last is not None and site.accelerator:
        what = f"{site.accelerator.target} ({site.accelerator.model})"
        yield from _past_the_last(site, stack, last, what, ("accelerator", "target"))


def _past_the_last(
    site: Site, stack: Stack, last: LastRelease, what: str, in_site: tuple[str, ...]
) -> Iterator[Finding]:
    version = numbers(stack.cuda or "")
    if version is None:
        return
    order = compare(version, last.release)
    if order == 1:
        yield Contradiction(
            what=f"CUDA {stack.cuda} does not support {what}: {written(last.release)} is "
            "the last release that does",
            why=last.source,
            in_site=in_site,
            in_recipe=("stack", "cuda"),
            pin=newest_cuda(site),
            way_out="use an older build of the framework",
        )
    elif order is None:
        yield UnknownFact(
            text=f"CUDA {stack.cuda} is not exact: it may be newer than "
            f"{written(last.release)}, the last release for {what}"
        )


def _last_for_gpu(site: Site) -> LastRelease | None:
    accelerator = site.accelerator
    if accelerator is None or accelerator.vendor != "nvidia" or accelerator.target is None:
        return None
    gpu = capability(accelerator.target)
    return next((last for below, last in LAST_CUDA_BELOW if gpu and gpu.number < below), None)


def older_than_gpu(site: Site, stack: Stack) -> Iterator[Finding]:
    """Doubt a CUDA that is older than the GPU: the framework's code may run, libraries may not."""
    first = first_cuda(site)
    version = numbers(stack.cuda or "")
    if first and version and site.accelerator and compare(version, first) == -1:
        yield UnknownFact(
            text=f"CUDA {stack.cuda} is older than {written(first)}, the first release for "
            f"{site.accelerator.target}: cannot guarantee that its libraries (cuBLAS, "
            "cuDNN) run there"
        )


def first_cuda(site: Site) -> Numbers | None:
    """Return the first CUDA that knows the site's GPU; None where that is not known."""
    gpu = capability((site.accelerator and site.accelerator.target) or "")
    return FIRST_CUDA_FOR_GPU.get(gpu.number) if gpu else None


def line_of(cuda: Numbers) -> Toolkit | None:
    """Return the line of toolkits that a CUDA release belongs to; None for one not in the table."""
    return next((toolkit for toolkit in CUDA_DRIVERS if compare(cuda, toolkit.line) == 0), None)


def _against_driver(site: Site, text: str, version: Numbers) -> Iterator[Finding]:
    line, driver = line_of(version), numbers(text)
    if line is None or driver is None:
        yield UnknownFact(
            text=f"cannot compare driver {text} with the one that CUDA {written(version)} "
            "needs, and cannot guarantee that it starts"
        )
        return
    order = compare(driver, line.driver)
    if order is None:
        yield UnknownFact(
            text=f"driver {text} is not an exact version: CUDA {written(version)} needs "
            f"{written(line.driver)}"
        )
    elif order == -1:
        yield Contradiction(
            what=f"CUDA {written(version)} needs driver {written(line.driver)} or newer, "
            f"the site has {text}",
            why=f"with an older driver programs find no usable GPU ({CUDA_SOURCE})",
            in_site=("accelerator", "driver"),
            in_recipe=("stack", "cuda"),
            pin=newest_cuda(site),
            way_out="use an older build of the framework",
        )


def _against_toolkit(
    site: Site, accelerator: Accelerator, key: str, version: Numbers
) -> Iterator[Finding]:
    name = _TOOLKITS[key][1]
    text = accelerator.toolkit
    newest = numbers(text) if text else None
    driver = " and the driver" if key == "cuda" else ""
    if newest is None:
        yield UnknownFact(
            text=f"the site's newest {name}{driver} are unknown: cannot guarantee that "
            f"{name} {written(version)} starts there"
        )
        return
    # A patch release changes nothing here: major and minor decide.
    order = compare(version, newest[:2])
    if order is None:
        yield UnknownFact(
            text=f"{name} {written(version)} is not exact: it may be newer than {text}"
        )
    elif order in (-1, 0) and key == "cuda":
        yield UnknownFact(
            text=f"the driver is unknown: CUDA {written(version)} is checked only against "
            f"the site's newest CUDA, {text}"
        )
    elif order == 1:
        unknown = "the driver is unknown, so " if key == "cuda" else ""
        yield Contradiction(
            what=f"{name} {written(version)} is newer than the site's newest, {text}",
            why=f"{unknown}the site's newest supported {name} is the limit",
            in_site=("accelerator", "toolkit"),
            in_recipe=("stack", key),
            pin=newest_cuda(site) if key == "cuda" else text,
            way_out="use an older build of the framework"
            + (
                ", or --set site.accelerator.driver=VERSION, where you know it"
                if key == "cuda"
                else ""
            ),
        )


def rocm_driver(accelerator: Accelerator) -> RocmDriver | None:
    """Return the line of the amdgpu module that runs at a site; None where that is not known."""
    module = numbers(accelerator.driver or "") if accelerator.vendor == "amd" else None
    if not module or (len(module) > 2 and module[2] >= ROCM_PACKAGE):
        return None
    return next((line for line in ROCM_DRIVERS if compare(module, line.module) == 0), None)


def brings_gtl(site: Site) -> bool:
    """Return whether the host's GPU-aware MPI comes into images, made for one ROCm of the host."""
    mpi = site.mpi
    return (
        mpi is not None
        and mpi.mode == "swap"
        and any("libmpi_gtl_" in library for library in (*mpi.preload, *mpi.libraries))
    )


def _against_amdgpu(
    accelerator: Accelerator, line: RocmDriver, version: Numbers
) -> Iterator[Finding]:
    runs = f"{written(line.first)} to {written(line.last)}"
    newer, older = compare(version, line.last), compare(version, line.first)
    if newer is None or older is None:
        yield UnknownFact(
            text=f"ROCm {written(version)} is not exact: driver {accelerator.driver} runs {runs}"
        )
    elif newer == 1:
        yield Contradiction(
            what=f"ROCm {written(version)} is newer than what driver {accelerator.driver} runs, "
            f"{runs}",
            why=f"its libraries ask the driver for what it does not have ({ROCM_DRIVER_SOURCE})",
            in_site=("accelerator", "driver"),
            in_recipe=("stack", "rocm"),
            pin=written(line.last),
            way_out="use an older build of the framework",
        )
    elif older == -1:
        yield UnknownFact(
            text=f"ROCm {written(version)} is older than what driver {accelerator.driver} is "
            f"tested with, {runs}: cannot guarantee that it runs, or computes right"
        )


def _against_gtl(site: Site, accelerator: Accelerator, version: Numbers) -> Iterator[Finding]:
    """Hold an image with an MPI against the ROCm of the host's library that takes GPU buffers."""
    host = numbers(accelerator.toolkit or "")
    if host and version[0] < host[0]:
        yield Contradiction(
            what=f"ROCm {written(version)} is of another major release than "
            f"{accelerator.toolkit}, for which the host's GPU-aware MPI is made",
            why="its libmpi_gtl_hsa wants the HIP of its own major release, from the image "
            "(olcf-user-docs@2745903, compatibility of cray-mpich and ROCm)",
            in_site=("accelerator", "toolkit"),
            in_recipe=("stack", "rocm"),
            pin=accelerator.toolkit,
            way_out=f"use a variant with ROCm {host[0]}, or another epoch",
        )
        return
    yield from _against_toolkit(site, accelerator, "rocm", version)


def newest_toolkit(site: Site, *, with_mpi: bool) -> tuple[str, Numbers | None]:
    """Return the newest toolkit that an image may bring, with the key of the fact that says so.

    An image brings its own ROCm, so the driver decides; with an MPI in whose place the host's
    GPU-aware one comes, the host's does.
    """
    gpu = site.accelerator
    line = rocm_driver(gpu) if gpu else None
    if line is not None and not (with_mpi and brings_gtl(site)):
        return "driver", line.last
    return "toolkit", numbers((gpu and gpu.toolkit) or "")


def newest_cuda(site: Site) -> str | None:
    """Return the newest CUDA that all the site's facts allow; None where no fact limits it."""
    limits = [
        last.release for last in (LAST_CUDA_FOR_ARCH.get(site.arch), _last_for_gpu(site)) if last
    ]
    gpu = site.accelerator if site.accelerator and site.accelerator.vendor == "nvidia" else None
    driver = numbers(gpu.driver) if gpu and gpu.driver else None
    toolkit = numbers(gpu.toolkit) if gpu and gpu.toolkit else None
    if driver is not None:
        runs = [
            toolkit.last for toolkit in CUDA_DRIVERS if compare(driver, toolkit.driver) in (0, 1)
        ]
        # (13,) is no release, and no limit: it is the newest line.
        limits += [max(runs)] if runs and len(max(runs)) > 1 else []
    elif toolkit is not None:
        limits.append(toolkit)
    return written(min(limits)) if limits else None
