"""A small image as an unpacked tree, and its findings at a site."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dlcontainer.validate.static import static
from dlcontainer.validate.static.finding import StaticFinding
from tests import elves
from tests.elves import Elf
from tests.fakes import RecordingRunner
from tests.values import site_of

LIB = "/usr/lib/x86_64-linux-gnu"
PYTHON = "/opt/demo/bin/python3"
PACKAGES = "/opt/demo/lib/python3.11/site-packages"
TORCH = f"{PACKAGES}/torch/_C.cpython-311-x86_64-linux-gnu.so"
LIBC = Elf(soname="libc.so.6", versions=("libc.so.6", "GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.36"))
USES_C: Mapping[str, Any] = {"needed": ("libc.so.6",), "needs": {"libc.so.6": ("GLIBC_2.34",)}}
# A Python, a PyTorch of two libraries, a C library: nothing of it is wrong.
IMAGE: Mapping[str, Elf | bytes | str] = {
    "/lib": "usr/lib",
    PYTHON: Elf(**USES_C),
    "/opt/demo/bin/python": "python3",
    "/opt/demo/lib/python3.11/os.py": b"# Python's own",
    "/.singularity.d/env/90-environment.sh": b"export PATH=/opt/demo/bin:/usr/bin\n",
    TORCH: Elf(needed=("libtorch.so", "libc.so.6"), runpath="$ORIGIN/lib"),
    f"{PACKAGES}/torch/lib/libtorch.so": Elf(soname="libtorch.so", **USES_C),
    f"{LIB}/libc.so.6": LIBC,
}
NVIDIA: Mapping[str, Any] = {
    "vendor": "nvidia",
    "model": "NVIDIA H100",
    "per_node": 4,
    "target": "sm_90",
    "driver": "550.54.15",
    "remembered": ["vendor", "model", "per_node", "target", "driver"],
}
AMD: Mapping[str, Any] = {
    "vendor": "amd",
    "model": "AMD MI250X",
    "per_node": 8,
    "target": "gfx90a",
    "remembered": ["vendor", "model", "per_node", "target"],
}
DEBIAN: Mapping[str, Any] = {
    "distribution": "debian",
    "release": "bookworm",
    "glibc": "2.36",
    "remembered": ["distribution", "release", "glibc"],
}


def findings(
    folder: Path,
    files: Mapping[str, Elf | bytes | str | None] | None = None,
    environ: Mapping[str, str] | None = None,
    **site: Any,
) -> list[StaticFinding]:
    """Write the image with changes (None takes a file away), and validate it."""
    changed = {**IMAGE, **(files or {})}
    root = folder / "image"
    elves.write(root, {path: file for path, file in changed.items() if file is not None})
    where = {"TMPDIR": str(folder), **(environ or {})}
    return static.validate(root, site_of(**site).value, where, RecordingRunner(strict=True))


def broken(folder: Path) -> Path:
    """Write the image with a fault of each level."""
    kernels = elves.fatbin(("elf", 90, 0), ("ptx", 80, 0))
    faults: Mapping[str, Elf | bytes | str] = {
        TORCH: Elf(needed=("libgone.so.1", "libc.so.6"), needs={"libc.so.6": ("GLIBC_2.38",)}),
        f"{PACKAGES}/extra/_fast.abi3.so": Elf(needed=("libtorch.so",)),
        f"{PACKAGES}/extra/_kernels.abi3.so": Elf(sections={".nv_fatbin": kernels}),
        f"{PACKAGES}/mpi4py/MPI.abi3.so": Elf(needed=("libmpi.so.40",)),
        f"{LIB}/libz.so.1": Elf(soname="libz.so.1").data()[:200],
    }
    return elves.write(folder, {**IMAGE, **faults})


def lines(found: list[StaticFinding]) -> list[str]:
    return [f"{one.level}: {one.rule}: {one.what}" for one in found]


def only(found: list[StaticFinding]) -> StaticFinding:
    (one,) = found
    assert one.why, one
    assert one.fix or one.level == "note", one
    return one
