"""Shortcuts: this host's own programs do what they can for an emulated build.

Unpacking and byte compilation give the same files whatever processor does them, and starting an
emulated program takes 18 times the processor time (docs/measurements/build.md). So apt, dpkg's
helpers, the tools that maintainer scripts call, and the Python that py3compile calls are native
ones of the same release. dpkg itself, which knows its architecture, and all else stays emulated.
They come with the routing: the text, the digest and the image know nothing of them.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from dlcontainer import installation
from dlcontainer.config.field_types import DEBIAN_ARCH
from dlcontainer.errors import BuildError
from dlcontainer.image.layout import ROUTING_FOLDER
from dlcontainer.packages.apt import apt_config
from dlcontainer.packages.routing import SCRIPT
from dlcontainer.planning.plan import Plan
from dlcontainer.recipes.distributions import DISTRIBUTIONS
from dlcontainer.system.machine import HostMachine, find_program
from dlcontainer.system.process import CommandFailedError, Runner

_INSIDE = f"{ROUTING_FOLDER}/native"
_LIBRARIES = f"LD_LIBRARY_PATH={_INSIDE}/lib"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Abi:
    """Where a host's programs look for what starts them, and where Debian has its libraries."""

    loader: bytes
    triplet: str


# Hosts of other architectures build emulated images too, without these shortcuts.
# Source: the psABI's name of the loader, as `readelf -l` shows it; `dpkg-architecture -L`.
_ABIS = {"x86_64": _Abi(loader=b"/lib64/ld-linux-x86-64.so.2\0", triplet="x86_64-linux-gnu")}

# What dpkg and maintainer scripts call, and what does not depend on the architecture: so no dpkg,
# no uname, no ldconfig, and no perl, whose libraries are the image's.
_TOOLS = (
    "[ basename cat chgrp chmod chown cmp cp cut date dd diff dirname dpkg-deb dpkg-split du env "
    "expr false find grep gzip head id install join ln ls mawk md5sum mkdir mktemp mv od openssl "
    "paste printf pwd readlink realpath rm rmdir sed seq sha1sum sha256sum sha512sum sleep sort "
    "stat tail tar tee test touch tr true uniq wc xargs"
)

# py3compile chooses the files, then hands them to a Python that it names with its whole path.
_COMPILER = """\
#!{inside}/bin/{python}
import runpy
import subprocess
import sys


class Native(subprocess.Popen):
    def __init__(self, args, **options):
        if args[0] == "/usr/bin/{python}":
            args = ["{inside}/bin/{python}", *args[1:]]
        super().__init__(args, **options)


subprocess.Popen = Native
sys.argv[0] = "/usr/bin/py3compile"
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def possible(plan: Plan, host: HostMachine) -> bool:
    """Return whether this build is emulated, and installs packages that this host can help with."""
    if plan.site.arch == host.arch or host.arch not in _ABIS or plan.recipe.base.image:
        return False
    return any(step.os_packages for step in plan.recipe.steps)


def unpack(base: Path, folder: Path, host: HostMachine, runner: Runner) -> None:
    """Unpack the root tree of the host's own architecture; raises BuildError."""
    program = find_program("unsquashfs", host.environ)
    if program is None:
        raise BuildError(
            "no unsquashfs on PATH",
            next_step=installation.helper(host.environ, "squashfs-tools"),
        )
    argv = [str(program), "-quiet", "-no-progress", "-d", str(folder), str(base), "usr"]
    try:
        runner(argv)
    except CommandFailedError as error:
        raise BuildError(
            "cannot unpack the native programs", why=error.completed.stderr.strip()
        ) from None


def add(plan: Plan, host: HostMachine, tree: Path, routing: Path) -> None:
    """Add the native programs of an unpacked root tree to the routing folder of a build."""
    abi = _ABIS[host.arch]
    base = plan.recipe.base
    python = f"python{DISTRIBUTIONS[(str(base.distribution), str(base.release))].python}"
    target = routing / "native"
    shutil.copytree(tree / "usr/lib" / abi.triplet, target / "lib", symlinks=True)
    shutil.copytree(tree / "usr/lib" / python, target / "lib" / python, symlinks=True)
    loader = Path(abi.loader.rstrip(b"\0").decode()).name
    shutil.copyfile(target / "lib" / loader, target / "ld")
    (target / "ld").chmod(0o755)
    for name in (*_TOOLS.split(), python):
        _adopt(tree / "usr/bin" / name, target / "bin" / name, abi)
    _adopt(tree / "usr/bin/apt-get", target / "apt/apt-get", abi)
    for method in sorted((tree / "usr/lib/apt/methods").iterdir()):
        _adopt(method, target / "methods" / method.name, abi)
    _write(target / "bin/awk", f'#!/bin/sh\nexec {_INSIDE}/bin/mawk "$@"\n')
    _write(target / "bin/py3compile", _COMPILER.format(inside=_INSIDE, python=python))
    _route(target, routing, DEBIAN_ARCH[plan.site.arch])


def _adopt(source: Path, target: Path, abi: _Abi) -> None:
    """Copy a program so that it starts where its loader is at another place."""
    if not source.is_file():
        return  # this release has it elsewhere: the image's own, emulated, serves
    program = source.read_bytes()
    if not program.startswith(b"\x7fELF") or program.count(abi.loader) != 1:
        return  # a script is read by the image's own shell
    # The field keeps its length; the kernel reads up to the first NUL.
    place = f"{_INSIDE}/ld".encode().ljust(len(abi.loader), b"\0")
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(program.replace(abi.loader, place))
    target.chmod(0o755)


def _route(target: Path, routing: Path, arch: str) -> None:
    # apt alone gets the libraries, and dpkg the programs: a recipe's own commands see neither.
    _write(
        target / "first/apt-get",
        f'#!/bin/sh\n{_LIBRARIES} exec {_INSIDE}/apt/apt-get "$@"\n',
    )
    _write(
        target / "dpkg",
        f'#!/bin/sh\nexport PATH="{_INSIDE}/bin:$PATH" {_LIBRARIES}\nexec /usr/bin/dpkg "$@"\n',
    )
    settings = [
        f'APT::Architecture "{arch}";',
        f'APT::Architectures {{ "{arch}"; }};',
        f'Dir::Bin::methods "{_INSIDE}/methods";',
        f'Dir::Bin::dpkg "{_INSIDE}/dpkg";',
        # The user _apt could not enter the routing folder, where the libraries are.
        'APT::Sandbox::User "root";',
    ]
    with (routing / apt_config.FILE).open("a") as file:
        file.write("\n".join(settings) + "\n")
    lines = [
        f"export APT_CONFIG={ROUTING_FOLDER}/{apt_config.FILE}",
        f'export PATH="{_INSIDE}/first:$PATH"',
    ]
    with (routing / SCRIPT).open("a") as file:
        file.write("\n".join(lines) + "\n")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
