"""What pip says that it installed in a step; it writes that into the routing's folder."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from dlcontainer.errors import BuildError
from dlcontainer.packages.routing import PIP_REPORT, PreparedRouting
from dlcontainer.system import digests, foreign_files

_MOST_BYTES = 64_000_000


def installed(routed: PreparedRouting) -> tuple[dict[str, str], ...]:
    """List the wheels that pip took in the build: name, version, sha256; no address.

    Raises BuildError for a report that can't be pip's: a step's own script can write there.
    """
    path = routed.folder / PIP_REPORT
    try:
        report = foreign_files.loads(foreign_files.read(path, _MOST_BYTES))
        wheels = [
            {
                "name": str(item["metadata"]["name"]),
                "version": str(item["metadata"]["version"]),
                "sha256": _wheel_sha256(item["download_info"], routed),
            }
            for item in report["install"]
        ]
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BuildError(
            "cannot read pip's report on this step",
            why=repr(error)[:200],
            next_step="check the step's script: it must not write into the routing's folder",
        ) from None
    return tuple(sorted(wheels, key=lambda wheel: wheel["name"].lower()))


def take_installed(routed: PreparedRouting) -> tuple[dict[str, str], ...]:
    """List the wheels that the step before took, and forget them: the next step has its own."""
    wheels = installed(routed)
    (routed.folder / PIP_REPORT).unlink(missing_ok=True)
    return wheels


def _wheel_sha256(info: Mapping[str, Any], routed: PreparedRouting) -> str:
    """Return a wheel's SHA-256; older pips (Debian 12's) report none for a wheel of a folder."""
    digest = info.get("archive_info", {}).get("hashes", {}).get("sha256")
    if digest:
        return str(digest)
    path = unquote(urlsplit(info["url"]).path)
    for folder, target in routed.binds:
        wheel = folder / path.removeprefix(f"{target}/")
        if path.startswith(f"{target}/") and ".." not in wheel.parts and wheel.is_file():
            return digests.of_file(wheel)
    return ""
