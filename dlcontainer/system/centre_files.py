"""Whose files of a centre's folder are taken: a site file and a recipe are what all users then run.

As in a published tree: the folder's owner, root, you, and the folder's group where that may write.
Who is none of them must not have written the file, nor be able to put another in its place.
"""

import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from dlcontainer.errors import ConfigError
from dlcontainer.system.guarded_files import name_of


def require_trusted(root: Path, path: Path) -> None:
    """Refuse a file of a centre's folder that others could have written; of a recipe all its files.

    Raises ConfigError, and OSError for what can't be looked at.
    """
    whole = root.stat()
    trusted = {0, os.geteuid(), whole.st_uid}
    is_shared = bool(whole.st_mode & stat.S_IWGRP)
    for place in reversed(Path(os.path.realpath(root)).parents):
        info = place.stat()
        # Where a folder above is sticky, nobody can rename what is another's.
        if info.st_mode & stat.S_IWOTH and not info.st_mode & stat.S_ISVTX:
            raise _open_to_all(root, place)
    real = os.path.realpath(root)
    for place in dict.fromkeys([root, *_within(root, path)]):
        if not Path(os.path.realpath(place)).is_relative_to(real):
            raise ConfigError(
                f"it leads out of the folder, to {os.path.realpath(place)}",
                where=str(place),
                why="who may write there is not looked at",
                next_step="put the file itself here",
            )
        info = place.stat()
        if info.st_mode & stat.S_IWOTH:
            raise _open_to_all(root, place)
        is_group = is_shared and info.st_gid == whole.st_gid
        if info.st_uid not in trusted and not is_group:
            raise ConfigError(
                f"it belongs to {name_of(info.st_uid)}, and the folder to {name_of(whole.st_uid)}",
                where=str(place),
                why=f"what all users of {root} run is written by its owner, root, or its group "
                "where that may write",
                next_step=f"give it to the folder's owner: chown {name_of(whole.st_uid)} "
                f"{shlex.quote(str(place))}",
            )
        if info.st_mode & stat.S_IWGRP and not (is_group or info.st_gid == 0 or _is_alone(info)):
            raise _open(root, place, "its group", "g-w")


def _within(root: Path, path: Path) -> Iterator[Path]:
    """Yield the folders from the root to the file, and where it is a recipe's all that is there."""
    yield from (place for place in reversed(path.parents) if place.is_relative_to(root))
    if path.name == "recipe.yaml":
        for folder, below, files in os.walk(path.parent):
            yield from (Path(folder, name) for name in (*below, *files))
    yield path


def _is_alone(info: os.stat_result) -> bool:
    """Whether a group is the owner's own, of the same name: nobody else is in it."""
    import grp

    try:
        return grp.getgrgid(info.st_gid).gr_name == name_of(info.st_uid)
    except KeyError:
        return False


def _open_to_all(root: Path, place: Path) -> ConfigError:
    return _open(root, place, "any user", "o-w")


def _open(root: Path, place: Path, who: str, mode: str) -> ConfigError:
    return ConfigError(
        f"{who} can write to it",
        where=str(place),
        why=f"they could change what all users of {root} run",
        next_step=f"remove this permission: chmod {mode} {shlex.quote(str(place))}",
    )
