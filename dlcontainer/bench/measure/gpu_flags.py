"""What lets a site's accelerators into a container. Pure but for one look at this node."""

from collections.abc import Callable
from pathlib import Path

from dlcontainer.sites.site import Site

# vendor -> the engine's flag, and the device whose absence says that this node has none
_VENDORS = {"nvidia": ("--nv", Path("/dev/nvidiactl")), "amd": ("--rocm", Path("/dev/kfd"))}
_KNOWN = ("--nv", "--nvccli", "--rocm")


def flags(site: Site, exists: Callable[[Path], bool] = Path.exists) -> tuple[str, ...]:
    """Give the engine's flags: those that the site's jobs name, and the vendor's as wrappers do.

    The jobs' own are given here too where this node has no device: the ranks' nodes may.
    """
    found = [flag for flag in site.jobs.flags if flag in _KNOWN]
    vendor = site.accelerator.vendor if site.accelerator else None
    flag, device = _VENDORS.get(vendor or "", ("", Path()))
    if flag and "--nvccli" not in found and exists(device):
        found.append(flag)
    return tuple(dict.fromkeys(found))
