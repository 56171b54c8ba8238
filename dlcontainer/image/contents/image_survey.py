"""What an image holds, told from its files: interpreters, frameworks, MPI, C library. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dlcontainer.image.contents import InstalledPackage, TreeEntry

# Distribution (PyPI or conda) -> the module that it brings; what one of the probes can use.
FRAMEWORKS: Mapping[str, str] = {
    "torch": "torch",
    "pytorch": "torch",
    "tensorflow": "tensorflow",
    "tensorflow-cpu": "tensorflow",
    "tensorflow-rocm": "tensorflow",
    "nvidia-tensorflow": "tensorflow",
    "jax": "jax",
    "horovod": "horovod",
}
# The oldest Python that the probes run on.
OLDEST = (3, 6)
_OLDEST_MINOR = OLDEST[1]
_STDLIB = re.compile(r"(?P<prefix>.*)/lib(?:64)?/python3\.(?P<minor>\d+)/os\.py")
_VENV = re.compile(r"(?P<prefix>.+)/pyvenv\.cfg")
_PACKAGES = re.compile(r"(?P<prefix>.*)/lib(?:64)?/python3(?:\.\d+)?/(?:site|dist)-packages")
# Paths that a record takes, see `config.field_types.ImagePath`; another is passed over.
_PLAIN = re.compile(r"(?!.*\.\.)(/[A-Za-z0-9._+@-]+)+")
# Where a distribution's own Python lies, and one that was built by hand.
_USUAL = ("/usr/local", "/usr")
_MUSL = re.compile(r"(?:/usr)?/lib/ld-musl-[^/]+\.so\.1")
_GLIBC = re.compile(r"(?:/usr)?/lib(?:32|64|x32)?/(?:[^/]+/)?ld(?:64)?(?:-linux[^/]*)?\.so\.[12]")
_GLIBC_PACKAGES = ("libc6", "glibc")
_LIBMPI = re.compile(r".*/lib(?:mpi|mpich|mpi_ibm)\.so\.\d+")
# A program or a library that only one family has: libmpi.so.12 is Open MPI's 1.10 as well.
# Source: mpich.org/abi; open-mpi.org, release notes "shared library version numbering".
_FAMILIES: Sequence[tuple[str, re.Pattern[str]]] = (
    ("spectrum", re.compile(r".*/libmpi_ibm\.so\.\d+")),
    ("openmpi", re.compile(r".*/bin/ompi_info|.*/libmpi\.so\.(?:20|40)")),
    ("mpich", re.compile(r".*/bin/mpichversion|.*/libmpich\.so\.\d+|.*/bin/impi_info")),
)
_APK, _RPM = "/lib/apk/db/installed", re.compile(r"(?:/usr/lib/sysimage|/var/lib)/rpm/[^/]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Interpreter:
    """A Python in an image: its program, `sys.prefix`, version, and frameworks by module."""

    path: str
    prefix: str
    version: str
    frameworks: tuple[tuple[str, str], ...] = ()

    @property
    def commands(self) -> tuple[str, ...]:
        """The name that it is called by."""
        return (self.path.rpartition("/")[2],)


@dataclass(frozen=True, kw_only=True, slots=True)
class MpiLibrary:
    """An MPI library by its file's name; the family is unknown where nothing tells."""

    library: str
    family: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageSurvey:
    """All that files tell; `packages` counts by kind, a database that is not read is 'present'."""

    interpreters: tuple[Interpreter, ...]
    mpi: tuple[MpiLibrary, ...]
    c_library: Literal["glibc", "musl", "unknown"]
    glibc: str | None
    packages: Mapping[str, int | Literal["present"]]


def read(entries: Sequence[TreeEntry], packages: Sequence[InstalledPackage]) -> ImageSurvey:
    """Return what an image holds."""
    paths = {entry.path: entry for entry in entries if entry.kind in "-l"}
    has_glibc = any(map(_GLIBC.fullmatch, paths))
    has_musl = any(map(_MUSL.fullmatch, paths))
    versions = [package.version for package in packages if package.name in _GLIBC_PACKAGES]
    return ImageSurvey(
        interpreters=tuple(_interpreters(paths, packages)),
        mpi=tuple(_mpi(paths)),
        c_library="glibc" if has_glibc else "musl" if has_musl else "unknown",
        glibc=versions[0] if versions else None,
        packages=_counted(paths, packages),
    )


def _interpreters(
    paths: Mapping[str, TreeEntry], packages: Sequence[InstalledPackage]
) -> list[Interpreter]:
    interpreters = []
    for prefix, minor in sorted({*_stdlibs(paths), *_venvs(paths)}):
        names = ("python", "python3", f"python3.{minor}")
        path = next(
            (f"{prefix}/bin/{name}" for name in names if f"{prefix}/bin/{name}" in paths), ""
        )
        if _PLAIN.fullmatch(path) and minor >= _OLDEST_MINOR:
            interpreters.append(
                Interpreter(
                    path=path,
                    prefix=prefix,
                    version=f"3.{minor}",
                    frameworks=_frameworks(prefix, packages),
                )
            )
    # The one that has frameworks is meant; else one that was put there, before the system's own.
    return sorted(
        interpreters,
        key=lambda candidate: (
            not candidate.frameworks,
            candidate.prefix in _USUAL,
            candidate.prefix,
        ),
    )


def _stdlibs(paths: Iterable[str]) -> Iterable[tuple[str, int]]:
    matches = (_STDLIB.fullmatch(path) for path in paths if path.endswith("/os.py"))
    return {(match["prefix"], int(match["minor"])) for match in matches if match}


def _venvs(paths: Mapping[str, TreeEntry]) -> Iterable[tuple[str, int]]:
    matches = (_VENV.fullmatch(path) for path in paths if path.endswith("/pyvenv.cfg"))
    for match in filter(None, matches):
        beginning = f"{match['prefix']}/lib/python3."
        minors = {path.removeprefix(beginning).partition("/")[0] for path in paths
                  if path.startswith(beginning)}  # fmt: skip
        yield from ((match["prefix"], int(minor)) for minor in minors if minor.isdecimal())


def _frameworks(prefix: str, packages: Sequence[InstalledPackage]) -> tuple[tuple[str, str], ...]:
    frameworks: dict[str, str] = {}
    # What PyPI's metadata says is the module's own version; conda's record is the last to ask.
    for package in sorted(packages, key=lambda installed: installed.kind != "pypi"):
        module = FRAMEWORKS.get(re.sub(r"[-_.]+", "-", package.name).lower())
        is_python = package.kind in ("pypi", "conda") and package.version.isprintable()
        if module and is_python and _belongs(package, prefix):
            frameworks.setdefault(module, package.version)
    return tuple(sorted(frameworks.items()))


def _belongs(package: InstalledPackage, prefix: str) -> bool:
    if package.kind == "conda":
        return prefix in package.places
    matches = filter(None, map(_PACKAGES.fullmatch, package.places))
    # Debian's Python of /usr looks in /usr/local too.
    mine = {prefix, "/usr/local"} if prefix == "/usr" else {prefix}
    return any(match["prefix"] in mine for match in matches)


def _mpi(paths: Mapping[str, TreeEntry]) -> list[MpiLibrary]:
    families = {name for name, sign in _FAMILIES if any(sign.fullmatch(path) for path in paths)}
    family = families.pop() if len(families) == 1 else "unknown"
    libraries = sorted(path for path in paths if _LIBMPI.fullmatch(path))
    return [MpiLibrary(library=path, family=family) for path in libraries]


def _counted(
    paths: Iterable[str], packages: Sequence[InstalledPackage]
) -> dict[str, int | Literal["present"]]:
    counted: dict[str, int | Literal["present"]] = {}
    for kind in sorted({package.kind for package in packages}):
        counted[kind] = sum(package.kind == kind for package in packages)
    listed = set(paths)
    if _APK in listed:
        counted["apk"] = "present"
    if "rpm" not in counted and any(map(_RPM.fullmatch, listed)):
        counted["rpm"] = "present"
    return counted
