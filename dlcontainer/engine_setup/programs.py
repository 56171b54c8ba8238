"""The helper programs: what builds root trees and images, and what mounts them."""

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.engine_setup import aptget, surroundings
from dlcontainer.engine_setup.aptget import PrivateApt, private_apt
from dlcontainer.engine_setup.commands import run
from dlcontainer.engine_setup.packages import is_elf, unpack
from dlcontainer.engine_setup.surroundings import note, say
from dlcontainer.engine_setup.trees import publish, write_wrapper
from dlcontainer.errors import EngineError

NAME = "programs"
WRAPPERS = "wrappers"  # the folder in it that goes on PATH
# In a tree of today's making: trees of another layout are made again.
_LAYOUT, _LAYOUT_TEXT = "layout", "2\n"
# The base of an image on a host that can't make one; dlcontainer's own messages name them too.
WAYS_TO_A_BASE = """one of three ways:
        an image of a registry, pinned by its digest: dlcontainer base pin RECIPE --site SITE
        a bundle with the finished base, from a machine that can: dlcontainer fetch there,
          dlcontainer build --offline BUNDLE here
        the base alone, made on a machine that can (Debian, Ubuntu): dlcontainer base make there"""
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin")
_CA_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class HelperProgram:
    """A command, Debian's package that has it, and what it is for."""

    command: str
    package: str
    purpose: str
    installed_only: str | None = None  # why unpacking its package is not enough
    # Without it no image is built or run; else something is slower, or done otherwise.
    needed: bool = False


PROGRAMS = (
    HelperProgram(command="mmdebstrap", package="mmdebstrap", purpose="makes the base's root tree"),
    HelperProgram(
        command="mksquashfs",
        package="squashfs-tools",
        purpose="writes the image",
        needed=True,
    ),
    HelperProgram(
        command="unsquashfs",
        package="squashfs-tools",
        purpose="unpacks the image",
        needed=True,
    ),
    HelperProgram(command="squashfuse_ll", package="squashfuse", purpose="mounts the image"),
    HelperProgram(command="fuse2fs", package="fuse2fs", purpose="mounts ext3 overlays"),
    HelperProgram(
        command="fuse-overlayfs", package="fuse-overlayfs", purpose="mounts writable layers"
    ),
    HelperProgram(
        command="newuidmap",
        package="uidmap",
        purpose="maps a range of user IDs",
        installed_only="it must be setuid",
    ),
)


def search_path(*first: Path, hide: Path | None = None) -> str:
    """Return a PATH with the system folders behind the user's, without `hide`."""
    user_folders = surroundings.environ().get("PATH", os.defpath).split(os.pathsep)
    hidden = hide.resolve() if hide else None
    folders = [*map(str, first), *user_folders, *SYSTEM_FOLDERS]
    return os.pathsep.join(
        folder for folder in folders if folder and Path(folder).resolve() != hidden
    )


def missing(path: str) -> list[HelperProgram]:
    """Return the programs that are not on `path`."""
    return [program for program in PROGRAMS if not shutil.which(program.command, path=path)]


def in_prefix(prefix: Path) -> list[HelperProgram]:
    """Return the programs that are unpacked below `prefix`, as today's set-up does it."""
    tree = prefix / NAME
    try:
        current = (tree / _LAYOUT).read_text(encoding="utf-8") == _LAYOUT_TEXT
    except OSError:
        return []
    return [
        program for program in PROGRAMS if current and (tree / WRAPPERS / program.command).exists()
    ]


def has_ca_bundle() -> bool:
    """Return whether the host has a bundle of certificate authorities."""
    return any(Path(bundle).is_file() for bundle in _CA_BUNDLES)


def host_packages(programs: Sequence[HelperProgram]) -> list[str]:
    """Name the distribution's packages of these programs, and what fetching takes besides."""
    packages = sorted({program.package for program in programs})
    return packages if has_ca_bundle() else [*packages, "ca-certificates"]


def install_on_host(root: Sequence[str], programs: Sequence[HelperProgram]) -> None:
    """Install the distribution's packages of these programs."""
    packages = host_packages(programs)
    say(f"install {', '.join(packages)} from the distribution")
    aptget.install(root, packages)


def explain_installed_only(programs: Sequence[HelperProgram]) -> None:
    """Name the line to type for programs that cannot be unpacked privately."""
    for program in programs:
        if program.installed_only:
            note(
                f"no {program.command} ({program.purpose}): {program.installed_only}.\n"
                f"        An administrator types: apt-get install {program.package}"
            )


def explain_without_apt(programs: Sequence[HelperProgram], os_release: Mapping[str, str]) -> None:
    """Say what is missing on a host without apt; EngineError where nothing can be built so."""
    needed = [program for program in programs if program.needed]
    if needed:
        packages = " ".join(sorted({program.package for program in needed}))
        raise EngineError(
            f"missing: {', '.join(program.command for program in needed)}",
            why="this host has no apt-get to fetch them with",
            next_step=f"an administrator types: {installer(os_release)} {packages}",
        )
    for program in programs:
        if program.command == "mmdebstrap":
            note(
                "no mmdebstrap, and no apt-get to fetch it with: no distribution's root tree is "
                f"made here.\n        An image's base comes by {WAYS_TO_A_BASE}"
            )
        elif program.installed_only:
            note(
                f"no {program.command} ({program.purpose}): {program.installed_only}.\n"
                f"        An administrator installs it: {installer(os_release)} shadow-utils"
            )
    rest = [
        program
        for program in programs
        if program.command != "mmdebstrap" and not program.installed_only
    ]
    if rest:
        names = ", ".join(f"{program.command} ({program.purpose})" for program in rest)
        note(f"not here, unless the engine brings its own: {names}")


def installer(os_release: Mapping[str, str]) -> str:
    """Return the command of this distribution that installs packages."""
    family = {os_release.get("ID", ""), *os_release.get("ID_LIKE", "").split()}
    if family & {"suse", "opensuse", "sles"}:
        return "zypper install"
    if family & {"debian", "ubuntu"}:
        return "apt-get install"
    return "pacman -S" if "arch" in family else "dnf install"


def install_private(prefix: Path, programs: Sequence[HelperProgram]) -> Path:
    """Unpack these programs under `<prefix>/programs`; they are started by the wrappers there."""
    explain_installed_only(programs)
    usable = [program for program in programs if not program.installed_only]
    packages = sorted({program.package for program in usable})
    say(f"unpack {', '.join(packages)} and what they need into {prefix} (nothing is installed)")
    with tempfile.TemporaryDirectory(prefix="dlcontainer-apt-") as folder:
        apt = private_apt(Path(folder), sources=None)
        apt.update()
        simulation = apt.simulate(packages)
        if simulation is None:
            raise EngineError(
                f"the host's apt sources do not offer all of {', '.join(packages)}",
                next_step=f"an administrator types: apt-get install {' '.join(packages)}",
            )
        debs = apt.download(sorted({*packages, *simulation.installs}))
        patchelf = _patchelf(apt)

        def build(tree: Path) -> None:
            unpack(debs, tree)
            (tree / WRAPPERS).mkdir()
            for program in usable:
                _expose(tree, program, patchelf)
            (tree / _LAYOUT).write_text(_LAYOUT_TEXT, encoding="utf-8")

        return publish(prefix, NAME, build)


def _patchelf(apt: PrivateApt) -> str:
    """Return patchelf: the host's, or one unpacked into apt's temporary folder."""
    installed = shutil.which("patchelf", path=search_path())
    if installed:
        return installed
    unpack(apt.download(["patchelf"]), apt.folder / "patchelf")
    return str(apt.folder / "patchelf/usr/bin/patchelf")


def _expose(tree: Path, program: HelperProgram, patchelf: str) -> None:
    """Put a command into the wrappers' folder: it finds its libraries and modules in the tree."""
    path = os.pathsep.join(str(tree / name) for name in ("usr/bin", "usr/sbin", "bin", "sbin"))
    program_file = shutil.which(program.command, path=path)
    if program_file is None:
        raise EngineError(f"package {program.package} has no {program.command}")
    wrapper = tree / WRAPPERS / program.command
    if is_elf(Path(program_file)):
        # No script: Apptainer lists unsquashfs's libraries and binds them where it runs it.
        _patch(Path(program_file), tree, patchelf)
        wrapper.symlink_to(os.path.relpath(program_file, wrapper.parent))
        return
    perl = [*tree.glob("usr/share/perl*"), *tree.glob("usr/share/perl/*")]
    perl += [*tree.glob("usr/lib/*/perl/*"), *tree.glob("usr/lib/*/perl*/*")]
    # Last: what the host has is the host's own, and the tree has what it calls besides.
    write_wrapper(
        wrapper, [program_file], prepend={"PERL5LIB": perl}, append={"PATH": path.split(os.pathsep)}
    )


def _patch(program: Path, tree: Path, patchelf: str) -> None:
    """Let a program find the libraries in the tree, and theirs."""
    folders = {file.parent for file in tree.glob("usr/lib/*/*.so*")}
    folders |= {file.parent for file in tree.glob("lib/*/*.so*")}
    if folders:
        rpath = os.pathsep.join(map(str, sorted(folders)))
        # RPATH, not RUNPATH: it holds for the libraries' own libraries too.
        run([patchelf, "--force-rpath", "--set-rpath", rpath, str(program)])
