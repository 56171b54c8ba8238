"""A folder of rendered texts, a folder a plan: it appears whole, and replaces only its like."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from dlcontainer.errors import ConfigError
from dlcontainer.formats import texts
from dlcontainer.planning.plan import Plan

# Says that a folder is one of these: only such a one is replaced.
_MARK = "RENDERED-BY-DLCONTAINER"


@contextlib.contextmanager
def writing(target: Path) -> Iterator[Path]:
    """Give a folder to write to; in the end it takes the place of `target`.

    Raises ConfigError for a target that holds anything but an earlier such folder, and where
    nothing can be written; what was there stays then.
    """
    if target.exists() and not (target / _MARK).is_file() and any(_entries(target)):
        raise ConfigError(
            f"{target} holds other files",
            why="rendering everything replaces the whole folder",
            next_step="give a new folder, or an empty one: -o",
        )
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    try:
        aside.mkdir(parents=True)
        (aside / _MARK).write_text("`dlcontainer render --all` replaces this folder as a whole.\n")
        yield aside
        if target.exists():
            target.rename(old)
        aside.rename(target)
    except OSError as error:
        if old.exists() and not target.exists():
            old.rename(target)
        raise ConfigError(
            f"can't write {target}: {error.strerror}", next_step="give another folder: -o"
        ) from None
    finally:
        for left in (aside, old):
            shutil.rmtree(left, ignore_errors=True)


def write(plan: Plan, folder: Path, templates: list[Path]) -> None:
    """Write all texts of a plan to a folder."""
    folder.mkdir()
    for form in texts.formats_of(plan):
        written = {texts.FILE_NAMES[form]: texts.text(plan, form, templates)}
        for name, text in {**written, **texts.beside(plan, form, templates)}.items():
            (folder / name).write_text(text)


def _entries(target: Path) -> Iterator[Path]:
    if not target.is_dir():
        yield target
        return
    try:
        yield from target.iterdir()
    except OSError as error:
        raise ConfigError(f"can't read {target}: {error.strerror}") from None
