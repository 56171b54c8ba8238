"""What lets a site's accelerators into a container on this node. Pure but for one look at it."""

from collections.abc import Callable
from pathlib import Path

from dlcontainer.sites import gpu_flags
from dlcontainer.sites.site import Site

# The flag, and the device whose absence says that this node has none.
_DEVICES = {"--nv": Path("/dev/nvidiactl"), "--rocm": Path("/dev/kfd")}


def flags(site: Site, exists: Callable[[Path], bool] = Path.exists) -> tuple[str, ...]:
    """Give the engine's flags: those that the site's jobs name, and the vendor's as wrappers do.

    The jobs' own are given here too where this node has no device: the ranks' nodes may.
    """
    return tuple(
        flag
        for flag in gpu_flags.flags(site)
        if flag in site.jobs.flags or (flag in _DEVICES and exists(_DEVICES[flag]))
    )
