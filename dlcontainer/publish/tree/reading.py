"""Reading a published tree without its lock, on file systems whose handles go stale meanwhile."""

import contextlib
import errno
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from dlcontainer.errors import PublishError
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import transaction

_TRIES = 3
P = ParamSpec("P")
T = TypeVar("T")


def retried(look: Callable[Concatenate[Path, P], T]) -> Callable[Concatenate[Path, P], T]:
    """Look again where a handle went stale: what a cached name leads to was collected."""

    @functools.wraps(look)
    def again(root: Path, /, *args: P.args, **kwargs: P.kwargs) -> T:
        for tries in reversed(range(_TRIES)):
            try:
                return look(root, *args, **kwargs)
            except OSError as error:
                if error.errno != errno.ESTALE or not tries:
                    raise _unreadable(root, error) from None
        raise AssertionError  # the last try returned or raised

    return again


@contextlib.contextmanager
def opened(root: Path) -> Iterator[Folder]:
    """Open the root of a tree; raises PublishError, and OSError for a handle that went stale."""
    try:
        with Folder.at(root) as top:
            transaction.require_layout(top)
            yield top
    except OSError as error:
        if error.errno == errno.ESTALE:
            raise
        raise _unreadable(root, error) from None


def _unreadable(root: Path, error: OSError) -> PublishError:
    return PublishError(
        f"can't read {root}: {error.strerror}", next_step="give the root of a published tree"
    )
