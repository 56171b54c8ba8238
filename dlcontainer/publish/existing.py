"""A version that is published already: is it this image, and is it still what was published?"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from dlcontainer.config.templating import quote
from dlcontainer.errors import ChecksFailedError, PublishError
from dlcontainer.image import record
from dlcontainer.publish import checksums, module_tree
from dlcontainer.publish.module_tree import Place
from dlcontainer.publish.modulefiles import Release
from dlcontainer.publish.open_folder import Folder
from dlcontainer.system import digests, foreign_files
from dlcontainer.system.progress import Progress

_MOST_SUMS_BYTES = 1_000_000
_ALWAYS = ("record.json", "checks.json", "module.lua", "module.tcl")


def require_same(place: Place, release: Release, top: Folder, progress: Progress) -> None:
    """Compare a visible version with the image that is to be published as it.

    Raises PublishError where it is another image, and where it is damaged: then the error names
    the file. All bytes of it are read.
    """
    folder = module_tree.find(top, place)
    if folder is None:
        raise _damaged(place, place.folder, "its folder is missing")
    with folder:
        _require_image(place, release, folder, progress)
        found = _sums(place, release, folder)
        for name in sorted({*_required(release), *found}):
            _require_file(place, folder, name, found.get(name))
    for link, name in place.links.items():
        module_tree.require_link(link, place, name)


def _require_image(place: Place, release: Release, folder: Folder, progress: Progress) -> None:
    path = folder.path / "record.json"
    with _explained(place, path), folder.open("record.json") as file:
        sha256 = record.of_file(file, path).record.image.sha256
    if sha256 != release.sha256:
        raise PublishError(
            f"{place.name}/{place.version} is published already, and is another image",
            where=str(place.folder),
            why="who uses a version relies on it to stay what it is",
            next_step="give the recipe a new version, or remove the old one by hand: "
            "docs/publish.md",
        )
    path = folder.path / "image.sif"
    with _explained(place, path), folder.open("image.sif") as file:
        progress.step(f"compare with what is published, {_mb(file)}")
        there = digests.of_open(file, tell=progress.line)
    if there != sha256:
        raise _damaged(place, path, f"its SHA-256 is {there[:12]}…, published was {sha256[:12]}…")


def _required(release: Release) -> list[str]:
    return [*_ALWAYS, *(f"bin/{command}" for command in release.commands)]


def _sums(place: Place, release: Release, folder: Folder) -> Mapping[str, str]:
    """Read the checksums; a version of dlcontainer 0.1 has none: its files are only looked for."""
    path = folder.path / checksums.FILE
    mark = folder.info(module_tree.MARK)
    if folder.info(checksums.FILE) is None and (mark is None or mark.st_size == 0):
        return {}
    with _explained(place, path), folder.open(checksums.FILE) as file:
        found = checksums.read(foreign_files.content(file, _MOST_SUMS_BYTES))
    missing = sorted({"image.sif", *_required(release)} - found.keys())
    if missing:
        raise _damaged(place, path, f"it has no checksum of {missing[0]}")
    if found.pop("image.sif") != release.sha256:
        raise _damaged(place, path, "its checksum of image.sif is not the record's")
    return found


def _require_file(place: Place, folder: Folder, name: str, sha256: str | None) -> None:
    path = folder.path / name
    with contextlib.ExitStack() as held:
        held.enter_context(_explained(place, path))
        *_, last = name.split("/")
        inside = held.enter_context(folder.sub("bin")) if last != name else folder
        file = held.enter_context(inside.open(last))
        info = os.fstat(file.fileno())
        if info.st_size == 0:
            raise _damaged(place, path, "it is empty")
        if last != name and not info.st_mode & 0o001:
            raise _damaged(place, path, "users can't run it")
        if sha256 is not None and digests.of_open(file) != sha256:
            raise _damaged(place, path, f"its SHA-256 is not that of {checksums.FILE}")


@contextlib.contextmanager
def _explained(place: Place, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _damaged(place, path, error.strerror or str(error)) from None
    except ChecksFailedError as error:
        raise _damaged(place, path, error.what) from None
    except ValueError as error:
        raise _damaged(place, path, str(error)) from None


def _damaged(place: Place, path: Path, why: str) -> PublishError:
    hide = " ".join(["rm -f", *(quote(link) for link in place.links)])
    return PublishError(
        f"{place.name}/{place.version} is published, and damaged",
        where=str(path),
        why=f"{why}; nothing was changed, since jobs may be using it",
        next_step=f"hide it: {hide}\n        when no job uses it any more, publish again: that "
        "replaces it",
    )


def _mb(file: BinaryIO) -> str:
    return f"{os.fstat(file.fileno()).st_size / 1e6:.0f} MB"
