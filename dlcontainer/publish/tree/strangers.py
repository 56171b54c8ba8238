"""Who besides a tree's publishers could put something else in the place of what is published.

Publishers of one tree are one domain of trust: whoever may write in ROOT may point `current`
elsewhere, and sticky folders could not keep them apart without keeping them from a rollback. They
are the owner of ROOT, root, and the members of the group that may write there. What lies above
ROOT counts too: who may rename a folder there puts another tree in its place.
"""

import os
import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import PublishError
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.ownership import Ownership, group_name
from dlcontainer.publish.tree import contents, layout
from dlcontainer.system.guarded_files import name_of
from dlcontainer.system.process import quote


def require_none(root: Path, ownership: Ownership, note: Callable[[str], None]) -> None:
    """Refuse a root that everybody may change; say which other users may.

    Raises PublishError, and OSError for a root that is not there.
    """
    # Modulefiles name the path as it is given: a link on the way counts like a folder.
    for place in dict.fromkeys((*_way(root.absolute()), *_way(Path(os.path.realpath(root))))):
        info = place.lstat()
        if stat.S_ISLNK(info.st_mode):
            continue
        is_root = os.path.samestat(info, root.stat())
        # Where a folder above is sticky, nobody can rename what is another's.
        if not is_root and info.st_mode & stat.S_ISVTX:
            continue
        if info.st_mode & stat.S_IWOTH:
            raise _open_to_all(place, is_root=is_root)
        for who in _others(info, ownership):
            note(f"{who} can replace the published files in {root}: they can write to {place}")


def _way(path: Path) -> Iterator[Path]:
    yield from (*reversed(path.parents), path)


def _open_to_all(place: Path, *, is_root: bool) -> PublishError:
    means = "what is published" if is_root else "the published tree"
    return PublishError(
        f"any user can write to {place}",
        where=str(place),
        why=f"any user could replace {means}, and others would run the replacement",
        next_step=f"remove this permission: {quote(['chmod', 'o-w', str(place)])}; publishers "
        "share a tree through its group",
    )


def _others(info: os.stat_result, ownership: Ownership) -> Iterator[str]:
    """Name those who may write in a folder and do not publish here."""
    if info.st_uid not in (0, ownership.user, os.geteuid()):
        yield name_of(info.st_uid)
    # root's group, and a user's own group of the same name, have nobody else in them.
    is_trusted = info.st_gid in (0, ownership.group) or group_name(info.st_gid) == name_of(
        info.st_uid
    )
    if info.st_mode & stat.S_IWGRP and not is_trusted:
        yield f"the group {group_name(info.st_gid)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeignTree:
    """Another tree, open, and what of it is to be published here."""

    top: Folder
    generation: Folder
    release: Folder
    module: str


def require_known(
    source: ForeignTree, tree: layout.PublishedTree, named: Collection[str] = ()
) -> None:
    """Require that those who publish here, or are named, own all of what comes from another tree.

    Its digest is of its own text: it says that nothing was changed on the way, not whose it is.
    Raises PublishError with the line to type.
    """
    strange = [
        path
        for path in _owned(source)
        if not tree.ownership.has_publisher(path.user)
        and not {name_of(path.user), str(path.user)} & set(named)
    ]
    if not strange:
        return
    names = sorted({name_of(path.user) for path in strange})
    root = source.top.path
    words = [word for name in (*named, *names) for word in ("--from-owner", name)]
    typed = layout.typed(tree.root, "promote", source.module, "--from", str(root), *words)
    raise PublishError(
        f"{source.module} in {root} belongs to {', '.join(names)}, who does not publish in "
        f"{tree.root}",
        where=str(strange[0].path),
        why="its wrappers and modulefiles are programs that all users would run as themselves",
        next_step=f"review them; to promote the module anyway: {typed}",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _OwnedPath:
    path: Path
    user: int


def _owned(source: ForeignTree) -> Iterator[_OwnedPath]:
    """List all that decides what is promoted, with its owner; of a link, the link's own."""
    for name in (layout.CURRENT, layout.GENERATIONS, layout.RELEASES):
        info = source.top.info(name)
        if info is not None:
            yield _OwnedPath(path=source.top.path / name, user=info.st_uid)
    for folder in (source.top, source.generation, source.release):
        yield _OwnedPath(path=folder.path, user=os.fstat(folder.number).st_uid)
        for name, info in contents.files(folder) if folder is not source.top else ():
            yield _OwnedPath(path=folder.path / name, user=info.st_uid)
            within = folder.info(name.partition("/")[0])
            if within is not None:
                yield _OwnedPath(path=folder.path / name.partition("/")[0], user=within.st_uid)
