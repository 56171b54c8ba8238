"""What pip says that it installed in a step; it writes that into the routing's folder."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from dlcontainer.routing import PIP_REPORT, Routed


def installed(routed: Routed) -> tuple[dict[str, str], ...]:
    """List the wheels that pip took in the build: name, version, sha256; no address."""
    try:
        report = json.loads((routed.folder / PIP_REPORT).read_text())
    except FileNotFoundError:
        return ()
    found = [
        {
            "name": str(item["metadata"]["name"]),
            "version": str(item["metadata"]["version"]),
            "sha256": _wheel_sha256(item["download_info"], routed),
        }
        for item in report["install"]
    ]
    return tuple(sorted(found, key=lambda wheel: wheel["name"].lower()))


def take_installed(routed: Routed) -> tuple[dict[str, str], ...]:
    """List the wheels that the step before took, and forget them: the next step has its own."""
    found = installed(routed)
    (routed.folder / PIP_REPORT).unlink(missing_ok=True)
    return found


def _wheel_sha256(info: Mapping[str, Any], routed: Routed) -> str:
    """Give a wheel's SHA-256; older pips (Debian 12's) report none for a wheel of a folder."""
    given = info.get("archive_info", {}).get("hashes", {}).get("sha256")
    if given:
        return str(given)
    path = unquote(urlsplit(info["url"]).path)
    for folder, target in routed.binds:
        wheel = folder / path.removeprefix(f"{target}/")
        if path.startswith(f"{target}/") and wheel.is_file():
            with wheel.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
    return ""
