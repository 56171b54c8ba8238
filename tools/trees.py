"""Folders that appear whole: built under a name of their own, then linked into view.

The patched binaries hold the absolute path of their loader, so a tree cannot be built in one place
and moved to another. It is built where it stays, `<prefix>/<name>-<random>`, and becomes visible by
one rename of the link `<prefix>/<name>`. What a killed run left has no link; the next run removes it.
"""

import fcntl
import os
import secrets
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.console import SetupError, say


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
        yield
    finally:
        os.close(handle)


def check_prefix(prefix: Path) -> None:
    """Refuse a path that cannot stand in PATH or in a library path."""
    if any(character in str(prefix) for character in ':;\n$"'):
        raise SetupError(
            f"cannot install into {str(prefix)!r}",
            why="a colon, semicolon, quote, dollar or line end cannot stand in a library path",
            next_step="give another folder with --prefix",
        )


def publish(prefix: Path, name: str, build: Callable[[Path], None]) -> Path:
    """Build `<prefix>/<name>` with `build(tree)`; call it inside `locked(prefix)`."""
    remove_unpublished(prefix, name)
    tree = prefix / f"{name}-{secrets.token_hex(4)}"
    tree.mkdir()
    try:
        build(tree)
        link = prefix / f".{name}.link"
        link.unlink(missing_ok=True)
        link.symlink_to(tree.name)
        link.replace(prefix / name)
    except BaseException:
        shutil.rmtree(tree, ignore_errors=True)
        raise
    remove_unpublished(prefix, name)
    return prefix / name


def remove_unpublished(prefix: Path, name: str) -> None:
    """Remove the trees of `name` that no link shows: replaced ones, and what a killed run left."""
    published = (prefix / name).resolve()
    for tree in prefix.glob(f"{name}-*"):
        if tree.is_dir() and tree.resolve() != published:
            shutil.rmtree(tree)


def link_into(folder: Path, name: str, target: Path) -> None:
    """Make `<folder>/<name>` a link to `target`, replacing what is there in one step."""
    link = folder / name
    if link.is_symlink() and link.readlink() == target:
        return
    aside = folder / f".{name}.link"
    aside.unlink(missing_ok=True)
    aside.symlink_to(target)
    aside.replace(link)


def write_wrapper(
    path: Path, argv: Sequence[str], *, prepend: Mapping[str, Sequence[Path]]
) -> None:
    """Write a shell script that runs `argv` with folders put before those in path variables."""
    lines = ["#!/bin/sh"]
    for name, folders in prepend.items():
        if folders:
            value = shlex.quote(":".join(map(str, folders)))
            lines.append(f'{name}={value}"${{{name}:+:${name}}}"; export {name}')
    lines.append(f'exec {shlex.join(argv)} "$@"')
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o755)
