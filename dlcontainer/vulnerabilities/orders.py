"""The order of versions in an ecosystem: Debian's by `univers`, Python's by `packaging`."""

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from dlcontainer.errors import EngineError

# Longer than any version is; the readers' time grows with the square of the length.
_LONGEST = 200
# Both readers take digits of other scripts, which no version has.
_CHARACTERS = re.compile(r"[!-~]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionOrder:
    """How versions compare: `key` raises ValueError; `against` gives the installed one's key.

    `against` has the version that it will be compared with, since a Python version's local part
    counts only against such a version.
    """

    key: Callable[[str], Any]
    against: Callable[[Any, Any], Any] = lambda installed, _named: installed


def of(ecosystem: str) -> VersionOrder:
    """Return the order of `Debian`, `Ubuntu` or `PyPI`; raises EngineError without `univers`."""
    return _ORDERS[ecosystem]()


def _debian() -> VersionOrder:
    try:
        from univers import debian
    except ImportError:
        raise EngineError(
            "the Python package `univers` is missing",
            why="dlcontainer compares Debian's versions with it",
            next_step="install it beside dlcontainer: pip install 'univers>=31'",
        ) from None
    compare = functools.cmp_to_key(debian.compare_versions)
    read: Callable[[str], Any] = debian.Version.from_string
    return VersionOrder(key=lambda text: compare(read(_plain(text))))


def _pypi() -> VersionOrder:
    from packaging.version import Version

    def against(installed: Version, named: Version) -> Version:
        """Leave out `+cpu` of a rebuild: its upstream version is what a record names."""
        return installed if named.local else Version(installed.public)

    return VersionOrder(key=lambda text: Version(_plain(text)), against=against)


def _plain(text: str) -> str:
    if len(text) > _LONGEST or not _CHARACTERS.fullmatch(text):
        raise ValueError(f"not a version: {text[:80]!r}")
    return text


_ORDERS: Mapping[str, Callable[[], VersionOrder]] = MappingProxyType(
    {"Debian": _debian, "Ubuntu": _debian, "PyPI": _pypi}
)
ECOSYSTEMS = tuple(_ORDERS)
_KINDS: Mapping[str, str] = MappingProxyType({"deb": "Debian", "pypi": "PyPI"})


def is_older(kind: str, version: str, than: str) -> bool | None:
    """Compare versions of a kind of package; None where its order, or a version, is not known.

    Raises EngineError without `univers`.
    """
    if kind not in _KINDS:
        return None
    order = of(_KINDS[kind])
    try:
        named = order.key(than)
        return bool(order.against(order.key(version), named) < named)
    except ValueError:
        return None
