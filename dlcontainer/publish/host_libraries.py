"""The host's libraries that a site puts into images: do they load with the image's C library?

Looked at where the module is published, as far as they are there: login nodes differ from compute
nodes, so a missing one is no error here.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from dlcontainer.errors import PublishError
from dlcontainer.image.contents import elf
from dlcontainer.planning.launch import host_files
from dlcontainer.planning.versions import is_newer
from dlcontainer.publish.modulefiles import ModuleRelease
from dlcontainer.sites.facts import Mpi

# GCC -> the newest GLIBCXX_… of its libstdc++.
# Source: gcc.gnu.org/onlinedocs/libstdc++/manual/abi.html, "Prerequisites".
_LIBSTDCXX = {"9": "3.4.26", "10": "3.4.28", "11": "3.4.29", "12": "3.4.30", "13": "3.4.32"}
_LIBSTDCXX["14"] = "3.4.33"


def require_fit(
    mpi: Mpi, release: ModuleRelease, environ: Mapping[str, str], note: Callable[[str], None]
) -> None:
    """Look at each library that the site names; raises PublishError for one that can't load."""
    for name in host_files.named(mpi):
        try:
            path = host_files.located(name, environ)
        except LookupError as error:
            note(f"not checked: {error.args[0]}")
            continue
        try:
            needs = elf.version_needs(path)
        except (OSError, ValueError) as error:
            note(f"not checked: {path}: {error}")
            continue
        _require(path, needs, release, note)


def _require(
    path: Path, needs: frozenset[str], release: ModuleRelease, note: Callable[[str], None]
) -> None:
    newest = host_files.newest("GLIBC", needs)
    if is_newer(newest, release.glibc):
        raise PublishError(
            f"{path} needs GLIBC_{newest}, but the image has glibc {release.glibc}",
            why="the site config (mpi) binds this host library into the image, where it "
            "would not load",
            next_step=f"build the image on a base with glibc {newest} or newer",
        )
    newest = host_files.newest("GLIBCXX", needs)
    has = _LIBSTDCXX.get((release.gcc or "").partition(".")[0])
    if is_newer(newest, has):
        note(
            f"{path} needs GLIBCXX_{newest}; GCC {release.gcc} of the image's base has {has}: "
            "the library may not load"
        )
