"""Take down what is in a tree: its packages, its sizes, its distribution."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dlcontainer.image.contents import conda, dpkg, python, rpm
from dlcontainer.image.contents.model import (
    MOST_BYTES,
    MOST_TEXT_BYTES,
    Contents,
    Entry,
    Package,
    Tree,
)
from dlcontainer.image.contents.rpm import RpmReader
from dlcontainer.system.workspace import temporary

_RELEASES = ("/usr/lib/os-release", "/etc/os-release")
_DEPTH = 2


def take(tree: Tree, rpms: RpmReader, entries: Sequence[Entry] | None = None) -> Contents:
    """Take down a tree's contents; `entries` are the tree's, where somebody has listed them."""
    entries = tree.entries() if entries is None else entries
    plain = [entry for entry in entries if entry.kind == "-"]
    with temporary(rpms.environ, rpms.runner) as folder:
        wanted = [entry for entry in plain if _wanted(entry.path)]
        chosen = [entry.path for entry in wanted if entry.size <= _most(entry.path)]
        beyond = sorted({entry.path for entry in wanted} - set(chosen))
        found = tree.fetch(chosen, folder)
        lost = sorted(set(chosen) - set(found))
        packages, notes = packages_of(found, rpms, folder)
        release = _release(found)
    folders: dict[str, int] = {}
    for entry in plain:
        parent = entry.path.rpartition("/")[0]
        key = "/".join(parent.split("/")[: _DEPTH + 1]) or "/"
        folders[key] = folders.get(key, 0) + entry.size
    return Contents(
        packages=packages,
        distribution=release.get("ID", ""),
        release=release.get("VERSION_ID", ""),
        files=len(plain),
        size=sum(entry.size for entry in plain),
        folders=dict(sorted(folders.items())),
        notes=(
            *notes,
            *(f"{path} was not read: it is too large for such a file" for path in beyond),
            *(f"{path} could not be read" for path in lost),
        ),
    )


def packages_of(
    found: Mapping[str, Path], rpms: RpmReader, folder: Path
) -> tuple[tuple[Package, ...], tuple[str, ...]]:
    """Read the packages from the files of the databases, by path; what was not read is noted."""
    deb: list[Package] = []
    for path, there in sorted(found.items()):
        if dpkg.wanted(path):
            deb += dpkg.packages(there.read_text(encoding="utf-8", errors="replace"))
    read, note = rpms.packages(_those(found, rpm.wanted), folder)
    pypi = python.packages(_those(found, python.wanted))
    packages = [*deb, *read, *pypi, *conda.packages(_those(found, conda.wanted))]
    return tuple(_merged(packages)), (note,) if note else ()


def _wanted(path: str) -> bool:
    checks = (dpkg.wanted, rpm.wanted, python.wanted, conda.wanted, _RELEASES.__contains__)
    return any(check(path) for check in checks)


def _most(path: str) -> int:
    return MOST_BYTES if rpm.wanted(path) else MOST_TEXT_BYTES


def _those(found: Mapping[str, Path], wanted: Callable[[str], bool]) -> dict[str, Path]:
    return {path: there for path, there in found.items() if wanted(path)}


def _merged(packages: Iterable[Package]) -> Sequence[Package]:
    """Make one of a package that several environments have in one version."""
    merged: dict[tuple[str, ...], Package] = {}
    for package in packages:
        build = dict(package.details).get("build", "")
        key = (package.kind, package.name.lower(), package.version, package.arch, build)
        first = merged.get(key)
        places = {*package.places, *(first.places if first else ())}
        merged[key] = replace(first or package, places=tuple(sorted(places)))
    return [package for _, package in sorted(merged.items())]


def _release(found: Mapping[str, Path]) -> dict[str, str]:
    for path in _RELEASES:
        if path in found:
            lines = found[path].read_text(encoding="utf-8", errors="replace").splitlines()
            pairs = (line.partition("=") for line in lines if "=" in line)
            return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}
    return {}
