"""Locks for tests."""

import hashlib
from typing import Any

from dlcontainer.packages.lockfile import Lock, LockedBase, LockedStep, OsPin, WheelPin
from dlcontainer.planning.plan import Plan


def deb(
    name: str = "mawk", version: str = "1.3", data: bytes = b"deb", arch: str = "amd64"
) -> OsPin:
    sha256 = hashlib.sha256(data).hexdigest()
    return OsPin(name=name, version=version, arch=arch, sha256=sha256, size=len(data))


def wheel(name: str = "tool", version: str = "2.0", data: bytes = b"wheel") -> WheelPin:
    file = f"{name}-{version}-py3-none-any.whl"
    return WheelPin(name=name, version=version, file=file, sha256=hashlib.sha256(data).hexdigest())


def lock(of: Plan | None = None, **changes: Any) -> Lock:
    """Give a small lock: one package in the base, one in a step, one wheel."""
    steps = (
        LockedStep(name="system", os_packages=(deb("python3", "1:3.11~rc1+b1"),)),
        LockedStep(name="wheels", python_packages=(wheel(),)),
    )
    given: dict[str, Any] = {
        "schema": "dlcontainer/lock/1",
        "name": of.name if of else "demo-1.0-demo",
        "plan": of.digest if of else "ab" * 32,
        "recipe": "demo",
        "site": "demo",
        "arch": "x86_64",
        "python": "3.11",
        "dlcontainer": "0.1.0",
        "made": "2026-11-21T12:00:00Z",
        "base": LockedBase(distribution="debian", release="bookworm", packages=(deb(),)),
        "steps": steps,
    }
    return Lock(**{**given, **changes})
