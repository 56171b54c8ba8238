"""A bundle: one folder with all that a lock names, checked, from which a build needs no network.

lock.json           what is in it, with checksums
debs/*.deb          the OS packages
Packages, Release   apt's lists of them: the folder is a repository that apt accepts
wheels/*.whl        the Python packages
sources/NAME        the archives of a recipe's upstreams
base/base.sqfs      the finished base, with its record: a build needs no apt then
base/blobs/         or the image that the build starts from: it needs no registry then
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.config.field_types import DEBIAN_ARCH
from dlcontainer.errors import BuildError, ConfigError
from dlcontainer.image.layout import ROUTING_FOLDER, upstream_variable
from dlcontainer.packages import carried_image
from dlcontainer.packages import lockfile as locks
from dlcontainer.packages.apt import apt_config
from dlcontainer.packages.apt import debs as debs_of
from dlcontainer.packages.lockfile import Lock, OsPin
from dlcontainer.registry.oci_layout import DamagedLayoutError, OciLayout
from dlcontainer.system import digests
from dlcontainer.system.machine import find_program
from dlcontainer.system.process import CommandFailedError, Runner

LOCK_FILE = "lock.json"
DEBS = "debs"
WHEELS = "wheels"
SOURCES = "sources"
BASE = "base"
LISTS = ("Packages", "Release")
# As the rendered texts name it.
BASE_FILE = "base.sqfs"

# Prints the control fields of each package, in their order, an empty line after each.
_FIELDS = 'program=$1; shift; for deb; do "$program" --field "$deb" || exit; echo; done'


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """A folder whose files were found to be those of its lock."""

    folder: Path
    lock: Lock
    # the image that the build starts from, if the bundle carries it
    image: OciLayout | None = None

    @property
    def base(self) -> Path | None:
        """The finished base, if the bundle carries it; the build checks it."""
        path = self.folder / BASE / BASE_FILE
        return path if path.exists() else None


def opened(folder: Path) -> Bundle:
    """Open a bundle and check every file of it against its lock.

    Raises ConfigError for a folder that is none, BuildError for a file that is not what it was.
    """
    path = folder / LOCK_FILE
    if not path.is_file():
        raise ConfigError(
            f"{folder} is an incomplete bundle: {LOCK_FILE} is missing",
            why="`fetch` writes the lock last, so an interrupted fetch leaves none",
            next_step=f"dlcontainer fetch -o {folder}",
        )
    lock = locks.read(path)
    wrong = []
    for file, sha256 in named_files(lock):
        digest = sha256_of(folder / file)
        if digest is None:
            wrong.append(f"{file} is missing")
        elif digest != sha256:
            wrong.append(f"{file} has the checksum {digest[:12]}…, the lock has {sha256[:12]}…")
    image = None
    try:
        image = carried_image.of(lock.base.image, lock.arch, folder / BASE)
    except DamagedLayoutError as error:
        wrong += [f"{BASE}/{fault}" for fault in error.faults]
    if wrong:
        raise BuildError(
            f"{folder} does not match its lock",
            why="\n    ".join(["", *wrong[:10]]),
            next_step=f"fetch again (it keeps correct files): dlcontainer fetch -o {folder}",
        )
    return Bundle(folder=folder, lock=lock, image=image)


def named_files(lock: Lock) -> list[tuple[str, str]]:
    """List the files that a bundle of this lock has: path in it, SHA-256."""
    files = {f"{DEBS}/{pin.file}": pin.sha256 for pin in lock.os_pins}
    files |= {f"{WHEELS}/{pin.file}": pin.sha256 for pin in lock.wheels}
    files |= {f"{SOURCES}/{pin.name}": pin.sha256 for pin in lock.sources}
    return sorted(files.items())


def sha256_of(path: Path) -> str | None:
    """Return a file's SHA-256; None where it is not there, can't be read or is no regular file."""
    try:
        return digests.of_file(path)
    except OSError:
        return None


def write_lists(
    lock: Lock, pins: Sequence[OsPin], debs: Path, target: Path, runner: Runner
) -> None:
    """Write apt's lists of some packages into a folder; they are of `debs`, checked before.

    The lists are made of the packages themselves, so nobody has to trust lists that lie there.
    Raises BuildError for a package that can't be read.
    """
    named = {pin.file: pin for pin in pins}
    paragraphs = []
    if named:
        controls = _controls([debs / file for file in named], runner)
        for (file, pin), control in zip(named.items(), controls, strict=True):
            paragraphs.append(
                f"{control}\nFilename: {DEBS}/{file}\nSize: {pin.size}\nSHA256: {pin.sha256}\n"
            )
    packages = "\n".join(paragraphs).encode()
    (target / "Packages").write_bytes(packages)
    # mmdebstrap picks packages by the release's name. The date says nothing: it never expires.
    release = lock.base.release or "locked"
    (target / "Release").write_text(
        f"Origin: dlcontainer\nSuite: {release}\nCodename: {release}\n"
        f"Date: Wed, 01 Jan 2020 00:00:00 UTC\nArchitectures: {DEBIAN_ARCH[lock.arch]}\n"
        f"SHA256:\n {hashlib.sha256(packages).hexdigest()} {len(packages)} Packages\n"
    )


def route(bundle: Bundle, folder: Path, runner: Runner) -> tuple[list[tuple[Path, str]], list[str]]:
    """Write into a build's routing what leads apt and pip to a bundle, and nowhere else.

    Gives the binds, and the lines for the script that steps begin with.
    """
    lines = [f"export PIP_CONFIG_FILE={ROUTING_FOLDER}/pip.conf"]
    binds = []
    # Where apt resolved, it sees no other packages even if the image has all that it needs.
    if bundle.lock.os_pins or bundle.lock.base.distribution:
        lines.append(f"export APT_CONFIG={ROUTING_FOLDER}/apt.conf")
        apt_config.write_local(folder)
        write_lists(bundle.lock, bundle.lock.os_pins, bundle.folder / DEBS, folder, runner)
    if bundle.lock.os_pins:
        binds.append((bundle.folder / DEBS, f"{ROUTING_FOLDER}/{DEBS}"))
    # No index at all: what is not in the lock is not found.
    config = ["[global]", "no-index = true", "disable-pip-version-check = true"]
    if bundle.lock.wheels:
        config.append(f"find-links = {ROUTING_FOLDER}/{WHEELS}")
        binds.append((bundle.folder / WHEELS, f"{ROUTING_FOLDER}/{WHEELS}"))
    (folder / "pip.conf").write_text("\n".join(config) + "\n")
    if bundle.lock.sources:
        binds.append((bundle.folder / SOURCES, f"{ROUTING_FOLDER}/{SOURCES}"))
    for pin in bundle.lock.sources:
        place = f"file://{ROUTING_FOLDER}/{SOURCES}/{pin.name}"
        lines.append(f"export {upstream_variable(pin.name)}={place}")
    for _, target in binds:
        (folder / target.removeprefix(f"{ROUTING_FOLDER}/")).mkdir()
    return binds, lines


def _controls(debs: Sequence[Path], runner: Runner) -> list[str]:
    program = find_program("dpkg-deb", {"PATH": "/usr/bin:/bin"})
    if program is None:  # a host of another distribution
        return [debs_of.control(path) for path in debs]
    argv = ["/bin/sh", "-c", _FIELDS, "sh", str(program), *map(str, debs)]
    try:
        done = runner(argv)
    except CommandFailedError as error:
        raise BuildError(
            "cannot read an OS package",
            why=error.completed.stderr.strip(),
            next_step="fetch the package again: dlcontainer fetch",
        ) from None
    return [part.strip("\n") for part in done.stdout.split("\n\n") if part.strip()]
