"""The packages that a bill of materials lists, read back."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from dlcontainer.errors import ChecksFailedError
from dlcontainer.image.contents import InstalledPackage
from dlcontainer.image.contents.model import Kind
from dlcontainer.system import foreign_files

_MOST_BYTES = 64_000_000
_KINDS: Mapping[str, Kind] = {f"pkg:{kind}": kind for kind in get_args(Kind)}
_SIZE = "org.dlcontainer.installed-bytes"


def read(path: Path) -> tuple[InstalledPackage, ...]:
    """Read the packages of a bill that `image.sbom` wrote; raises ChecksFailedError."""
    try:
        body = foreign_files.loads(foreign_files.read(path, _MOST_BYTES))
        return tuple(
            _package(component) for component in body["components"] if component["type"] != "file"
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ChecksFailedError(
            f"can't read the bill of materials {path}",
            why=repr(error)[:200],
            next_step="copy it again from the folder of the build, or build again",
        ) from None


def _package(component: Mapping[str, Any]) -> InstalledPackage:
    size = next((p["value"] for p in component.get("properties", ()) if p["name"] == _SIZE), None)
    return InstalledPackage(
        kind=_KINDS[str(component["purl"]).partition("/")[0]],
        name=str(component["name"]),
        version=str(component["version"]),
        size=None if size is None else int(size),
        sha256=next((str(digest["content"]) for digest in component.get("hashes", ())), ""),
    )
