"""What a wheel lets import: names of packages are no names of modules (opencv-python is cv2)."""

import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packaging.metadata import InvalidMetadata, Metadata
from packaging.utils import canonicalize_name, parse_wheel_filename

from dlcontainer.errors import BuildError

# Beside its modules a wheel often has these, at the same place.
_ASIDE = frozenset({"benchmarks", "docs", "examples", "scripts", "test", "testing", "tests"})
# In a wheel's .data folder: what pip installs where modules are.
_LIBRARIES = ("purelib", "platlib")
_VERSION = re.compile(r"""^__version__\s*(?::\s*str\s*)?=\s*["']([^"']+)["']\s*(?:#.*)?$""", re.M)
# Bytes of a file that is read in a wheel: packages are somebody else's.
_MOST_TEXT = 1_000_000
_MOST_MODULES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class WheelModules:
    """What one wheel lets import.

    `versions` has the `__version__` of the modules whose file states it as a plain text; `needs`
    are the packages that the wheel asks for, whatever their markers say.
    """

    package: str
    modules: tuple[str, ...]
    versions: dict[str, str]
    needs: frozenset[str]


def read(wheel: Path) -> WheelModules:
    """Read a wheel's list of files; raises BuildError for a file that is no wheel."""
    try:
        package = str(parse_wheel_filename(wheel.name)[0])
        with zipfile.ZipFile(wheel) as archive:
            files = _installed(archive.namelist())
            modules = _usual(package, names(files))
            versions = {}
            for module in modules:
                initial = f"{module.replace('.', '/')}/__init__.py"
                text = _text(archive, files.get(initial)) or _text(
                    archive, files.get(f"{module}.py")
                )
                stated = _VERSION.search(text)
                if stated:
                    versions[module] = stated[1]
            needs = _needs(archive)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise BuildError(
            f"can't read the wheel {wheel.name}",
            why=str(error),
            next_step="check that the index serves this file whole: `pip download` fetches it",
        ) from None
    return WheelModules(package=package, modules=modules, versions=versions, needs=needs)


def names(files: Iterable[str]) -> tuple[str, ...]:
    """Name the modules of the files that a wheel installs, sorted: the uppermost of each folder.

    A folder without __init__.py is a namespace that several wheels share: its packages count.
    """
    paths = [PurePosixPath(file) for file in files]
    packages = {path.parent for path in paths if path.name.split(".")[0] == "__init__"}
    packages.discard(PurePosixPath("."))
    uppermost = {
        package for package in packages if not any(above in packages for above in package.parents)
    }
    modules = {".".join(package.parts) for package in uppermost}
    modules |= {
        path.name.split(".")[0]
        for path in paths
        if len(path.parts) == 1 and path.suffix in (".py", ".so")
    }
    return tuple(sorted(filter(_is_public, modules)))


def _is_public(module: str) -> bool:
    parts = module.split(".")
    plain = all(part.isidentifier() and not part.startswith("_") for part in parts)
    return plain and parts[0] not in _ASIDE


def _usual(package: str, modules: tuple[str, ...]) -> tuple[str, ...]:
    """Take the module that bears the package's name; where none does, all of them, up to five."""
    same = [module for module in modules if canonicalize_name(module) == package]
    return tuple(same) or modules[:_MOST_MODULES]


def _installed(listed: Iterable[str]) -> dict[str, str]:
    """Map paths as they are installed to names in the archive."""
    files = {}
    for name in listed:
        parts = PurePosixPath(name).parts
        if not parts or name.endswith("/") or parts[0].endswith(".dist-info"):
            continue
        if parts[0].endswith(".data"):
            if len(parts) < 3 or parts[1] not in _LIBRARIES:
                continue
            parts = parts[2:]
        files["/".join(parts)] = name
    return files


def _text(archive: zipfile.ZipFile, name: str | None) -> str:
    if name is None:
        return ""
    with archive.open(name) as file:
        return file.read(_MOST_TEXT).decode(errors="replace")


def _needs(archive: zipfile.ZipFile) -> frozenset[str]:
    listed = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    text = _text(archive, next(listed, None))
    try:
        required = Metadata.from_email(text, validate=False).requires_dist or []
    except (InvalidMetadata, ExceptionGroup):
        return frozenset()
    return frozenset(canonicalize_name(need.name) for need in required)
