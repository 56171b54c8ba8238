"""What lets a site's accelerators into a container: the vendor's flag, in the runtime's words."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from dlcontainer.config import SelectedDocument
from dlcontainer.config.field_types import Vendor
from dlcontainer.errors import ConfigError
from dlcontainer.sites.engine import Runtime
from dlcontainer.sites.site import Site

# Apptainer and SingularityCE have no flag for Intel's devices: /dev is shown as it is.
_PLAIN: Mapping[str, Vendor] = {"--nv": "nvidia", "--nvccli": "nvidia", "--rocm": "amd"}
# runtime -> its words for accelerators, each with the vendor; the first of a vendor is the usual.
# Shifter takes a --module that the site names, the Container Engine annotations: their sites say
# which. Source of --gpu: docs.nersc.gov, podman-hpc.
_WORDS: Mapping[Runtime, Mapping[str, Vendor]] = {
    "apptainer": _PLAIN,
    "singularity": _PLAIN,
    "podman-hpc": {"--gpu": "nvidia"},
    "shifter": {},
    "container-engine": {},
}
# The flag, and the device whose absence says that this node has none.
_DEVICES = {"--nv": Path("/dev/nvidiactl"), "--rocm": Path("/dev/kfd")}
_EVERY: Mapping[str, Vendor] = {word: of for words in _WORDS.values() for word, of in words.items()}


def flags(site: Site, runtime: Runtime | None = None) -> tuple[str, ...]:
    """Return the words that let the accelerators in: those that the site's flags say, else the
    usual one of the runtime, the site's own unless another is named; none where it needs none, or
    the site says why not.
    """
    words = _WORDS[runtime or site.engine.runtime]
    site_flags = (*site.jobs.flags, *(site.mpi.flags if site.mpi else ()))
    gpu_words = tuple(dict.fromkeys(flag for flag in site_flags if flag in words))
    # An engine of OCI images may be told of the devices one by one.
    if (
        gpu_words
        or site.accelerator is None
        or site.engine.without_gpu_flag
        or any(flag.startswith("--device") for flag in site_flags)
    ):
        return gpu_words
    usual = (word for word, vendor in words.items() if vendor == site.accelerator.vendor)
    return tuple(usual)[:1]


def here(site: Site, exists: Callable[[Path], bool] = Path.exists) -> tuple[str, ...]:
    """Return Apptainer's flags on this node: those that the site's jobs name, and the vendor's
    where its device is here, as wrappers do.

    The jobs' own are given where this node has no device, too: the ranks' nodes may.
    """
    return tuple(
        flag
        for flag in flags(site, "apptainer")
        if flag in site.jobs.flags or (flag in _DEVICES and exists(_DEVICES[flag]))
    )


def require_fit(site: SelectedDocument[Site]) -> None:
    """Refuse a flag for another vendor's accelerators, or of another runtime."""
    for error in _misfits(site):
        raise error


def _misfits(site: SelectedDocument[Site]) -> Iterator[ConfigError]:
    accelerator, runtime = site.value.accelerator, site.value.engine.runtime
    words = _WORDS[runtime]
    mpi = site.value.mpi
    for group, group_flags in (("jobs", site.value.jobs.flags), ("mpi", mpi.flags if mpi else ())):
        for index, flag in enumerate(group_flags):
            vendor = _EVERY.get(flag)
            if vendor is None:
                continue
            where = site.document.origin((group, "flags", index)).where
            if site.value.engine.without_gpu_flag:
                place = site.document.origin(("engine", "without_gpu_flag")).where
                yield ConfigError(
                    f"{group}.flags: {flag} contradicts {place}: engine.without_gpu_flag",
                    where=where,
                    why="it says why images start without such a flag",
                    next_step="remove one of them",
                )
            elif flag not in words:
                place = site.document.origin(("engine", "runtime")).where
                yield ConfigError(
                    f"{group}.flags: {flag} contradicts {place}: engine.runtime: {runtime} "
                    "has no such flag",
                    where=where,
                    why="each runtime has its own flags for accelerators",
                    next_step=_way_out(flag, words),
                )
            elif accelerator is not None and vendor != accelerator.vendor:
                place = site.document.origin(("accelerator", "vendor")).where
                yield ConfigError(
                    f"{group}.flags: {flag} contradicts {place}: accelerator.vendor: "
                    f"{accelerator.vendor}",
                    where=where,
                    why=f"{flag} enables accelerators of {vendor} only",
                    next_step=f"remove {flag}: dlcontainer adds the flag for accelerator.vendor",
                )


def _way_out(flag: str, words: Mapping[str, Vendor]) -> str:
    if not words:
        return f"remove {flag}, and write the flag that the site documents"
    return f"remove {flag}: dlcontainer adds the flag for accelerator.vendor"
