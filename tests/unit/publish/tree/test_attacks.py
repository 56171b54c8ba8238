"""A group member against another publisher: planted, linked, replaced; root plays both.

Publishers of one tree are one domain of trust (docs/centre/published-tree.md): a member may
stop the others, and what they swap is found. They reach no file outside of
the tree, and hold nobody up.
"""

import contextlib
import os
import shutil
import signal
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.publish.tree import audit, changes, collection, store
from dlcontainer.publish.tree.collection import RetentionPolicy
from tests.trees import act, draft, hidden, image_file, put, seen
from tests.unit.publish.test_shared_tree import (
    ADA,
    BOB,
    as_user,
    shared,  # noqa: F401  a fixture
)

pytestmark = [pytest.mark.usefixtures("as_root"), pytest.mark.timeout(120)]

# Each place that a publication, a rollback or a collection opens, makes or replaces.
PLACES = {
    "lock": ".lock",
    "journal": "journal.jsonl",
    "current": "current",
    "modules": "modules",
    "releases": "releases",
    "generations": "generations",
    "next release": "releases/DIGEST",
    "next generation": "generations/2",
    "live generation": "generations/1",
    "live modules": "generations/1/modules",
    "live release": "releases/LIVE",
    "image": "releases/LIVE/image.sif",
    "sums": "releases/LIVE/SHA256SUMS",
    "temporary folder": ".dlcontainer-build-planted",
}
KINDS = ("link", "dangling link", "FIFO", "folder", "file", "hard link")


@pytest.fixture
def root(shared: Path) -> Path:  # noqa: F811
    """Give a tree of the group that ADA published in, and a key that only root may touch."""
    folder = shared / "images"
    image_file(folder)
    image_file(folder, b"another")
    folder.chmod(0o755)
    (shared / "warm").mkdir()
    # What publishing imports is there by then: Python may lie where others can't read.
    put(shared / "warm", first(shared / "root"))
    act(shared / "warm", lambda tree: collection.collect(tree, RetentionPolicy(keep_s=0)))
    list(audit.audit(shared / "warm"))
    key = shared / "key"
    key.mkdir(mode=0o700)
    (key / "key").write_text("secret")
    (key / "key").chmod(0o600)
    assert as_user(ADA, 0o002, lambda: put(shared / "root", first(shared / "root"))) == 0
    return shared / "root"


def first(root: Path) -> Path:
    return images(root)[b"an image"]


def second(root: Path) -> Path:
    return images(root)[b"another"]


def images(root: Path) -> dict[bytes, Path]:
    return {path.read_bytes(): path for path in (root.parent / "images").iterdir()}


def victim(root: Path) -> Path:
    return root.parent / "key" / "key"


def place_of(root: Path, name: str) -> Path:
    (live,) = (path.name for path in (root / "releases").iterdir())
    with draft(second(root), "2.0") as given:
        digest = store.digest_of_draft(given)
    return root / PLACES[name].replace("DIGEST", digest).replace("LIVE", live)


def plant(kind: str, path: Path, target: Path) -> None:
    """Put something at a path; what is there already goes, or moves aside."""
    if os.path.lexists(path):
        path.rename(path.with_name(f"{path.name}.aside"))
    if kind == "link":
        path.symlink_to(target)
    elif kind == "dangling link":
        path.symlink_to(target.with_name("nothing"))
    elif kind == "FIFO":
        os.mkfifo(path, 0o666)
    elif kind == "folder":
        path.mkdir()
        (path / "lock").symlink_to(target)
    elif kind == "file":
        path.write_text("planted")
    else:
        os.link(target, path)


def kept(root: Path) -> tuple[object, ...]:
    """Describe the key, and all that lies in its folder."""
    info, folder = victim(root).stat(), victim(root).parent.stat()
    return (
        victim(root).read_text(),
        (info.st_mode, info.st_uid, info.st_gid, info.st_nlink, info.st_mtime_ns),
        (folder.st_mode, folder.st_uid, folder.st_gid, folder.st_mtime_ns),
        sorted(path.name for path in victim(root).parent.iterdir()),
    )


def tried(action: Callable[[], object]) -> str | None:
    """Act as root; a refusal is all that may come of it, soon."""

    def late(*_: object) -> None:
        raise AssertionError("it waits for what a colleague planted")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    try:
        action()
    except PublishError as error:
        return error.what
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return None


@pytest.mark.parametrize("name", PLACES)
def test_what_a_member_plants_reaches_nothing_outside(root: Path, name: str) -> None:
    """Publish, go back, collect and audit as root, for each kind of thing in one place."""
    whole = root.parent / "whole"
    copied(root, whole)
    before = kept(root)
    path = place_of(root, name)
    planted = []
    for kind in KINDS:
        shutil.rmtree(root)
        copied(whole, root)
        # Another's file can't be linked where fs.protected_hardlinks is on; one's own can.
        target = root / ".bobs" if kind == "hard link" else victim(root)
        attack = partial(planting, kind, path, target)
        code = as_user(BOB, 0o002, attack)
        planted += [kind] * (code == 0)
        for action in (
            lambda: put(root, second(root), "2.0"),
            lambda: act(root, lambda tree: changes.rollback(tree, 1)),
            lambda: act(root, lambda tree: collection.collect(tree, RetentionPolicy(keep_s=0))),
            lambda: audit.audit(root),
        ):
            tried(action)
            assert kept(root) == before, (kind, name)
        ours = [path for path in hidden(root) if path != ".dlcontainer-build-planted"]
        assert ours == [], (kind, name)
    # What lies in a release or a generation is its publisher's alone.
    assert planted == ([] if PLACES[name].count("/") == 2 else list(KINDS))


def planting(kind: str, path: Path, target: Path) -> None:
    try:
        if kind == "hard link":
            target.write_text("BOB's, under two names")
        plant(kind, path, target)
    except PermissionError:
        os._exit(1)


def copied(whole: Path, root: Path) -> None:
    shutil.copytree(whole, root, symlinks=True)
    for path in (whole, *whole.rglob("*")):
        info, copy = path.lstat(), root / path.relative_to(whole)
        os.chown(copy, info.st_uid, info.st_gid, follow_symlinks=False)
        if not copy.is_symlink():
            copy.chmod(stat.S_IMODE(info.st_mode))


def swapped(root: Path) -> None:
    """Rename the live release, and put another folder of that name there."""
    (live,) = (root / "releases").iterdir()
    away = live.rename(root / "releases/away")
    shutil.copytree(away, live)
    (live / "bin/python").write_text("#!/bin/sh\necho stolen\n")


def emptied(root: Path) -> None:
    (live,) = (root / "releases").iterdir()
    live.rename(root / "releases/away")
    live.mkdir()


def exchanged(root: Path) -> None:
    """Put another generation in the place of the live one."""
    away = (root / "generations/1").rename(root / "generations/away")
    shutil.copytree(away, root / "generations/1", symlinks=True)
    link = root / "generations/1/modules/tcl/demo/1.0"
    link.unlink()
    link.symlink_to("/tmp/module.tcl")


@pytest.mark.parametrize("swap", [swapped, emptied, exchanged])
def test_a_member_who_replaces_a_folder_is_found(root: Path, swap: Callable[[Path], None]) -> None:
    """It can't be kept from a publisher: the audit names it, and nobody publishes onto it."""
    whole = [fault for fault in audit.audit(root) if str(root) in fault.where]
    assert whole == []
    assert as_user(BOB, 0o022, lambda: swap(root)) == 0
    faults = [fault for fault in audit.audit(root) if str(root) in fault.where]
    assert faults
    said = tried(lambda: put(root, first(root)))
    if swap is exchanged:
        assert said is None  # what users see is made again; what was exchanged stays, and named
        faults = [fault for fault in audit.audit(root) if str(root) in fault.where]
        assert {fault.where for fault in faults} == {
            str(root / "generations/1/modules/tcl/demo/1.0")
        }
        assert len(seen(root)) == 2
    else:
        assert said is not None
        assert "is damaged" in said


def test_who_is_not_of_the_group_replaces_nothing(root: Path) -> None:
    # A place that they may write in: else nothing could be moved there in any case.
    loot = root.parent / "loot"
    loot.mkdir()
    loot.chmod(0o777)
    release = next((root / "releases").iterdir()).name

    def strange() -> None:
        (loot / "own").touch()
        named = ("current", "modules", "releases", "generations/1", "journal.jsonl", ".lock")
        for path in (*named, f"releases/{release}", f"releases/{release}/image.sif"):
            with contextlib.suppress(PermissionError):
                (root / path).rename(loot / "stolen")
                raise AssertionError(path)
        for path in (".", "releases", "generations", f"releases/{release}", "generations/1"):
            with contextlib.suppress(PermissionError):
                (root / path / "planted").touch()
                raise AssertionError(path)

    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setresgid(65532, 65532, 65532)
            os.setresuid(65532, 65532, 65532)
            strange()
            code = 0
        finally:  # never back into pytest
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
