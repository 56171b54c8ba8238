"""Versions as numbers, as far as their texts say them; what they leave open stays open."""

import re
from dataclasses import dataclass

Numbers = tuple[int, ...]

_RELEASE = re.compile(r"[0-9]+(?:\.[0-9]+)*")
_LEADING = re.compile(r"([0-9]+(?:\.[0-9]+)*)(?=$|[.+_-])")


def numbers(text: str) -> Numbers | None:
    """Read the leading numbers: (11, 7, 1) of `11.7.1`, (12,) of `12.x`; None of `weird`."""
    match = _LEADING.match(text)
    return tuple(int(part) for part in match[1].split(".")) if match else None


def release(text: str) -> str:
    """Return the release of a version, without what a build adds: 2.13.0 of `2.13.0+cpu`."""
    match = _RELEASE.match(text)
    return match[0] if match else text


def compare(version: Numbers, limit: Numbers) -> int | None:
    """Return -1, 0 or 1: older than the limit, of its line, or newer; None where it is left open.

    12.4.1 is of the line 12.4; whether 12 is newer than 12.4 can't be told.
    """
    shared = min(len(version), len(limit))
    if version[:shared] != limit[:shared]:
        return 1 if version[:shared] > limit[:shared] else -1
    return 0 if len(version) >= len(limit) else None


def is_newer(version: str | None, limit: str | None) -> bool:
    """Return whether a version is newer than a limit; false where one is not known."""
    mine, theirs = numbers(version or ""), numbers(limit or "")
    return bool(mine and theirs and compare(mine, theirs) == 1)


def written(version: Numbers) -> str:
    """Write numbers as a version: 12.4 of (12, 4)."""
    return ".".join(map(str, version))


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionKey:
    """A variant's version, and that of its CUDA, ROCm or oneAPI; the version decides first."""

    version: str | None
    toolkit: str | None

    @property
    def order(self) -> tuple[Numbers, Numbers]:
        """Return what sorts: what is not known is older than all else."""
        return numbers(self.version or "") or (), numbers(self.toolkit or "") or ()
