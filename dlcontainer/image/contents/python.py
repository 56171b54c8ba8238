"""Python packages of every environment: the folders that installers leave.

Source: packaging.python.org, "Recording installed projects" (dist-info) and "Core metadata";
setuptools' egg-info.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from dlcontainer.image.contents.model import InstalledPackage, size_of
from dlcontainer.image.licensing import spdx
from dlcontainer.image.licensing.package_license import PackageLicense
from dlcontainer.system import digests

_METADATA = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}
_BESIDE = ("INSTALLER", "RECORD")
_LICENSE = "License :: "
# Old packages have a licence's whole text in the field of its name.
_LONGEST_NAME = 100


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
        headers = _headers(_text(file))
        name, version = _named(headers, folder)
        if not name or not version:
            continue
        neighbours = {key: files.get(f"{folder}/{key}") for key in _BESIDE}
        installer = _text(neighbours["INSTALLER"]).strip().partition("\n")[0]
        record = neighbours["RECORD"]
        yield InstalledPackage(
            kind="pypi",
            name=name,
            version=version,
            size=_size(_text(record)),
            places=(str(PurePosixPath(folder).parent),),
            details=(("installer", installer),) if installer else (),
            sha256=digests.of_file(record) if record else "",
            sha256_of=f"{folder}/RECORD" if record else "",
            license=_license(headers, path),
            # An egg-info lists its needs elsewhere.
            needs=tuple(headers["requires-dist"]) if path.endswith("METADATA") else None,
        )


def stated(metadata: str, source: str) -> tuple[PackageLicense | None, tuple[str, ...]]:
    """Return the licence and the needs that a package's metadata state; `source` is their path."""
    headers = _headers(metadata)
    return _license(headers, source), tuple(headers["requires-dist"])


def _headers(metadata: str) -> Mapping[str, Sequence[str]]:
    headers: dict[str, list[str]] = {
        key: []
        for key in ("name", "version", "license-expression", "license", "classifier",
                    "requires-dist")
    }  # fmt: skip
    key = ""
    for line in metadata.splitlines():
        if not line.strip():
            break  # what follows is the long description
        if line[0].isspace():
            # A text of several lines: no name of a licence.
            if headers.get(key):
                headers[key][-1] += "\n"
            continue
        key, _, value = line.partition(":")
        key = key.lower()
        if key in headers:
            headers[key].append(value.strip())
    return headers


def _named(headers: Mapping[str, Sequence[str]], folder: str) -> tuple[str, str]:
    # Without its metadata a folder's own name tells as much: NAME-VERSION.dist-info.
    name, _, version = PurePosixPath(folder).stem.partition("-")
    stated = [next((text.strip() for text in headers[key] if text.strip()), "")
              for key in ("name", "version")]  # fmt: skip
    return stated[0] or name, stated[1] or version


def _license(headers: Mapping[str, Sequence[str]], source: str) -> PackageLicense | None:
    """Read the licence that the metadata states: PEP 639's expression, a name, classifiers."""
    for text in headers["license-expression"]:
        if expression := spdx.expression(text):
            return PackageLicense(expression=expression, source=source)
    written = [
        text
        for text in headers["license"]
        if text and text.upper() != "UNKNOWN" and "\n" not in text and len(text) <= _LONGEST_NAME
    ]
    for text in written:
        if expression := spdx.identifier(text) or spdx.expression(text, strict=True):
            return PackageLicense(expression=expression, source=source)
    classifiers = [
        text.rpartition(" :: ")[2]
        for text in headers["classifier"]
        if text.startswith(_LICENSE) and text != "License :: OSI Approved"
    ]
    identifiers = {spdx.CLASSIFIERS.get(text, "") for text in classifiers}
    if len(identifiers) == 1 and "" not in identifiers:
        return PackageLicense(expression=identifiers.pop(), source=source)
    names = tuple(dict.fromkeys(written or classifiers))
    return PackageLicense(names=names, source=source) if names else None


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
