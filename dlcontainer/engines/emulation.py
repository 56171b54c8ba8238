"""Emulation: may programs of another architecture run on this host, and as which processor?

The kernel starts qemu for them (binfmt_misc). Only files are read here; `root` is another tree in
tests. Setting it up takes root, once; nothing else here does.
"""

from collections.abc import Mapping
from pathlib import Path

from dlcontainer.config.field_types import Arch
from dlcontainer.errors import BuildError

# Source: docs.kernel.org/admin-guide/binfmt-misc.html.
_FOLDER = "proc/sys/fs/binfmt_misc"
MOUNT = "mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc"
INSTALL = "apt-get install qemu-user-static binfmt-support"

# ppc64le: the sites' processor, and no newer. aarch64: a server's without pointer authentication,
# which qemu computes so slowly that Python takes 7 times as long (docs/measurements/build.md).
# Source: qemu.org/docs/master/user/main.html ("QEMU_CPU"), `qemu-aarch64-static -cpu help`.
_CPU: Mapping[Arch, str] = {"ppc64le": "power9", "aarch64": "neoverse-n1"}
CPU_VARIABLE = "QEMU_CPU"


def obstacle(arch: Arch, root: Path = Path("/")) -> tuple[str, str] | None:
    """Return why programs of an architecture can't run here, and what root types; None if they
    can.
    """
    folder = root / _FOLDER
    status = _read(folder / "status")
    if status is None:
        return "binfmt_misc is not mounted", f"{MOUNT}; {INSTALL}"
    if status != "enabled":
        return "binfmt_misc is switched off", f"echo 1 > /{_FOLDER}/status"
    # Debian's name, and that of distributions whose files are named for the static program.
    for name in (f"qemu-{arch}", f"qemu-{arch}-static"):
        entry = _read(folder / name)
        if entry is not None:
            return _flaw(entry.splitlines(), name)
    return f"no qemu is registered for {arch}", INSTALL


def _flaw(entry: list[str], name: str) -> tuple[str, str] | None:
    if entry[:1] != ["enabled"]:
        return f"{name} is switched off", f"echo 1 > /{_FOLDER}/{name}"
    flags = next((line[6:].strip() for line in entry if line.startswith("flags:")), "")
    if "F" not in flags:
        # Without F the kernel looks for qemu inside the image, at each start.
        why = f"{name} is registered without flag F, so each image would need its own qemu"
        return why, f"echo -1 > /{_FOLDER}/{name}; {INSTALL}"
    return None


def require(arch: Arch, site: str, root: Path = Path("/")) -> None:
    """Raise BuildError that says what is missing, where programs of `arch` can't run here."""
    problem = obstacle(arch, root)
    if problem is None:
        return
    why, cure = problem
    raise BuildError(
        f"site {site} is {arch}, and this host cannot run programs for it",
        why=f"{why}; a recipe's steps run programs of the image",
        next_step=f"run once as root: {cure}; or build on a machine with {arch}",
    )


def environment(arch: Arch) -> dict[str, str]:
    """Return the variables that emulated programs of an architecture are run with."""
    return {CPU_VARIABLE: _CPU[arch]} if arch in _CPU else {}


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
