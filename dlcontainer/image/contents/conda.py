"""Conda packages of every environment: a JSON file for each in `conda-meta`."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from dlcontainer.image.contents.model import InstalledPackage, size_of
from dlcontainer.image.licensing import spdx
from dlcontainer.image.licensing.package_license import PackageLicense
from dlcontainer.system import foreign_files

# A channel is a name or an address, and an address may hold a token: only a name is passed on.
_CHANNEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LONGEST_NAME = 100


def wanted(path: str) -> bool:
    """Return whether a file of the tree describes a package."""
    folder, _, name = path.rpartition("/")
    return folder.endswith("/conda-meta") and name.endswith(".json")


def packages(files: Mapping[str, Path]) -> Iterator[InstalledPackage]:
    """Yield the packages; an incomplete record is skipped."""
    for path, file in sorted(files.items()):
        try:
            body = foreign_files.loads(file.read_bytes())
            details = {
                "build": str(body.get("build", "")),
                "channel": _channel(str(body.get("channel", ""))),
                "subdir": str(body.get("subdir", "")),
            }
            yield InstalledPackage(
                kind="conda",
                name=str(body["name"]),
                version=str(body["version"]),
                size=_size(body.get("paths_data")),
                places=(str(PurePosixPath(path).parent.parent),),
                details=tuple((key, value) for key, value in details.items() if value),
                sha256=str(body.get("sha256") or ""),
                license=_license(body.get("license"), path),
                needs=_needs(body.get("depends")),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            continue


def _channel(channel: str) -> str:
    # https://conda.example.org/t/TOKEN/forge/linux-64 -> forge
    parts = [part for part in channel.split("/") if part not in ("", "noarch")]
    while len(parts) > 1 and re.match(r"(linux|osx|win)-", parts[-1]):
        parts.pop()
    name = parts[-1] if parts else ""
    is_token = len(parts) > 1 and parts[-2] == "t"
    return name if _CHANNEL.fullmatch(name) and not is_token else ""


def _license(written: object, source: str) -> PackageLicense | None:
    if not isinstance(written, str) or not written.strip() or "\n" in written:
        return None
    text = written.strip()
    if expression := spdx.identifier(text) or spdx.expression(text, strict=True):
        return PackageLicense(expression=expression, source=source)
    return PackageLicense(names=(text[:_LONGEST_NAME],), source=source)


def _needs(depends: object) -> tuple[str, ...] | None:
    return tuple(map(str, depends)) if isinstance(depends, list) else None


def _size(data: object) -> int | None:
    paths = data.get("paths") if isinstance(data, dict) else None
    if not isinstance(paths, list):
        return None
    sizes = [size_of(entry.get("size_in_bytes")) for entry in paths if isinstance(entry, dict)]
    return sum(size for size in sizes if size is not None)
