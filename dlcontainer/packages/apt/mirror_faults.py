"""A mirror whose index names packages that it does not hold: known by what apt says. Pure.

apt takes a package's address from an index that is signed, so a package that is not there, or is
another one, is the mirror's fault (or that of a cache before it), and nothing here can cure it.
"""

import re
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from dlcontainer.errors import BuildError
from dlcontainer.packages.apt import apt_syntax

# One line a file. Of an index the same words mean that the suite is not there at all.
_FAILED = re.compile(r"^E: Failed to fetch (?P<url>\S+\.u?deb)\s+(?P<said>\S.*)$", re.MULTILINE)
_FAULTS = re.compile(
    r"404\b|410\b|File has unexpected size|Hash Sum mismatch|Mirror sync in progress",
    re.IGNORECASE,
)
_SHOWN = 3

# So that a cache before the mirror asks it too, and what is there now and then is found.
FRESH = tuple(
    apt_syntax.setting(f"Acquire::{scheme}::No-Cache", "true") for scheme in ("http", "https")
)


class MirrorFaultError(Exception):
    """The mirror's index names packages that the mirror does not hold: another way may be left.

    `told` is the error for the user, where none is.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        super().__init__(*urls)
        self.told = BuildError(
            "the mirror's index lists packages that the mirror does not have",
            why=f"{hosts(urls)} does not serve {named(urls)}",
            next_step="build again in some hours (mirrors of rare architectures lag "
            "behind), or name another mirror (routing.apt of the site), another "
            "release (--set base.release=RELEASE), or a base that another host "
            "made (--base FILE)",
        )


def missing(output: str) -> tuple[str, ...]:
    """Return the addresses of packages that an index names and its mirror does not hold."""
    addresses = [
        match["url"] for match in _FAILED.finditer(output) if _FAULTS.search(match["said"])
    ]
    return tuple(dict.fromkeys(addresses))


def named(urls: Sequence[str]) -> str:
    """Name a few of the packages, and how many there are."""
    names = [unquote(urlsplit(url).path.rpartition("/")[2]) for url in urls]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def hosts(urls: Sequence[str]) -> str:
    """Name the mirrors, without passwords."""
    return ", ".join(dict.fromkeys(urlsplit(url).hostname or url for url in urls))
