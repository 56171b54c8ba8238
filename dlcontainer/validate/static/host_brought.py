"""Libraries that a site's host puts into an image: its driver's, and those of its MPI.

Source: Apptainer 1.4.5, etc/apptainer/nvliblist.conf (--nv) and rocmliblist.conf (--rocm).
"""

from collections.abc import Mapping
from pathlib import PurePosixPath

from dlcontainer.config.field_types import Vendor
from dlcontainer.planning.launch import host_files
from dlcontainer.sites.site import Site

# Those that programs link; the lists hold some 40 more, for graphics.
_DRIVERS: Mapping[Vendor, frozenset[str]] = {
    "nvidia": frozenset(
        (
            *("libcuda", "libcudadebugger", "libnvidia-ml", "libnvidia-nvvm", "libnvidia-opencl"),
            *("libnvidia-ptxjitcompiler", "libnvidia-encode", "libnvidia-opticalflow"),
            *("libnvcuvid", "libnvoptix", "libnvidia-cfg", "libOpenCL", "libGL", "libEGL"),
            *("libGLX", "libGLdispatch", "libOpenGL", "libGLESv2"),
        )
    ),
    "amd": frozenset(
        (
            *("libdrm", "libdrm_amdgpu", "libnuma", "libpci", "librocr_debug_agent64"),
            *("libamdcomgr64", "libamdocl64", "libcltrace", "libOpenCL"),
        )
    ),
    "intel": frozenset(),
}
# Never in an image, whoever brings them: they are parts of a kernel driver.
OF_DRIVERS: Mapping[str, Vendor] = dict.fromkeys(
    ("libcuda", "libcudadebugger", "libnvidia-ml", "libnvidia-ptxjitcompiler"), "nvidia"
)


def driver_names(site: Site) -> frozenset[str]:
    """Return the libraries of the driver that a site shows in images, without `.so`."""
    return _DRIVERS[site.accelerator.vendor] if site.accelerator else frozenset()


def stem(name: str) -> str:
    """Return a library's name without `.so` and numbers."""
    return PurePosixPath(name).name.partition(".so")[0]


def brings(site: Site, name: str) -> bool:
    """Return whether the host puts a library of this name into images."""
    if stem(name) in driver_names(site):
        return True
    mpi = site.mpi
    if mpi is None or mpi.mode == "container":
        return False
    files = {PurePosixPath(text).name for text in host_files.named(mpi)}
    return name == mpi.soname or any(file == name or name.startswith(f"{file}.") for file in files)
