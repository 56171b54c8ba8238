"""Python packages of every environment: the folders that installers leave.

Source: packaging.python.org, "Recording installed projects" (dist-info); setuptools' egg-info.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from dlcontainer.image.contents.model import InstalledPackage, size_of

_METADATA = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}
_BESIDE = ("INSTALLER", "RECORD")


def wanted(path: str) -> bool:
    """Return whether a file of the tree describes a package."""
    folder, _, name = path.rpartition("/")
    if folder.endswith(".dist-info") and name in _BESIDE:
        return True
    # A package without files of its own has a file for an egg-info folder.
    return name.endswith(".egg-info") or any(
        name == metadata and folder.endswith(kind) for kind, metadata in _METADATA.items()
    )


def packages(files: Mapping[str, Path]) -> Iterator[InstalledPackage]:
    """Yield the packages that files of the tree describe; `files` are those of `wanted`."""
    for path, file in sorted(files.items()):
        if PurePosixPath(path).name in _BESIDE:
            continue
        alone = path.endswith(".egg-info")
        folder = path if alone else str(PurePosixPath(path).parent)
        name, version = _named(file, folder)
        if not name or not version:
            continue
        neighbours = {key: files.get(f"{folder}/{key}") for key in _BESIDE}
        installer = _text(neighbours["INSTALLER"]).strip().partition("\n")[0]
        yield InstalledPackage(
            kind="pypi",
            name=name,
            version=version,
            size=_size(_text(neighbours["RECORD"])),
            places=(str(PurePosixPath(folder).parent),),
            details=(("installer", installer),) if installer else (),
        )


def _named(metadata: Path, folder: str) -> tuple[str, str]:
    headers = {"name": "", "version": ""}
    for line in _text(metadata).splitlines():
        if not line.strip():
            break  # what follows is the long description
        key, colon, value = line.partition(":")
        if colon and headers.get(key.lower()) == "":
            headers[key.lower()] = value.strip()
    # Without its metadata a folder's own name tells as much: NAME-VERSION.dist-info.
    name, _, version = PurePosixPath(folder).stem.partition("-")
    return headers["name"] or name, headers["version"] or version


def _size(record: str) -> int | None:
    """Add up what a RECORD lists, bytes; None without one that can be read."""
    try:
        lines = io.StringIO(record)  # one line at a time: a small file may have millions
        sizes = [size_of(row[2]) for row in csv.reader(lines) if len(row) == 3]
    except csv.Error:  # a field without end
        return None
    return sum(size for size in sizes if size is not None) if sizes else None


def _text(path: Path | None) -> str:
    return "" if path is None else path.read_text(encoding="utf-8", errors="replace")
