"""The packages that a bill of materials lists, read back."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import bill_file, sbom
from dlcontainer.image.contents import InstalledPackage
from dlcontainer.image.contents.model import Kind
from dlcontainer.system import foreign_files

_KINDS: Mapping[str, Kind] = {f"pkg:{kind}": kind for kind in get_args(Kind)}
_SIZE = f"{sbom.PROPERTY}.installed-bytes"


def read(path: Path) -> tuple[InstalledPackage, ...]:
    """Read the packages of a bill that `image.sbom` wrote; raises ChecksFailedError."""
    try:
        text = foreign_files.read(path, sbom.MOST_BYTES)
        return tuple(map(_package, bill_file.components(text)))
    except ChecksFailedError as error:
        raise _unreadable(path, error.what) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unreadable(path, repr(error)[:200]) from None


def _unreadable(path: Path, why: str) -> ChecksFailedError:
    return ChecksFailedError(
        f"can't read the bill of materials {path}",
        why=why,
        next_step="copy it again from the folder of the build, or build again",
    )


def _package(component: Any) -> InstalledPackage:
    size = next((p["value"] for p in component.get("properties", ()) if p["name"] == _SIZE), None)
    return InstalledPackage(
        kind=_KINDS[str(component["purl"]).partition("/")[0]],
        name=str(component["name"]),
        version=str(component["version"]),
        size=None if size is None else int(size),
        sha256=next((str(digest["content"]) for digest in component.get("hashes", ())), ""),
    )
