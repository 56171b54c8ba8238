"""The engine in a user's own folder: prepared, linked for all commands, removed again."""

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.engine_setup import private_apptainer, programs, surroundings
from dlcontainer.engine_setup.commands import cure
from dlcontainer.engine_setup.set_up import SetupPlan, unlink_programs
from dlcontainer.engine_setup.trees import (
    check_prefix,
    home_without_space,
    link_into,
    locked,
    remove,
)
from dlcontainer.errors import EngineError
from dlcontainer.system import atomic_files, file_locks, machine, private_engine

# What says that a folder is such a prefix: another that holds something is left alone.
MARK = "README.txt"
_TEXT = """\
Apptainer and the programs that it needs, unpacked by `dlcontainer setup engine`.
`dlcontainer setup engine --remove` removes them.
"""
# The engine keeps 92 MB; packages and an older engine lie beside it meanwhile.
_ROOM_MB = 250
_TREES = (private_apptainer.NAME, programs.NAME)
_OURS = re.compile(rf"{private_engine.LINKS}|({'|'.join(_TREES)})(-[0-9a-f]{{8}})?")


@dataclass(frozen=True, kw_only=True, slots=True)
class UserPrefix:
    """A prefix without links in its path, and the link by which all commands find it."""

    prefix: Path
    link: Path

    @property
    def links(self) -> Path:
        """The folder of the programs that serve."""
        return self.prefix / private_engine.LINKS

    @property
    def is_set_up(self) -> bool:
        """Whether anything private is there."""
        return any((self.prefix / name).is_symlink() for name in _TREES)


def locate(chosen: Path | None) -> UserPrefix:
    """Return the prefix that was chosen, else the one that is in use, else the usual one.

    Raises EngineError where another is in use, and in an environment that names no home.
    """
    usual = private_engine.default_prefix(surroundings.environ())
    if usual is None:
        raise EngineError(
            "no folder for the engine: HOME is not set",
            next_step="export HOME=/your/home, or XDG_DATA_HOME=/a/folder/of/yours",
        )
    in_use = Path(os.path.realpath(usual))
    prefix = in_use if chosen is None else Path(os.path.realpath(chosen))
    if in_use != prefix and in_use.is_dir():
        raise EngineError(
            f"an engine is set up in {in_use}",
            why="all commands use the one that was set up first",
            next_step="remove it first: dlcontainer setup engine --remove",
        )
    return UserPrefix(prefix=prefix, link=usual)


@contextlib.contextmanager
def written_by_one() -> Iterator[None]:
    """Let nobody else write what is made in the block, whatever the umask."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def prepare(place: UserPrefix) -> None:
    """Make the prefix; EngineError where an engine can't be trusted there, or can't run."""
    try:
        _prepare(place)
    except OSError as error:
        raise EngineError(
            f"can't write to {place.prefix}", why=str(error), next_step=cure(str(error))
        ) from error


def _prepare(place: UserPrefix) -> None:
    prefix = place.prefix
    check_prefix(prefix)
    _require_own(prefix)
    home = home_without_space(prefix, surroundings.environ())
    folders = {prefix, home, place.link.parent}
    for folder in folders:
        _require_trusted(Path(os.path.realpath(_nearest(folder))))
    if "noexec" in machine.mount_of(home).options:
        raise EngineError(
            f"no program can run in {home}",
            why="its file system is mounted with the option noexec",
            next_step="choose a folder of another file system with --prefix",
        )
    free = machine.free_mb(home)
    if free < _ROOM_MB and not place.is_set_up:
        raise EngineError(
            f"only {free} MB free at {home}",
            why=f"unpacking the engine takes {_ROOM_MB} MB",
            next_step="free some space, or choose another folder with --prefix",
        )
    for folder in (*folders, place.links):
        folder.mkdir(parents=True, exist_ok=True)
    atomic_files.write(prefix / MARK, _TEXT)


def _nearest(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that is there."""
    return next(place for place in (folder, *folder.parents) if place.exists())


def _require_own(prefix: Path) -> None:
    """Require that a folder is not there, is empty, or is a prefix."""
    if not prefix.exists() or (prefix / MARK).is_file():
        return
    # A run that was killed at once, or while another removed the engine, has left these alone.
    if not prefix.is_dir() or not all(_OURS.fullmatch(path.name) for path in prefix.iterdir()):
        raise EngineError(
            f"{prefix} holds something else",
            why="the engine has a folder of its own, which is removed with it",
            next_step="choose an empty folder, or a new one, with --prefix",
        )


def _require_trusted(folder: Path) -> None:
    place = private_engine.open_place(folder)
    if place is not None:
        raise EngineError(
            f"other users can change {place}",
            why=f"they could replace the programs in {folder} that dlcontainer runs for you",
            next_step=f"remove their permission: chmod go-w {place}; or choose another folder "
            "with --prefix",
        )


def show(place: UserPrefix) -> None:
    """Let all commands find what was set up; leave nothing where nothing private was needed."""
    if not place.is_set_up:
        _tidy(place)
    elif place.prefix != Path(os.path.realpath(place.link)):
        link_into(place.link.parent, place.link.name, place.prefix)


def _tidy(place: UserPrefix) -> None:
    """Remove a prefix with nothing in it, unless another set-up works there just now."""
    try:
        handle = os.open(place.prefix, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        if file_locks.claim(handle) and not place.is_set_up:
            _remove_all(place)
    finally:
        os.close(handle)


def take_away(place: UserPrefix) -> bool:
    """Remove the engine and its programs; return whether there were any.

    No command finds it any more before the first of its files goes.
    """
    was_set_up = place.is_set_up
    if place.prefix.is_dir():
        _require_own(place.prefix)
        with locked(place.prefix):
            _remove_all(place)
    # The folder that it leads to may have been removed by hand.
    if place.link.is_symlink():
        place.link.unlink()
    return was_set_up


def _remove_all(place: UserPrefix) -> None:
    unlink_programs(SetupPlan(prefix=place.prefix, bin=place.links))
    for name in _TREES:
        remove(place.prefix, name)
    (place.prefix / MARK).unlink(missing_ok=True)
    home = home_without_space(place.prefix, surroundings.environ())
    for folder in (home, place.links, place.prefix):
        # What somebody else put there stays.
        with contextlib.suppress(OSError):
            folder.rmdir()
