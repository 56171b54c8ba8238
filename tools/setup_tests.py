#!/usr/bin/env python3
"""Install what the tests and the demo use beside the engine: MPI, Slurm, modules, qemu, a browser.

As root or with passwordless sudo; else it names the line to type: what needs it is then skipped.
A registry is only unpacked, for which nobody need be root. Names of packages: only these.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tools  # noqa: F401  first: an older Python is refused there
from dlcontainer.engine_setup import aptget
from dlcontainer.engine_setup.commands import root_argv
from dlcontainer.engine_setup.packages import unpack
from dlcontainer.engine_setup.programs import search_path
from dlcontainer.engine_setup.surroundings import note, say
from dlcontainer.engine_setup.trees import check_prefix, link_into, locked, publish
from dlcontainer.errors import EngineError
from tools import binfmt
from tools.console import CONSOLE, run_steps, verbose_by
from tools.setup_venv import LOG, PROJECT

TITLE = "packages of the distribution"
QEMU = "qemu-user-static"
# what shows that it is there (a program, or a file) -> Debian's package
WANTED = {
    "chromium": "chromium",
    # The tests run engines of their own, with private sockets and stores.
    "dockerd": "docker.io",
    "podman": "podman",
    "runc": "runc",
    # The same engines without root.
    "newuidmap": "uidmap",
    # Apptainer works with it, where it is there, for users without subordinate ids.
    "fakeroot": "fakeroot",
    "rootlesskit": "rootlesskit",
    "slirp4netns": "slirp4netns",
    "fusermount3": "fuse3",
    "mpirun": "openmpi-bin",
    # It reads the traces that `bench trace` writes; and a rank's clock that goes wrong.
    "otf2-print": "otf2-tools",
    "faketime": "faketime",
    # The tests run a Slurm of their own. Installed, neither slurmctld nor slurmd starts without an
    # /etc/slurm/slurm.conf; munged does, where services start when they are installed.
    "munged": "munge",
    "slurmctld": "slurm-wlm",
    "qemu-ppc64le-static": QEMU,
    "strace": "strace",
    "tclsh": "tcl",
    "update-binfmts": "binfmt-support",
    "/usr/share/lmod/lmod/init/sh": "lmod",
    # PyTorch's wheels load the one, the other makes environments: with both the native side of a
    # benchmark can be this machine's.
    "/usr/share/doc/libgomp1": "libgomp1",
    "/usr/share/doc/python3-venv": "python3-venv",
}
# One program is all of it. Installed, it would be a service on port 5000 of every address.
REGISTRY = "docker-registry"


def missing(only: Collection[str]) -> list[str]:
    """Name the packages whose program or file is not there; all of `only`, or of all."""
    path = search_path()
    return sorted(
        package
        for sign, package in WANTED.items()
        if (not only or package in only)
        and not (Path(sign).exists() if sign.startswith("/") else shutil.which(sign, path=path))
    )


def ensure_registry(prefix: Path, bin_folder: Path) -> None:
    """Have the registry's program on PATH, or unpack it into the prefix and link it."""
    if shutil.which(REGISTRY, path=search_path(bin_folder)):
        say(f"found: {REGISTRY}")
        return
    if not aptget.available():
        note(f"what needs {REGISTRY} will be skipped: without apt-get it cannot be fetched")
        return
    check_prefix(prefix)
    with locked(prefix):
        tree = publish(prefix, REGISTRY, _fetch_registry)
    bin_folder.mkdir(parents=True, exist_ok=True)
    link_into(bin_folder, REGISTRY, tree / "usr" / "bin" / REGISTRY)
    say(f"unpacked {REGISTRY} into {prefix} (nothing is installed)")


def _fetch_registry(tree: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="dlcontainer-apt-") as folder:
        apt = aptget.private_apt(Path(folder), sources=None)
        apt.update()
        unpack(apt.download([REGISTRY]), tree)


def install(packages: Collection[str], *, wants_qemu: bool) -> None:
    """Install packages, and let qemu be registered; raises EngineError."""
    root = root_argv() if aptget.available() else None
    if root is None:
        _tell(packages, wants_qemu=wants_qemu)
        return
    if packages:
        say(f"install {', '.join(packages)}")
        aptget.install(root, list(packages))
    refused = binfmt.register(root) if wants_qemu else None
    if refused is not None:
        note(f"images of other architectures can't be tested here: {refused}")


def _tell(packages: Collection[str], *, wants_qemu: bool) -> None:
    lines = [f"apt-get install {' '.join(packages)}"] if packages else []
    if wants_qemu:
        lines += [" ".join(command) for command in binfmt.missing()]
    what = ", ".join(packages) or "images of other architectures"
    if not aptget.available():
        note(f"what needs {what} will be skipped (Debian's names; this host has no apt)")
        return
    typed = "".join(f"\n        sudo {line}" for line in lines)
    note(f"what needs {what} will be skipped; to have it:{typed}")


def main(arguments: list[str] | None = None) -> int:
    """Install what is missing and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", help="only these")
    parser.add_argument("--bin", type=Path, default=Path(".venv/bin"), help="where links are put")
    parser.add_argument("--prefix", type=Path, default=Path(".tools"), help="the private prefix")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the tools' lines")
    options = parser.parse_args(arguments)
    verbose = options.verbose or verbose_by(os.environ)
    CONSOLE.begin([TITLE], verbose=verbose, log=PROJECT / LOG)

    def work() -> int:
        step(options.packages, options.prefix, options.bin)
        return 0

    return run_steps(work)


def step(names: Collection[str], prefix: Path, bin_folder: Path) -> None:
    """Install what is missing of these packages, or of all, as a step of a run.

    Raises EngineError.
    """
    CONSOLE.step(TITLE)
    if not names or REGISTRY in names:
        try:
            ensure_registry(prefix.resolve(), bin_folder.absolute())
        except EngineError as error:
            note(f"what needs {REGISTRY} will be skipped: {error}")
    only = [name for name in names if name != REGISTRY]
    packages = missing(only) if only or not names else []
    wants_qemu = not names or QEMU in only
    if packages or (wants_qemu and binfmt.missing()):
        install(packages, wants_qemu=wants_qemu)
    else:
        say(f"found: {', '.join(names) or 'all that the integration tests use'}")


if __name__ == "__main__":
    sys.exit(main())
