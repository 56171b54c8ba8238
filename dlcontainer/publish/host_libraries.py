"""The host's libraries that a site puts into images: do they load with the image's C library?

Looked at where the module is published, as far as they are there: login nodes differ from compute
nodes, so a missing one is no error here.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from dlcontainer.errors import PublishError
from dlcontainer.formats import host_variables
from dlcontainer.image.contents import elf
from dlcontainer.planning.versions import is_newer, numbers
from dlcontainer.publish.modulefiles import ModuleRelease
from dlcontainer.sites.facts import Mpi

_GLIBC = re.compile(r"GLIBC_([0-9.]+)")
_GLIBCXX = re.compile(r"GLIBCXX_([0-9.]+)")
# GCC -> the newest GLIBCXX_… of its libstdc++.
# Source: gcc.gnu.org/onlinedocs/libstdc++/manual/abi.html, "Prerequisites".
_LIBSTDCXX = {"9": "3.4.26", "10": "3.4.28", "11": "3.4.29", "12": "3.4.30", "13": "3.4.32"}
_LIBSTDCXX["14"] = "3.4.33"
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


def require_fit(
    mpi: Mpi, release: ModuleRelease, environ: Mapping[str, str], note: Callable[[str], None]
) -> None:
    """Look at each library that the site names; raises PublishError for one that can't load."""
    for name in _named(mpi):
        missing = [
            variable for variable in host_variables.variables([name]) if not environ.get(variable)
        ]
        if missing:
            note(f"not checked: {name}: ${missing[0]} is not set here")
            continue
        path = Path(_VARIABLE.sub(lambda match: environ.get(match[1] or match[2], ""), name))
        if not path.is_file():
            note(f"not checked: {path}: it is missing on this host; in a job this is an error")
            continue
        try:
            needs = elf.version_needs(path)
        except (OSError, ValueError) as error:
            note(f"not checked: {path}: {error}")
            continue
        _require(path, needs, release, note)


def _named(mpi: Mpi) -> Iterator[str]:
    binds = (bind.partition(":")[0] for bind in mpi.binds)
    named = (*mpi.libraries, *mpi.preload, *(path for path in binds if ".so" in path))
    yield from dict.fromkeys(named)


def _require(
    path: Path, needs: frozenset[str], release: ModuleRelease, note: Callable[[str], None]
) -> None:
    newest = _newest(_GLIBC, needs)
    if is_newer(newest, release.glibc):
        raise PublishError(
            f"{path} needs GLIBC_{newest}, but the image has glibc {release.glibc}",
            why="the site config (mpi) binds this host library into the image, where it "
            "would not load",
            next_step=f"build the image on a base with glibc {newest} or newer",
        )
    newest = _newest(_GLIBCXX, needs)
    has = _LIBSTDCXX.get((release.gcc or "").partition(".")[0])
    if is_newer(newest, has):
        note(
            f"{path} needs GLIBCXX_{newest}; GCC {release.gcc} of the image's base has {has}: "
            "the library may not load"
        )


def _newest(pattern: re.Pattern[str], needs: frozenset[str]) -> str | None:
    versions = [match[1] for match in map(pattern.fullmatch, needs) if match]
    return max(versions, key=lambda version: numbers(version) or (), default=None)
