"""A tree of an earlier dlcontainer becomes one of generations; nothing that jobs use goes away.

Each version that users see becomes a release, with the same image by a hard link. Its old folder
stays: a job that has loaded it has that folder in its PATH. It goes with the collection.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from dlcontainer.errors import ChecksFailedError, PublishError
from dlcontainer.image import record
from dlcontainer.publish import checksums, module_tree
from dlcontainer.publish.module_tree import Place
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import contents, layout, store
from dlcontainer.publish.tree.generation import Entry, Generation
from dlcontainer.publish.tree.layout import IMAGES, MODULES, Tree
from dlcontainer.publish.tree.store import Draft
from dlcontainer.publish.tree.transaction import Hand, commit, live, opened
from dlcontainer.system import digests, foreign_files, guarded_files
from dlcontainer.system.process import quote

WHAT = "take over"
_MOST_BYTES = 256_000_000
_TEXTS = ("module.lua", "module.tcl")
_REPORT = "report.html"


def take_over(root: Path, hand: Hand) -> Generation:
    """Turn a tree of folders and links into generations; again, it does nothing.

    Raises PublishError, with nothing changed for users, for a damaged version and for anything in
    ROOT/modules that publishing did not make.
    """
    with opened(root, hand, plain=True) as tree:
        places = list(_places(tree))
        _require_only(tree, places)
        base = live(tree)
        entries = [_taken(tree, place) for place in places]
        made = commit(tree, base.having(*entries), f"{WHAT} {len(entries)} versions")
        info = tree.top.info(MODULES)
        if info is not None and stat.S_ISDIR(info.st_mode):
            layout.replace_modules(tree)
        return made


def _places(tree: Tree) -> Iterator[Place]:
    """List the versions that users see by links into ROOT/images."""
    info = tree.top.info(MODULES)
    if info is None or not stat.S_ISDIR(info.st_mode) or tree.top.info(IMAGES) is None:
        return
    with tree.top.sub(IMAGES) as images:
        for name in _names(images):
            with images.sub(name) as module:
                for version in _names(module):
                    place = Place(root=tree.root, name=name, version=version)
                    if all(map(_is_seen, [place] * 2, place.links, place.links.values())):
                        yield place
                    else:
                        tree.note(f"not taken over: {place.folder}: users do not see it")


def _is_seen(place: Place, link: Path, name: str) -> bool:
    return module_tree.require_link(link, place, name)


def _names(folder: Folder) -> list[str]:
    return [name for name in guarded_files.names(folder.number) if not name.startswith(".")]


def _require_only(tree: Tree, places: list[Place]) -> None:
    """Refuse anything else in ROOT/modules: with the folder it would go from users' sight."""
    known = {link for place in places for link in place.links}
    info = tree.top.info(MODULES)
    if info is None or not stat.S_ISDIR(info.st_mode):
        return
    for folder, _, names, _ in os.fwalk(MODULES, dir_fd=tree.top.number):
        for name in names:
            path = tree.root / folder / name
            if path not in known:
                raise PublishError(
                    f"{path} is not a link that publishing made",
                    why="after the takeover users would not see it any more",
                    next_step="move it to a module folder of its own, then take over again",
                )


def _taken(tree: Tree, place: Place) -> Entry:
    folder = module_tree.find(tree.top, place)
    if folder is None:
        raise _damaged(place, "its folder is missing")
    with folder, _explained(place), folder.open("record.json") as written:
        sha256 = record.of_file(written, folder.path / "record.json").record.image.sha256
        with folder.open(contents.IMAGE) as image:
            draft = Draft(
                name=place.name,
                version=place.version,
                image=image,
                sha256=sha256,
                files=_files(tree, place, folder),
                source=folder,
            )
            return Entry(name=place.name, version=place.version, digest=store.add(tree, draft))


def _files(tree: Tree, place: Place, folder: Folder) -> dict[str, bytes]:
    """Read a version's files against its checksums; one of dlcontainer 0.1 has none."""
    sums = {}
    if folder.info(checksums.FILE) is not None:
        with folder.open(checksums.FILE) as file:
            sums = checksums.read(foreign_files.content(file, 1_000_000))
    there = {name for name, _ in contents.files(folder)}
    own = {contents.IMAGE, checksums.FILE, module_tree.MARK}
    for name in sorted(sums.keys() - there):
        raise _damaged(place, f"{name} is missing")
    found = {}
    for name in sorted(there - own):
        if sums and name not in sums and name != _REPORT:
            tree.note(f"not taken over: {place.folder / name}: it was not published")
            continue
        with contents.opened(folder, name) as file:
            if sums.get(name) not in (None, digests.of_open(file)):
                raise _damaged(place, f"the SHA-256 of {name} is not that of {checksums.FILE}")
            data = foreign_files.content(file, _MOST_BYTES)
        found[name] = contents.moved(name, data, place.folder, contents.PLACEHOLDER)
        if name in _TEXTS and found[name] == data:
            raise PublishError(
                f"{place.folder / name} does not name {place.folder}",
                why="the root had another path when this version was published",
                next_step="give the path that it had: --root",
            )
    return found


@contextlib.contextmanager
def _explained(place: Place) -> Iterator[None]:
    try:
        yield
    except ChecksFailedError as error:
        raise _damaged(place, error.what) from None
    except FileNotFoundError as error:
        raise _damaged(place, f"{error.filename} is missing") from None
    except ValueError as error:
        raise _damaged(place, str(error)) from None


def _damaged(place: Place, why: str) -> PublishError:
    hide = quote(["rm", "-f", *map(str, place.links)])
    return PublishError(
        f"{place.name}/{place.version} is damaged; nothing was taken over",
        where=str(place.folder),
        why=why,
        next_step=f"hide it: {hide}\n        then take over again",
    )
