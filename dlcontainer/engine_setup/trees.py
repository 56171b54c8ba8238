"""Folders that appear whole: built under a name of their own, then linked into view.

The patched binaries hold the absolute path of their loader, so a tree cannot be built in one place
and moved to another. It is built where it stays, `<prefix>/<name>-<random>`, and becomes visible by
one rename of the link `<prefix>/<name>`. What a killed run left has no link to it: the next run
removes it.
"""

import fcntl
import hashlib
import os
import re
import secrets
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from dlcontainer.engine_setup import surroundings
from dlcontainer.engine_setup.surroundings import note, say
from dlcontainer.errors import EngineError
from dlcontainer.system.environ import variables


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second set-up out of `folder` until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    # The folder itself is locked: no lock file is left behind.
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another set-up in {folder}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            note(f"the file system of {folder} has no locks: run one set-up at a time")
        yield
    finally:
        os.close(handle)


def check_prefix(prefix: Path) -> None:
    """Refuse a path that cannot stand in PATH or in a library path."""
    if any(character in str(prefix) for character in ':;\n$"'):
        raise EngineError(
            f"cannot install into {str(prefix)!r}",
            why="a colon, semicolon, quote, dollar or line end cannot stand in a library path",
            next_step="give another folder with --prefix",
        )


def publish(
    prefix: Path, name: str, build: Callable[[Path], None], *, home: Path | None = None
) -> Path:
    """Build `<prefix>/<name>` with `build(tree)`; call it inside `locked(prefix)`.

    The tree itself stands in `home`, a folder of this prefix alone; without one, in the prefix.
    """
    home = home or prefix
    home.mkdir(parents=True, exist_ok=True)
    remove_unpublished(home, prefix / name)
    tree = home / f"{name}-{secrets.token_hex(4)}"
    tree.mkdir()
    try:
        build(tree)
        link_into(prefix, name, Path(tree.name) if home == prefix else tree)
    except BaseException:
        shutil.rmtree(tree, ignore_errors=True)
        raise
    remove_unpublished(home, prefix / name)
    return prefix / name


def home_without_space(prefix: Path, environ: Mapping[str, str]) -> Path:
    """Return a folder without white space in its path: the prefix, or one that stands for it.

    Apptainer waits for its FUSE mounts by looking for their path in /proc/self/mountinfo, where a
    space is written `\\040`: below a path with one, no image can be mounted.
    """
    if not re.search(r"\s", str(prefix)):
        return prefix
    digest = hashlib.sha256(str(prefix).encode()).hexdigest()[:12]
    home = variables.folder(environ, "HOME")
    of_user = variables.folder(environ, "XDG_DATA_HOME"), home and home / ".local/share"
    for folder in of_user:
        if folder and not re.search(r"\s", str(folder)):
            return folder / "dlcontainer" / digest
    raise EngineError(
        f"cannot set Apptainer up in {prefix}",
        why="it mounts no image below a path with a space, and your home folder's has one too",
        next_step="set XDG_DATA_HOME to a folder of yours without a space in its path, or "
        f"{surroundings.elsewhere()}",
    )


def remove_unpublished(home: Path, link: Path) -> None:
    """Remove the trees that the link does not show: replaced ones, and what a killed run left."""
    published = link.resolve()
    for tree in home.glob(f"{link.name}-*"):
        # A folder of the user's own may have such a name, in a prefix that was chosen.
        made_here = re.fullmatch(rf"{re.escape(link.name)}-[0-9a-f]{{8}}", tree.name)
        if made_here and tree.is_dir() and tree.resolve() != published:
            shutil.rmtree(tree)


def link_into(folder: Path, name: str, target: Path) -> bool:
    """Make `<folder>/<name>` a link to `target` in one step; tell whether it was not one yet."""
    link = folder / name
    if link.is_symlink() and link.readlink() == target:
        return False
    aside = folder / f".{name}.link"
    aside.unlink(missing_ok=True)
    aside.symlink_to(target)
    aside.replace(link)
    return True


def write_wrapper(
    path: Path,
    argv: Sequence[str],
    *,
    prepend: Mapping[str, Sequence[Path | str]],
    append: Mapping[str, Sequence[Path | str]],
) -> None:
    """Write a shell script that runs `argv` with folders before or after those in variables."""
    lines = ["#!/bin/sh"]
    for name, folders in prepend.items():
        if folders:
            value = shlex.quote(":".join(map(str, folders)))
            lines.append(f'{name}={value}"${{{name}:+:${name}}}"; export {name}')
    for name, folders in append.items():
        if folders:
            value = shlex.quote(":".join(map(str, folders)))
            lines.append(f'{name}="${{{name}:+${name}:}}"{value}; export {name}')
    lines.append(f'exec {shlex.join(argv)} "$@"')
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o755)


def remove(prefix: Path, name: str) -> None:
    """Remove a published tree, its link first; call it inside `locked(prefix)`.

    What a killed run left beside it goes too.
    """
    link = prefix / name
    home = link.resolve().parent
    link.unlink(missing_ok=True)
    for folder in {prefix, home}:
        if folder.is_dir():
            remove_unpublished(folder, link)
    if home != prefix:
        # It stood for the prefix alone.
        with suppress(OSError):
            home.rmdir()
