"""A recipe's folder appears whole: a new one, or in the place of one that was made so."""

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from dlcontainer.authoring import recipe_text
from dlcontainer.errors import BuildError, ConfigError
from dlcontainer.system import atomic_files
from dlcontainer.system.process import Runner
from dlcontainer.system.workspace import Note, workspace

_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)
_OLD = "old"
_SEAL = "# Unchanged since it was written:"


def require_free(target: Path) -> None:
    """Refuse a place where something is, before the work begins; raises ConfigError."""
    is_empty = target.is_dir() and not target.is_symlink() and not any(target.iterdir())
    if os.path.lexists(target) and not is_empty:
        raise _refused(target, FileExistsError(errno.EEXIST, ""))


def write_new(target: Path, files: Mapping[str, str], runner: Runner, note: Note) -> None:
    """Write a recipe's files into a new folder; of two at once the first has it.

    Raises ConfigError for a place where something is, BuildError where it can't be written.
    """
    _make_parent(target)
    with workspace(target.parent, runner, note, hands_on=True) as work:
        staged = _stage(work, files)
        try:
            atomic_files.move_folder(staged, target)
        except OSError as error:
            raise _refused(target, error) from None


def write_over(target: Path, files: Mapping[str, str], runner: Runner, note: Note) -> None:
    """Write a recipe's files into a folder; one that was written so, and not changed, gives way.

    One with the same files stays as it is. Raises ConfigError for a folder of anything else,
    BuildError where it can't be written.
    """
    _make_parent(target)
    files, before = _sealed(files), _read(target)
    if before == files:
        return
    with workspace(target.parent, runner, note, hands_on=True) as work:
        staged = _stage(work, files)
        if before is not None:
            if before != _sealed(before):
                raise ConfigError(
                    f"{target} was changed, or is no recipe that `build` wrote",
                    why="the recipe of this image is written there, and replaces only its like",
                    next_step="move it away to keep it, or name another folder with -o",
                )
            # Another build may be doing the same: who comes second finds nothing to move.
            with contextlib.suppress(FileNotFoundError):
                atomic_files.move_folder(target, work / _OLD)
        try:
            atomic_files.move_folder(staged, target)
        except OSError as error:
            if _read(target) != files:
                raise _refused(target, error) from None


def _sealed(files: Mapping[str, str]) -> dict[str, str]:
    """Have the recipe say the SHA-256 of all files: by it a change is seen."""
    lines = files.get(recipe_text.NAME, "").splitlines(keepends=True)
    plain = "".join(line for line in lines if not line.startswith(_SEAL))
    whole = json.dumps({**files, recipe_text.NAME: plain}, sort_keys=True)
    digest = hashlib.sha256(whole.encode()).hexdigest()
    return {**files, recipe_text.NAME: f"{_SEAL} {digest}\n{plain}"}


def _make_parent(target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(
            f"cannot make {target.parent}: {error.strerror}",
            next_step="name another folder with -o",
        ) from None


def _stage(work: Path, files: Mapping[str, str]) -> Path:
    folder = work / "recipe"
    try:
        folder.mkdir()
        for name, text in files.items():
            atomic_files.write(folder / name, text)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise BuildError(
            f"cannot write in {work.parent}: {error.strerror}",
            next_step="free space, or name another folder with -o",
        ) from None
    return folder


def _read(folder: Path) -> dict[str, str] | None:
    """Read a folder's files; None where nothing is. What is no text counts as empty."""
    if not folder.exists() and not folder.is_symlink():
        return None
    if not folder.is_dir() or folder.is_symlink():
        return {}
    texts = {}
    for path in folder.iterdir():
        try:
            texts[path.name] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            texts[path.name] = ""
    return texts


def _refused(target: Path, error: OSError) -> ConfigError | BuildError:
    if error.errno in _TAKEN:
        return ConfigError(
            f"{target} is there already",
            why="a recipe is written into a new folder only",
            next_step="choose another name or folder (-o), or remove that one",
        )
    return BuildError(
        f"can't write {target}: {error.strerror}", next_step="name another folder with -o"
    )
