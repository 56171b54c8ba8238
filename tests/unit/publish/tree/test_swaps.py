"""A group member swaps parts of a tree, by inotify, in the middle of another publisher's change."""

import ctypes
import os
import signal
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dlcontainer.publish.tree import audit, changes
from tests.trees import act, hidden, put
from tests.unit.publish.test_shared_tree import (
    BOB,
    GROUP,
    shared,  # noqa: F401  a fixture
)
from tests.unit.publish.tree.test_attacks import (
    first,
    kept,
    root,  # noqa: F401  a fixture
    second,
    tried,
    victim,
)

pytestmark = [pytest.mark.usefixtures("as_root"), pytest.mark.timeout(300)]

OPEN, CLOSE = 0x20, 0x10
EXCHANGE, HERE = 0x2, -100
_EVENT = struct.Struct("iIII")
# A busy machine may let him wake too late for a turn of the publisher's.
_TURNS = 20
# The folder that is watched, and how the name begins that is waited for and then swapped.
WATCHED = {
    "lock": (".", ".lock"),
    "journal": (".", "journal.jsonl"),
    "releases": (".", "releases"),
    "generations": (".", "generations"),
    "temporary folder": (".", ".dlcontainer-build-"),
    "live generation": ("generations", "1"),
    "live release": ("releases", ""),
}


def swap_at(folder: Path, begin: str, number: int, target: Path, ready: int) -> None:
    """Wait for the Nth open of such a name, then put a link in its place, in one step."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = libc.inotify_init()
    # The queue merges equal events: with what closes between, two opens are two.
    if libc.inotify_add_watch(handle, os.fsencode(folder), OPEN | CLOSE) < 0:
        raise OSError(ctypes.get_errno(), "inotify_add_watch")
    os.write(ready, b".")
    opens = 0
    while True:
        data = os.read(handle, 65536)
        while data:
            _, mask, _, length = _EVENT.unpack_from(data)
            name = os.fsdecode(data[_EVENT.size : _EVENT.size + length].rstrip(b"\0"))
            data = data[_EVENT.size + length :]
            opens += bool(mask & OPEN and name and name.startswith(begin))
            if opens == number:
                (folder / "away").symlink_to(target)
                link, own = (os.fsencode(folder / each) for each in ("away", name))
                if libc.renameat2(HERE, link, HERE, own, EXCHANGE) == 0:
                    return
                # It was a temporary name: the next one, then.
                (folder / "away").unlink()
                opens -= 1


@contextmanager
def swapping(folder: Path, begin: str, number: int, target: Path) -> Iterator[Callable[[], bool]]:
    """Let BOB lie in wait in a process of his own; gives what tells whether he is still there."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setresgid(GROUP, GROUP, GROUP)
            os.setresuid(BOB, BOB, BOB)
            swap_at(folder, begin, number, target, write)
            code = 0
        finally:  # never back into pytest
            os._exit(code)
    try:
        assert os.read(read, 1) == b"."
        yield lambda: os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)


def changing(root: Path, turn: int) -> list[Callable[[], object]]:  # noqa: F811
    """Give what a publisher does in a turn, each time anew."""
    return [
        lambda: put(root, first(root), facts=f"new {turn}"),
        lambda: put(root, second(root), f"2.{turn}"),
        lambda: act(root, lambda tree: changes.rollback(tree, 1)),
        lambda: audit.audit(root),
    ]


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("name", WATCHED)
def test_what_is_swapped_meanwhile_leads_nowhere(
    root: Path,  # noqa: F811
    name: str,
    number: int,
) -> None:
    """A link to root's own folder takes the place of what was opened a moment ago."""
    before = kept(root)
    within, begin = WATCHED[name]
    with swapping(root / within, begin, number, victim(root).parent) as waits:
        for turn in range(_TURNS):
            for action in changing(root, turn):
                tried(action)
                assert kept(root) == before
            if not waits():
                break
    # It was swapped: else this test shows nothing.
    (swapped,) = (
        path
        for path in (root / within).iterdir()
        if path.is_symlink() and (path.readlink() == victim(root).parent)
    )
    assert swapped.name.startswith(begin)
    assert [path for path in hidden(root) if not (root / path).is_symlink()] == []
