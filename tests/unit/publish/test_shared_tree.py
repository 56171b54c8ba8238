"""Two publishers who share a group-writable tree, as two real users; root plays both."""

import contextlib
import os
import shutil
import stat
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.publish import roots
from tests.publishing import hidden, image_of, put, seen
from tests.skips import skip
from tests.values import ROOT, site_of

GROUP = 65534
ADA, BOB = 65533, 65534

pytestmark = pytest.mark.usefixtures("as_root")


@pytest.fixture
def shared() -> Iterator[Path]:
    """Give a folder that other users reach, unlike pytest's own; root/ in it is the group's."""
    folder = Path(tempfile.mkdtemp(prefix="dlcontainer-tests-"))
    # Python may lie in a home that others can't enter: what publishing imports is there by then.
    put(image_of(folder / "private"), folder / "private")
    folder.chmod(0o755)
    root = folder / "root"
    root.mkdir()
    os.chown(root, ADA, GROUP)
    root.chmod(0o2775)
    yield folder
    shutil.rmtree(folder)


def as_user(user: int, umask: int, act: Callable[[], object]) -> int:
    """Act as another user, in a process of its own; 0 for success, 6 for a PublishError."""
    if not all(folder.stat().st_mode & stat.S_IXOTH for folder in (ROOT, *ROOT.parents)):
        # Templates and modules are read from there.
        skip(f"others may not enter {ROOT}", elsewhere="a checkout that others may enter")
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.setgroups([])
            os.setresgid(GROUP, GROUP, GROUP)
            os.setresuid(user, user, user)
            os.umask(umask)
            act()
            code = 0
        except PublishError as error:
            os.write(2, f"{error}\n".encode())
            code = 6
        except BaseException:
            traceback.print_exc()
            raise
        finally:  # never back into pytest
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def given(folder: Path, version: str, **changes: Any) -> Path:
    image = image_of(folder / version, version.encode(), version=version, **changes)
    image.parent.chmod(0o755)
    return image


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o077])
def test_colleagues_publish_side_by_side(shared: Path, umask: int) -> None:
    root = shared / "root"
    first, second = given(shared, "1.0"), given(shared, "1.1")
    assert as_user(ADA, umask, lambda: put(first, root)) == 0
    assert as_user(BOB, umask, lambda: put(second, root)) == 0
    assert as_user(BOB, umask, lambda: put(first, root)) == 0  # identical
    assert as_user(ADA, umask, lambda: put(second, root)) == 0
    found = seen(root)
    assert (len(found), hidden(root)) == (8, [])
    links = [root / "modules/tcl/demo" / version for version in ("1.0", "1.1")]
    assert [link.resolve().parent.stat().st_uid for link in links] == [ADA, BOB]
    assert {path.lstat().st_gid for path in root.rglob("*")} == {GROUP}
    lock = (root / ".lock").stat()
    assert (lock.st_uid, stat.S_IMODE(lock.st_mode)) == (ADA, 0o664)


def test_what_a_colleague_damaged(shared: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is replaced; the message says what staff type, and the maker can do it."""
    root, image = shared / "root", given(shared, "1.0")
    assert as_user(ADA, 0o022, lambda: put(image, root)) == 0
    (release,) = (root / "releases").iterdir()
    (release / "bin/tool").write_text("#!/bin/sh\n")
    assert as_user(BOB, 0o022, lambda: put(image, root)) == 6
    said = capfd.readouterr().err
    assert f"{release}/bin/tool: the published release of demo/1.0 is damaged" in said
    assert f"rm -r {release}\n" in said


def plant_lock(root: Path, victim: Path) -> None:
    (root / ".lock").symlink_to(victim)


def plant_second_lock(root: Path, victim: Path) -> None:
    with contextlib.suppress(PermissionError):  # protected_hardlinks
        (root / ".lock").hardlink_to(victim)


def plant_modules(root: Path, victim: Path) -> None:
    (root / "modules").symlink_to(victim.parent)


def plant_releases(root: Path, victim: Path) -> None:
    (root / "releases").symlink_to(victim.parent)


def plant_journal(root: Path, victim: Path) -> None:
    (root / "journal.jsonl").symlink_to(victim)


def plant_current(root: Path, victim: Path) -> None:
    (root / "current").symlink_to(victim.parent)


@pytest.mark.parametrize(
    "plant",
    [plant_lock, plant_second_lock, plant_modules, plant_releases, plant_journal, plant_current],
)
def test_what_a_colleague_plants(
    shared: Path, tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    """Root publishes where another user planted a link to root's private files."""
    root, image = shared / "root", given(shared, "1.0")
    private = shared / "key"
    private.mkdir(mode=0o700)
    victim = private / "key"
    victim.write_text("secret")
    victim.chmod(0o600)

    assert as_user(BOB, 0o002, lambda: plant(root, victim)) == 0
    with contextlib.suppress(PublishError):
        put(image, root)
    assert [path.name for path in private.iterdir()] == ["key"]
    assert (stat.S_IMODE(victim.stat().st_mode), victim.read_text()) == (0o600, "secret")
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert (victim.stat().st_uid, victim.stat().st_gid) == (0, private.stat().st_gid)
    assert hidden(root) == []


@pytest.mark.parametrize(("mode", "wanted"), [(0o2775, 0o2775), (0o2755, 0o2755), (0o775, 0o755)])
def test_a_new_root_below_a_groups_folder_is_the_groups(
    shared: Path, mode: int, wanted: int
) -> None:
    above = shared / "above"
    above.mkdir()
    os.chown(above, ADA, GROUP)
    above.chmod(mode)
    root = above / "it's/new"
    own = roots.prepared(root, site_of().value, lambda _: None)
    for made in (root.parent, root):
        assert stat.S_IMODE(made.stat().st_mode) == wanted
        assert made.stat().st_gid == (GROUP if mode & stat.S_ISGID else os.getegid())
    assert own.shared == wanted & (stat.S_ISGID | stat.S_IWGRP)
