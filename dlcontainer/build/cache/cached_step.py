"""The result of a step as it is kept, whatever keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass

Packages = tuple[Mapping[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CachedStep:
    """The result of a step as it is kept: by whom it was made, when (UTC, ISO 8601), its bytes.

    `packages` are the Python packages that the step installed: name, version, sha256.
    """

    key: str
    name: str
    maker: str
    made_at: str
    size: int
    packages: Packages = ()
