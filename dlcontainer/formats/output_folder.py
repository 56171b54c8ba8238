"""A folder of rendered texts, a folder a plan: it appears whole, and replaces only its like."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from dlcontainer.errors import ConfigError
from dlcontainer.formats import texts
from dlcontainer.planning.plan import Plan
from dlcontainer.system import digests

_FEW = 3  # names in a message

# Says that a folder is one of these, and which files are its own: what `sha256sum --check` reads.
MARK = "RENDERED-BY-DLCONTAINER"


@contextlib.contextmanager
def writing(target: Path) -> Iterator[Path]:
    """Yield a folder to write to; in the end it takes the place of `target`.

    Raises ConfigError for a target that holds anything but an earlier such folder, and where
    nothing can be written; what was there stays then.
    """
    _require_own(target)
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    try:
        aside.mkdir(parents=True)
        yield aside
        (aside / MARK).write_text("".join(f"{line}\n" for line in _checksums(aside)))
        if target.exists():
            target.rename(old)
        aside.rename(target)
    except OSError as error:
        if old.exists() and not target.exists():
            old.rename(target)
        raise ConfigError(
            f"can't write {target}: {error.strerror}", next_step="name another folder with -o"
        ) from None
    finally:
        for leftover in (aside, old):
            shutil.rmtree(leftover, ignore_errors=True)


def _require_own(target: Path) -> None:
    """Refuse a folder that holds more than was rendered: a built image, what somebody changed."""
    if target.resolve() == Path.cwd():
        raise ConfigError(
            f"cannot replace {target}: it is your current folder",
            next_step="name a new folder: -o FOLDER/",
        )
    try:
        foreign = _others(target)
    except OSError as error:
        raise ConfigError(f"can't read {target}: {error.strerror}") from None
    if foreign:
        raise ConfigError(
            f"{target} contains other files: {', '.join(foreign[:_FEW])}",
            why="`render` replaces the whole folder, so it accepts only a folder that it wrote",
            next_step="name a new or empty folder with -o",
        )


def _others(target: Path) -> list[str]:
    if not target.exists():
        return []
    if not target.is_dir():
        return [target.name]
    mark = target / MARK
    rendered = set(mark.read_text().splitlines()) if mark.is_file() else set()
    return [line.split("  ", 1)[1] for line in _checksums(target) if line not in rendered]


def _checksums(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            yield f"-  {name}"
        elif path.is_file() and name != MARK:
            yield f"{digests.of_file(path)}  {name}"


def write(plan: Plan, folder: Path, templates: list[Path]) -> None:
    """Write all texts of a plan to a folder."""
    folder.mkdir()
    for form in texts.formats_of(plan):
        written = {texts.FILE_NAMES[form]: texts.text(plan, form, templates)}
        for name, text in {**written, **texts.beside(plan, form, templates)}.items():
            (folder / name).write_text(text)
