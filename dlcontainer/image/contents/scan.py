"""Take down what is in a tree: its packages, its sizes, its distribution."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from dlcontainer.image.contents import conda, dpkg, python, rpm
from dlcontainer.image.contents.model import (
    MOST_BYTES,
    MOST_TEXT_BYTES,
    FileTree,
    InstalledPackage,
    TreeContents,
    TreeEntry,
)
from dlcontainer.image.contents.rpm import RpmReader
from dlcontainer.image.licensing import debian_copyright, vendor_terms
from dlcontainer.system.workspace import temporary

_RELEASES = ("/usr/lib/os-release", "/etc/os-release")
_DEPTH = 2


def take(
    tree: FileTree, rpms: RpmReader, entries: Sequence[TreeEntry] | None = None
) -> TreeContents:
    """Take down a tree's contents; `entries` are the tree's, where somebody has listed them."""
    entries = tree.entries() if entries is None else entries
    plain = [entry for entry in entries if entry.kind == "-"]
    with temporary(rpms.environ, rpms.runner) as folder:
        chosen_entries = [entry for entry in plain if _wanted(entry.path)]
        chosen = [entry.path for entry in chosen_entries if entry.size <= _most(entry.path)]
        beyond = sorted({entry.path for entry in chosen_entries} - set(chosen))
        files = tree.fetch(chosen, folder)
        lost = sorted(set(chosen) - set(files))
        packages, notes = packages_of(files, rpms, folder, _document_links(entries))
        release = _release(files)
    folders: dict[str, int] = {}
    for entry in plain:
        parent = entry.path.rpartition("/")[0]
        key = "/".join(parent.split("/")[: _DEPTH + 1]) or "/"
        folders[key] = folders.get(key, 0) + entry.size
    return TreeContents(
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
        vendor_files=tuple(entry.path for entry in plain if vendor_terms.of_file(entry.path)),
    )


def packages_of(
    files: Mapping[str, Path],
    rpms: RpmReader,
    folder: Path,
    links: Mapping[str, str] = MappingProxyType({}),
) -> tuple[tuple[InstalledPackage, ...], tuple[str, ...]]:
    """Read the packages from the files of the databases, by path; what was not read is noted.

    `links` are those of Debian's folder of documents.
    """
    deb = dpkg.packages(_those(files, dpkg.wanted), links)
    read, note = rpms.packages(_those(files, rpm.wanted), folder)
    pypi = python.packages(_those(files, python.wanted))
    packages = [*deb, *read, *pypi, *conda.packages(_those(files, conda.wanted))]
    return tuple(_merged(packages)), (note,) if note else ()


def _document_links(entries: Iterable[TreeEntry]) -> Mapping[str, str]:
    return {
        entry.path: entry.target
        for entry in entries
        if entry.kind == "l" and entry.path.startswith(debian_copyright.FOLDER)
    }


def _wanted(path: str) -> bool:
    checks = (dpkg.wanted, rpm.wanted, python.wanted, conda.wanted, _RELEASES.__contains__)
    return any(check(path) for check in checks)


def _most(path: str) -> int:
    return MOST_BYTES if rpm.wanted(path) else MOST_TEXT_BYTES


def _those(files: Mapping[str, Path], matches: Callable[[str], bool]) -> dict[str, Path]:
    return {path: file for path, file in files.items() if matches(path)}


def _merged(packages: Iterable[InstalledPackage]) -> Sequence[InstalledPackage]:
    """Make one of a package that several environments have in one version."""
    merged: dict[tuple[str, ...], InstalledPackage] = {}
    for package in packages:
        build = dict(package.details).get("build", "")
        key = (package.kind, package.name.lower(), package.version, package.arch, build)
        first = merged.get(key)
        places = {*package.places, *(first.places if first else ())}
        merged[key] = replace(first or package, places=tuple(sorted(places)))
    return [package for _, package in sorted(merged.items())]


def _release(files: Mapping[str, Path]) -> dict[str, str]:
    for path in _RELEASES:
        if path in files:
            lines = files[path].read_text(encoding="utf-8", errors="replace").splitlines()
            pairs = (line.partition("=") for line in lines if "=" in line)
            return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}
    return {}
