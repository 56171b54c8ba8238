"""Where kept steps lie: a folder per maker, which its maker alone writes, and entries in it.

    CACHE/by-USER/KEY[:2]/KEY.sqfs, KEY.json

In a group's cache anybody can make a folder of any name. So whose a folder is, its owner says;
the name is for people. Until 2026-11 all makers shared CACHE/KEY[:2]: what lies there is listed
and pruned by its owner, and never used.
"""

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.build.cache import step_notes
from dlcontainer.build.cache.cached_step import CachedStep
from dlcontainer.system import guarded_files

TREE = ".sqfs"
NOTE = ".json"

_BY = "by-"
# Between a tree and its note lie two renames.
_GRACE_S = 60.0
_KEY = re.compile(r"[0-9a-z]{2,64}")
_SHELF = re.compile(r"[0-9a-z]{2}")


@dataclass(frozen=True, kw_only=True, slots=True)
class MakerFolder:
    """The folder of one maker in a cache: its name, and its owner's uid."""

    name: str
    uid: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StepEntry:
    """An open entry: descriptors of tree and note, what the note says, and the tree's SHA-256.

    `kept.maker` and `kept.size` are what the tree's descriptor says.
    """

    tree: int
    note: int
    kept: CachedStep
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryFolder:
    """An open folder of entries; `uid` is the only user whose files in it are entries."""

    handle: int
    uid: int


def resolved(cache: Path) -> Path:
    """Return a cache's folder without the links that lead to it."""
    return Path(os.path.realpath(cache))


def makers(cache: Path) -> list[MakerFolder]:
    """List the makers' folders of a cache; none where there is no cache."""
    with contextlib.suppress(OSError), guarded_files.folder(resolved(cache)) as root:
        return _makers_in(root)
    return []


def _makers_in(root: int) -> list[MakerFolder]:
    makers = []
    with os.scandir(root) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # gone since
                info = entry.stat(follow_symlinks=False)
                if _is_ours(entry.name) and stat.S_ISDIR(info.st_mode):
                    makers.append(MakerFolder(name=entry.name, uid=info.st_uid))
    return sorted(makers, key=lambda maker: maker.name)


def _is_ours(name: str) -> bool:
    # Any member can rename a folder; its name stands in notes, and reaches terminals.
    return name.startswith(_BY) and name.isprintable()


def shelf_path(cache: Path, maker: MakerFolder, key: str) -> Path:
    """Name the folder of a maker's entry."""
    return resolved(cache) / maker.name / key[:2]


@contextlib.contextmanager
def opened(cache: Path, maker: MakerFolder, key: str) -> Iterator[StepEntry]:
    """Open a maker's entry; raises FileNotFoundError where there is none.

    Raises OSError or ValueError for one that its maker did not write as it is: another owner, a
    folder or file that others may write, a link, an invalid note.
    """
    with (
        guarded_files.folder(resolved(cache)) as root,
        guarded_files.folder(maker.name, root) as folder,
        guarded_files.folder(key[:2], folder) as shelf,
        guarded_files.file(key + TREE, shelf) as tree,
        guarded_files.file(key + NOTE, shelf) as note,
    ):
        for handle in (folder, shelf, tree, note):
            _require_maker(os.fstat(handle), maker)
        kept, sha256 = step_notes.read(guarded_files.content(note), key)
        kept = replace(kept, maker=guarded_files.name_of(maker.uid), size=os.fstat(tree).st_size)
        yield StepEntry(tree=tree, note=note, kept=kept, sha256=sha256)


def _require_maker(info: os.stat_result, maker: MakerFolder) -> None:
    if info.st_uid != maker.uid:
        owner = guarded_files.name_of(info.st_uid)
        raise PermissionError(errno.EPERM, f"{owner} owns files in {maker.name}")
    if guarded_files.is_open_to_others(info):
        raise PermissionError(errno.EPERM, f"other users can write in {maker.name}")


@contextlib.contextmanager
def own(cache: Path, on_note: Callable[[str], None]) -> Iterator[tuple[MakerFolder, int]]:
    """Open this user's folder of a cache, made if need be: readable by all, written by one."""
    with guarded_files.folder(resolved(cache)) as root:
        mine = [maker for maker in _makers_in(root) if maker.uid == os.getuid()]
        maker = mine[0] if mine else _make_own(cache, root, on_note)
        with guarded_files.folder(maker.name, root) as handle:
            make_readable(handle)
            yield maker, handle


def _make_own(cache: Path, root: int, on_note: Callable[[str], None]) -> MakerFolder:
    name = _BY + guarded_files.name_of(os.getuid()).replace("/", "_")
    try:
        os.mkdir(name, 0o700, dir_fd=root)
    except FileExistsError:
        owner = os.stat(name, dir_fd=root, follow_symlinks=False).st_uid
        spare = f"{name}.{secrets.token_hex(4)}"
        if owner != os.getuid():
            maker = guarded_files.name_of(owner)
            on_note(
                f"{maker} made {cache / name}, not you: dlcontainer keeps your steps in "
                f"{cache / spare}; tell the administrator of {cache}"
            )
        os.mkdir(spare, 0o700, dir_fd=root)
        name = spare
    owner = os.stat(name, dir_fd=root, follow_symlinks=False).st_uid
    if owner != os.getuid():
        # A server that takes root for nobody: else each build would leave another such folder.
        os.rmdir(name, dir_fd=root)
        raise PermissionError(
            errno.EPERM,
            f"on this file system your new files belong to {guarded_files.name_of(owner)}",
        )
    return MakerFolder(name=name, uid=owner)


def make_readable(folder: int) -> None:
    """Give an open folder of this user's the mode of a shared one, whatever the umask.

    Raises PermissionError where it was swapped for another user's since it was made.
    """
    info = os.fstat(folder)
    if info.st_uid != os.getuid():
        raise PermissionError(
            errno.EPERM, f"the folder belongs to {guarded_files.name_of(info.st_uid)}"
        )
    # A group's folder hands its group down by the setgid bit: it stays.
    mode = 0o755 | (info.st_mode & stat.S_ISGID)
    if stat.S_IMODE(info.st_mode) != mode:
        os.fchmod(folder, mode)


@contextlib.contextmanager
def own_shelf(mine: int, key: str) -> Iterator[int]:
    """Open the folder of a key's entry in this user's own folder, made if need be."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(key[:2], 0o700, dir_fd=mine)
    with guarded_files.folder(key[:2], mine) as shelf:
        make_readable(shelf)
        yield shelf


def shelves(cache: Path, prefix: str | None = None) -> Iterator[EntryFolder]:
    """Open, one after another, all folders that hold entries, or those of a key's prefix.

    Those of all makers at the cache's root too, where only what this user made counts.
    """
    with contextlib.suppress(OSError), guarded_files.folder(resolved(cache)) as root:
        yield from _shelves_in(root, os.getuid(), prefix)
        for maker in _makers_in(root):
            with contextlib.suppress(OSError), guarded_files.folder(maker.name, root) as folder:
                yield from _shelves_in(folder, maker.uid, prefix)


def _shelves_in(folder: int, uid: int, prefix: str | None) -> Iterator[EntryFolder]:
    names = [prefix] if prefix else list(filter(_SHELF.fullmatch, guarded_files.names(folder)))
    for name in names:
        with contextlib.suppress(OSError), guarded_files.folder(name, folder) as handle:
            yield EntryFolder(handle=handle, uid=uid)


def keys(shelf: EntryFolder) -> list[str]:
    """List the keys of a shelf's entries, and of halves of them."""
    files = (name.rpartition(".") for name in guarded_files.names(shelf.handle))
    names = {key for key, dot, suffix in files if dot + suffix in (TREE, NOTE)}
    return sorted(filter(_KEY.fullmatch, names))


def listed(shelf: EntryFolder, key: str) -> tuple[CachedStep, float] | None:
    """Describe an entry of a shelf and its last use, s since 1970; None for what is no entry."""
    with (
        contextlib.suppress(OSError, ValueError),
        guarded_files.file(key + TREE, shelf.handle) as tree,
        guarded_files.file(key + NOTE, shelf.handle) as note,
    ):
        info, used = os.fstat(tree), os.fstat(note)
        kept, _ = step_notes.read(guarded_files.content(note), key)
        if (info.st_uid, used.st_uid) != (shelf.uid, shelf.uid):
            return None
        # Another user's file can claim any size: what it takes up on disk is what counts.
        mine = shelf.uid == os.getuid()
        size = info.st_size if mine else min(info.st_size, info.st_blocks * 512)
        return replace(kept, maker=guarded_files.name_of(shelf.uid), size=size), used.st_mtime
    return None


def half(shelf: EntryFolder, key: str) -> tuple[CachedStep, float] | None:
    """Describe a tree of this user's without a note, or a note without a tree; None for all else.

    A build or a prune that was killed between the two left it. What is new may be of a build that
    is just keeping it.
    """
    infos = []
    for name in (key + TREE, key + NOTE):
        with contextlib.suppress(OSError):
            infos.append(os.stat(name, dir_fd=shelf.handle, follow_symlinks=False))
    if len(infos) != 1 or {shelf.uid, infos[0].st_uid} != {os.getuid()}:
        return None
    size, used = infos[0].st_size, infos[0].st_mtime
    if time.time() - used < _GRACE_S:
        return None
    maker = guarded_files.name_of(shelf.uid)
    return CachedStep(
        key=key, name="not whole", maker=maker, made_at="", size=size, packages=()
    ), used


def unlink_own(shelf: EntryFolder, name: str) -> bool:
    """Remove a file of a shelf if it is this user's; tell whether none of theirs is left."""
    try:
        if os.stat(name, dir_fd=shelf.handle, follow_symlinks=False).st_uid == os.getuid():
            os.unlink(name, dir_fd=shelf.handle)
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return True
