"""Where a published tree's parts lie, and the few moves by which they come and go.

ROOT/releases/DIGEST/        image.sif bin/ job/ launch/ module.lua record.json …; immutable
ROOT/generations/N/          generation.json, modules/{lmod,tcl}/NAME/VERSION -> releases
ROOT/current                 -> generations/N: what is live
ROOT/modules                 -> current/modules: the path in users' MODULEPATH
ROOT/journal.jsonl           who switched what, when
"""

import contextlib
import errno
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dlcontainer.errors import PublishError
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.ownership import Ownership
from dlcontainer.system import atomic_files, guarded_files
from dlcontainer.system.guarded_files import name_of
from dlcontainer.system.process import quote

RELEASES, GENERATIONS, IMAGES = "releases", "generations", "images"
CURRENT, MODULES = "current", "modules"
UNPACKED = "tree"
MODULES_TARGET = f"{CURRENT}/{MODULES}"
# Each kind of module tree: the suffix of a version's file there, and the release's file.
KINDS = {"lmod": (".lua", "module.lua"), "tcl": ("", "module.tcl")}
_CURRENT = re.compile(rf"{GENERATIONS}/([1-9][0-9]{{0,8}})")
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


# A release, open, and its module.
Admit = Callable[[Folder, str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedTree:
    """A root, held and locked; `alone` is false where the file system has no locks."""

    root: Path
    top: Folder
    releases: Folder
    generations: Folder
    # Private, on the same file system: what is being made, and what is being removed.
    aside: Folder
    ownership: Ownership
    alone: bool
    who: str
    note: Callable[[str], None]
    line: Callable[[str], None]
    clock: Callable[[], float]
    # Sets the layout of the files that will be made in a folder.
    stripe: Callable[[Path], None]
    # Of the catalogue.
    templates: tuple[Path, ...]
    # What each release is held against before it becomes live; raises where it may not.
    admit: Admit
    # The digests of those for which it was asked.
    admitted: set[str]


def admit_any(release: Folder, module: str) -> None:
    """Ask nothing of a release."""


def require_admitted(tree: PublishedTree, release: Folder, digest: str, module: str) -> None:
    """Hold a release against what is asked here, once in a change; raises PublishError."""
    if digest not in tree.admitted:
        tree.admit(release, module)
        tree.admitted.add(digest)


def typed(root: Path, *words: str) -> str:
    """Write the command that staff type next, for errors."""
    return quote(["dlcontainer", "modules", *words, "--root", str(root)])


def current(top: Folder) -> int | None:
    """Return the number of the live generation; None before the first; raises PublishError."""
    text = link_text(top, CURRENT)
    if text is None:
        return None
    match = _CURRENT.fullmatch(text)
    if match is None:
        raise PublishError(
            f"{top.path / CURRENT} points to {text!r}, which is not a generation",
            next_step=f"find out who changed it; then: ln -sfn {GENERATIONS}/N "
            f"{top.path / CURRENT}, with N from the last line of the journal",
        )
    return int(match[1])


def link_text(folder: Folder, name: str) -> str | None:
    """Read a link; None where nothing stands there; raises PublishError for anything else."""
    try:
        return os.readlink(name, dir_fd=folder.number)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise PublishError(
            f"{folder.path / name} is not a link",
            why="a published tree has a symbolic link there",
            next_step="find out who created it, then move it away",
        ) from None


def numbers(generations: Folder) -> list[int]:
    """List the generations that are there; other names are none."""
    names = guarded_files.names(generations.number)
    return sorted(int(name) for name in names if _NUMBER.fullmatch(name))


@contextlib.contextmanager
def striped(tree: PublishedTree, folder: Folder, name: str) -> Iterator[BinaryIO]:
    """Write a new file with the layout that the site sets, which holds for no other file."""
    with tree.aside.make("striped") as alone:
        tree.stripe(alone.path)
        with alone.create(name) as file:
            yield file
        alone.rename(name, folder, name)
    os.rmdir("striped", dir_fd=tree.aside.number)


def set_link(tree: PublishedTree, name: str, target: str) -> None:
    """Point a link of the root at a target, by one rename: readers see the old or the new one."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink("link", dir_fd=tree.aside.number)
    os.symlink(target, "link", dir_fd=tree.aside.number)
    tree.ownership.give_link("link", tree.aside)
    tree.aside.rename("link", tree.top, name)
    atomic_files.sync_folder(tree.top.number)


def settle(tree: PublishedTree, name: str, folder: Folder, as_name: str) -> bool:
    """Move a finished folder to its place; false where another publisher's is there already."""
    try:
        tree.aside.rename(name, folder, as_name)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    atomic_files.sync_folder(folder.number)
    return True


def take(path: Path, staged: Folder, as_name: str) -> None:
    """Move a finished folder out of a private one into what is staged."""
    with Folder.at(path.parent) as private:
        private.rename(path.name, staged, as_name)


def shared_folder(top: Folder, name: str, ownership: Ownership, aside: Folder) -> Folder:
    """Open a folder of the root; one that is missing appears with its mode, by a rename."""
    if top.info(name) is None:
        with aside.make(name) as fresh:
            ownership.give(fresh.number, 0o755 | ownership.shared, name)
        try:
            aside.rename(name, top, name)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        atomic_files.sync_folder(top.number)
    return top.sub(name)


def settle_modes(folder: Folder, ownership: Ownership) -> None:
    """Set group and mode of a staged folder, and bring it to the disk; links stay as they are."""
    inherited = ownership.shared & stat.S_ISGID
    for parent, below, names, number in os.fwalk(".", dir_fd=folder.number, onerror=_raise):
        # An unpacked image was settled when it was unpacked: its programs stay programs.
        below[:] = [name for name in below if parent != "." or name != UNPACKED]
        for name in names:
            if stat.S_ISLNK(os.stat(name, dir_fd=number, follow_symlinks=False).st_mode):
                continue
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=number)
            try:
                ownership.give(file, 0o755 if parent == "./bin" else 0o644, name)
                os.fsync(file)
            finally:
                os.close(file)
        ownership.give(number, 0o755 | inherited, parent)
        atomic_files.sync_folder(number)


def _raise(error: OSError) -> None:
    raise error  # without this, os.fwalk would pass over a folder that it can't open


def remove(tree: PublishedTree, folder: Folder, name: str, before: os.stat_result) -> None:
    """Remove a folder: moved aside first, since half of it must never be seen.

    `before` is of the open folder that was looked at.
    Raises PublishError where it belongs to somebody else, or was replaced meanwhile.
    """
    try:
        folder.rename(name, tree.aside, "left")
    except PermissionError:
        raise PublishError(
            f"{folder.path / name} belongs to {name_of(before.st_uid)}, and only that user may "
            "remove it"
        ) from None
    moved = tree.aside.info("left")
    if moved is None or not os.path.samestat(before, moved):
        tree.aside.rename("left", folder, name)
        raise PublishError(f"{folder.path / name} was replaced while dlcontainer examined it")
    atomic_files.sync_folder(folder.number)
    # What this leaves, folders that can't be written, goes with the private folder.
    shutil.rmtree("left", ignore_errors=True, dir_fd=tree.aside.number)
