"""Files of a recipe that change together: a journal beside them says how they were.

It is on the disk before the first of them changes, and goes after the last: while it is there the
recipe is not read, and the next `recipe outdated --write` puts its files back.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from dlcontainer.errors import ConfigError
from dlcontainer.system import atomic_files, foreign_files, guarded_files

FILE = ".outdated.json"
_MOST = 16_000_000
_CUT_OFF = "`recipe outdated --write` was cut off while it changed this recipe's files"


def require_none(folder: Path, where: str) -> None:
    """Refuse a recipe of which only some files may be changed; raises ConfigError."""
    if is_there(folder):
        raise ConfigError(
            _CUT_OFF,
            where=where,
            why="some of them may be as before, others not",
            next_step="type it again: dlcontainer recipe outdated RECIPE --write; first it puts "
            "the files back",
        )


def is_there(folder: Path) -> bool:
    """Return whether a change of a folder's files was cut off; raises ConfigError."""
    try:
        return (folder / FILE).exists()
    except OSError as error:
        raise _unreadable(folder / FILE, error.strerror) from None


def change(folder: Path, before: Mapping[Path, str], after: Mapping[Path, str]) -> None:
    """Change files below a folder, all or none; raises ConfigError where one can't be written."""
    _write(folder / FILE, _text(folder, before, after))
    _settle(folder, after)


def put_back(folder: Path, before: Mapping[Path, str], after: Mapping[Path, str]) -> None:
    """Put files back that a change wrote; where that is cut off, `undo` does it."""
    if not is_there(folder) and all(_current(path) == text for path, text in before.items()):
        return
    _write(folder / FILE, _text(folder, before, after))
    _settle(folder, before)


def undo(folder: Path) -> tuple[Path, ...]:
    """Put back the files of a change that was cut off, and return them; none where none was.

    Raises ConfigError where a file is neither as before nor as it was to be: then none is changed.
    """
    if not is_there(folder):
        return ()
    journal = folder / FILE
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*.yaml")}
    before: dict[Path, str] = {}
    for name, (old, new) in _read(journal).items():
        path = files.get(name)
        if path is None or _current(path) not in (old, new):
            raise ConfigError(
                f"{_CUT_OFF}, and {name} was changed or removed since",
                where=str(journal),
                why="what it was stands there, so that nothing of yours is overwritten",
                next_step=f"correct {name} by hand, and remove {journal}",
            )
        before[path] = old
    _settle(folder, before)
    return tuple(before)


def _settle(folder: Path, texts: Mapping[Path, str]) -> None:
    for path, text in texts.items():
        _write(path, text)
    try:
        with guarded_files.folder(folder.resolve()) as handle:
            os.unlink(FILE, dir_fd=handle)
            atomic_files.sync_folder(handle)
    except OSError as error:
        raise ConfigError(
            f"can't remove {folder / FILE}: {error.strerror}",
            next_step="when its file system is well again, type the command again",
        ) from None


def _text(folder: Path, before: Mapping[Path, str], after: Mapping[Path, str]) -> str:
    files = {str(path.relative_to(folder)): [before[path], after[path]] for path in after}
    return json.dumps({"schema": 1, "files": files}, indent=1) + "\n"


def _read(journal: Path) -> dict[str, tuple[str, str]]:
    try:
        files = foreign_files.loads(foreign_files.read(journal, _MOST))["files"]
        return {str(name): (str(old), str(new)) for name, (old, new) in files.items()}
    except OSError as error:
        raise _unreadable(journal, error.strerror) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _unreadable(journal, "it is no journal of a bump") from None


def _unreadable(journal: Path, why: str | None) -> ConfigError:
    return ConfigError(
        f"can't read {journal}",
        why=why,
        next_step="compare the recipe's files with a copy, and remove the journal",
    )


def _current(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror}") from None


def _write(path: Path, text: str) -> None:
    try:
        atomic_files.write(path, text)
    except OSError as error:
        raise ConfigError(
            f"can't write {path}: {error.strerror}",
            next_step="copy the recipe's folder to your own recipes, and bump it there",
        ) from None
