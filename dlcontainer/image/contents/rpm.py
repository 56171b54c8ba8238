"""RPM packages: read by the host's `rpm`, for the database is one of three binary formats."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from dlcontainer.image.contents.model import InstalledPackage, size_of
from dlcontainer.image.licensing import spdx
from dlcontainer.image.licensing.package_license import PackageLicense
from dlcontainer.system.machine import find_program
from dlcontainer.system.process import CommandFailedError, CommandNotFoundError, Runner

# Where rpm keeps it: older and newer distributions.
_FOLDERS = ("/var/lib/rpm", "/usr/lib/sysimage/rpm", "/usr/share/rpm")
_NAMES = {"rpmdb.sqlite", "Packages", "Packages.db"}
# Of needs and names the marks of libraries are kept: "libc.so.6(GLIBC_2.34)(64bit)".
_FORMAT = (
    "%{NAME}\\t%{EPOCHNUM}\\t%{VERSION}-%{RELEASE}\\t%{ARCH}\\t%{SIZE}\\t%{LICENSE}"
    "\\t[%{REQUIRENAME}|]\\t[%{PROVIDENAME}|]\\n"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RpmReader:
    """Who asks rpm, with what."""

    runner: Runner
    environ: Mapping[str, str]

    def packages(
        self, files: Mapping[str, Path], folder: Path
    ) -> tuple[list[InstalledPackage], str]:
        """Return the packages, and a note where they can't be read."""
        if not files:
            return [], ""
        path, file = sorted(files.items())[0]
        program = find_program("rpm", self.environ)
        if program is None:
            return [], f"{path} was not read: no rpm on this host (apt-get install rpm)"
        # A copy: rpm may write beside a database that it opens.
        database = folder / "rpmdb"
        database.mkdir()
        (database / PurePosixPath(path).name).write_bytes(file.read_bytes())
        argv = [str(program), "--dbpath", str(database), "-qa", "--queryformat", _FORMAT]
        env = {"PATH": self.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": str(folder)}
        try:
            stdout = self.runner(argv, env=env).stdout
        except (CommandFailedError, CommandNotFoundError) as error:
            return [], f"{path} was not read: {error}"
        packages = [_package(line.split("\t")) for line in stdout.splitlines()]
        read = [package for package in packages if package is not None]
        return read, "" if read else f"{path} holds no package that this host's rpm can read"


def wanted(path: str) -> bool:
    """Return whether a file of the tree is a database of rpm's."""
    folder, _, name = path.rpartition("/")
    return folder in _FOLDERS and name in _NAMES


def _package(fields: Sequence[str]) -> InstalledPackage | None:
    match fields:
        # Keys that packages are signed with are kept as if they were packages.
        case [name, epoch, version, arch, size, written, needs, provides] if name != "gpg-pubkey":
            return InstalledPackage(
                kind="rpm",
                name=name,
                version=version,
                arch="" if arch == "(none)" else arch,
                size=size_of(size),
                details=(("epoch", epoch),) if epoch.isdecimal() and epoch != "0" else (),
                license=_license(written),
                needs=tuple(filter(None, needs.split("|"))),
                provides=tuple(filter(None, provides.split("|"))),
            )
    return None


def _license(written: str) -> PackageLicense | None:
    # Older packages have Fedora's own names, of which several are no SPDX: "BSD", "ASL 2.0".
    if written in ("", "(none)"):
        return None
    expression = spdx.expression(written, strict=True)
    names = () if expression else (written,)
    return PackageLicense(expression=expression, names=names, source="rpm")
