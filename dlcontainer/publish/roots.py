"""The root of a published tree: which it is, whether it will do, what goes wrong there."""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from dlcontainer.errors import ChecksFailedError, ConfigError, PublishError
from dlcontainer.publish import ownership
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.ownership import Ownership
from dlcontainer.publish.tree import strangers
from dlcontainer.sites.site import Site
from dlcontainer.system.machine import free_mb

# ':' parts PATH and MODULEPATH; Environment Modules finds nothing below a path with $ [ ] { or \,
# and Lmod's reader of Tcl modulefiles takes what follows a '"' for code (both tried).
_UNFIT = ':$[]{}\\"`'


def chosen(named: Path | None, site: Site) -> Path:
    """Return the root that was named, else the site's; raises ConfigError for one that is unfit."""
    if named is None and site.modules.root is None:
        raise ConfigError(
            f"no folder to publish in: the site {site.name} sets none",
            next_step="give --root DIR, or set modules.root in the site config",
        )
    root = named if named is not None else Path(str(site.modules.root))
    bad = sorted({character for character in str(root) if character in _UNFIT})
    if bad or not str(root).isprintable():
        raise ConfigError(
            f"can't publish in {str(root)!r}",
            why="module systems can't load from a path with "
            + (" ".join(bad) if bad else "a control character"),
            next_step="give another folder: --root DIR",
        )
    return root


def prepared(root: Path, site: Site, note: Callable[[str], None]) -> Ownership:
    """Make a root's missing folders, and return its ownership; raises PublishError."""
    missing = [path for path in (root, *root.parents) if not path.exists()]
    for path in reversed(missing):
        with Folder.at(path.parent) as parent:
            try:
                folder = parent.make(path.name)
            except FileExistsError:
                continue  # another publisher's
            with folder:
                os.fchmod(folder.number, 0o755 | _handed_on(parent.number, folder.number))
    owner = ownership.of_root(root, site.modules.group)
    strangers.require_none(root, owner, note)
    return owner


def _handed_on(parent: int, child: int) -> int:
    """Return the bits of a group's folder that one made in it has too; both are open.

    mkdir gave it the set-group-ID bit and the group. Who else may publish there, the parent tells:
    without its group's right to write, the group's other members could not.
    """
    inherited = os.fstat(child).st_mode & stat.S_ISGID
    return inherited | (os.fstat(parent).st_mode & stat.S_IWGRP if inherited else 0)


@contextlib.contextmanager
def explained(root: Path) -> Iterator[None]:
    """Turn what goes wrong in a root into PublishError, which names it."""
    try:
        yield
    except ChecksFailedError as error:
        raise PublishError(
            error.what, where=error.where, why=error.why, next_step=error.next_step
        ) from None
    except OSError as error:
        raise PublishError(
            f"can't publish in {root}: {error.strerror}",
            where=str(error.filename) if error.filename else None,
            next_step="give a folder that you can write to, with enough space: --root DIR",
        ) from None


def require_space(size: int, root: Path) -> None:
    """Refuse an image that does not fit; `size` in bytes; raises PublishError."""
    needed_mb, free = size // 1_000_000 + 1, free_mb(root)
    if free < needed_mb:
        raise PublishError(
            f"the image needs {needed_mb} MB, but {root} has {free} MB free",
            next_step="free some space, or give another folder: --root DIR",
        )
