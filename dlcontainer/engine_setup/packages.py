"""Debian packages as files: their dependencies, their contents, their digests."""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from dlcontainer.engine_setup.aptget import PrivateApt
from dlcontainer.engine_setup.commands import run
from dlcontainer.system import digests


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """A downloaded package, as the record keeps it."""

    name: str
    version: str
    sha256: str

    def as_json(self) -> dict[str, str]:
        """Return the fields by name."""
        return asdict(self)


def describe(deb: Path) -> Package:
    """Read name and version of a `.deb` and hash it."""
    name, version = _field(deb, "Package"), _field(deb, "Version")
    return Package(name=name, version=version, sha256=digests.of_file(deb))


def unpack(debs: Iterable[Path], tree: Path) -> None:
    """Unpack the packages' files under `tree`; none of their scripts run."""
    for deb in debs:
        run(["dpkg-deb", "-x", str(deb), str(tree)])


def is_elf(file: Path) -> bool:
    """Return whether a file is a program or library, and no link and no script."""
    if file.is_symlink() or not file.is_file():
        return False
    with file.open("rb") as handle:
        return handle.read(4) == b"\x7fELF"


def depends(deb: Path) -> list[str]:
    """Return the names a package depends on, the first of each set of alternatives."""
    clauses = f"{_field(deb, 'Pre-Depends')},{_field(deb, 'Depends')}".split(",")
    names = [re.match(r"[a-z0-9][a-z0-9+.-]*", clause.strip()) for clause in clauses]
    return [name[0] for name in names if name]


def with_libraries(apt: PrivateApt, names: Iterable[str]) -> list[Path]:
    """Download packages with all the library packages (`lib…`) they need, however deep."""
    debs: list[Path] = []
    asked_for: set[str] = set()
    missing = set(names)
    while missing:
        asked_for |= missing
        new = apt.download(sorted(missing))
        debs += new
        needed = {name for deb in new for name in depends(deb)}
        missing = {name for name in needed if name.startswith("lib")} - asked_for
    return debs


def _field(deb: Path, name: str) -> str:
    return run(["dpkg-deb", "-f", str(deb), name]).stdout.strip()
