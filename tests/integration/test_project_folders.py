"""Folders of a project: set-group-ID, of a group that the user's programs do not have as their own.

And a user whose number the machine's directory does not know.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.system.workspace import PREFIX
from tests import foreign
from tests.integration import accounts
from tests.integration.accounts import NOBODY, Account
from tests.integration.test_adopt import OWN
from tests.integration.world import World, missing, write_bare

# Debian's and others' first groups; neither root nor nobody is a member of it.
GROUP = 50
UNKNOWN = Account(uid=54321, gid=54321)


@pytest.fixture
def project() -> Iterator[Path]:
    """Give a project's folder that every user may write in."""
    if os.getuid() != 0:
        missing("root, which gives a folder to another group")
    folder = Path(tempfile.mkdtemp(prefix="dlcontainer-project-"))
    os.chown(folder, -1, GROUP)
    folder.chmod(0o2777)
    yield folder
    shutil.rmtree(folder)


def placed(user: World, project: Path) -> World:
    """Put what the user's programs write for a while into the project's folder."""
    (project / "tmp").mkdir()
    (project / "tmp").chmod(0o2777)
    return user.having(TMPDIR=project / "tmp")


def owned(path: Path) -> tuple[int, bool]:
    """Give the group of a path, and whether it hands it on."""
    info = path.stat()
    return info.st_gid, bool(info.st_mode & stat.S_ISGID)


def test_a_build_works_there(world: World, project: Path) -> None:
    user = placed(world, project)
    recipe = write_bare(project / "recipe", "ls -ldn / > /opt/seen")
    lines = user.run("doctor").stdout.splitlines()
    assert lines[-1] == "this host can build and run images"
    built = user.build(recipe, project / "out")
    # What is finished is the group's.
    assert owned(project / "out") == (GROUP, True)
    assert {path.stat().st_gid for path in (project / "out").iterdir()} == {GROUP}
    # The image has no Python to start: what inspect reads must be whole.
    assert "bare 1.0" in user.run("inspect", built.image).stdout
    assert list((project / "tmp").iterdir()) == []
    assert not list((project / "out").glob(f"{PREFIX}*"))


# As above, with a cache there too, for which the base is made again; the user: test_user.py.
@pytest.mark.long
def test_an_ordinary_user_builds_there(engine: Apptainer, project: Path) -> None:
    with accounts.world_of(NOBODY, engine) as world:
        user = placed(world, project).having(XDG_CACHE_HOME=project / "cache")
        recipe = NOBODY.own(write_bare(project / "recipe"))
        assert user.run("doctor").stdout.splitlines()[-1] == "this host can build and run images"
        user.build(recipe, project / "out")
        assert owned(project / "out") == owned(project / "cache") == (GROUP, True)
        assert list((project / "tmp").iterdir()) == []


def test_an_image_is_adopted_there(world: World, project: Path) -> None:
    user = placed(world, project)
    tree = foreign.with_python(foreign.skeleton(project / "tree"))
    image = project / "foreign.tar"
    foreign.oci(image, foreign.layer(tree), arch=OWN)
    user.run("adopt", image, "--site", "local", "-o", project / "adopted")
    assert owned(project / "adopted") == (GROUP, True)
    found = list((project / "adopted").glob("*.sif"))
    assert [path.stat().st_gid for path in found] == [GROUP]


def test_a_relative_folder_is_made_absolute(world: World, tmp_path: Path) -> None:
    recipe = write_bare(tmp_path / "recipe", "echo relative")
    (tmp_path / "tmp").mkdir()
    argv = ("build", recipe, "--site", "local", "-o", "out", "--tmpdir", "tmp")
    world.run(*argv, cwd=tmp_path)
    assert len(list((tmp_path / "out").glob("*.sif"))) == 1
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("given", ["relative", "/no/such/folder"])
def test_a_tmpdir_that_counts_as_not_set(world: World, tmp_path: Path, given: str) -> None:
    recipe = write_bare(tmp_path / "recipe", "echo not set")
    done = world.having(TMPDIR=given).run(
        "build", recipe, "--site", "local", "-o", tmp_path / "out", cwd=tmp_path
    )
    notes = [line for line in done.stderr.splitlines() if "TMPDIR" in line]
    assert len(notes) == 1
    assert f"ignoring TMPDIR={given}: " in notes[0]
    assert not (tmp_path / "relative").exists()


def test_a_user_whom_nobody_knows(engine: Apptainer) -> None:
    with accounts.world_of(UNKNOWN, engine) as user:
        done = user.run("doctor", code=1)
        assert "error    user: this machine has no passwd entry for your user ID" in done.stdout
        assert "getent passwd $(id -u)" in done.stdout
        recipe = UNKNOWN.own(write_bare(user.folder / "recipe"))
        said = user.run("build", recipe, "--site", "local", "-o", user.folder / "out", code=4)
        assert "no passwd entry for your user ID" in said.stderr
        assert "install it again" not in said.stderr
        assert "\x1b" not in said.stderr + done.stdout


def test_a_proxy_of_an_unknown_name(world: World, tmp_path: Path) -> None:
    proxy = "http://u:secret@nobody.invalid:3128"
    alone = world.having(
        http_proxy=proxy, https_proxy=proxy, no_proxy="", XDG_CACHE_HOME=tmp_path / "cache"
    )
    recipe = write_bare(tmp_path / "recipe")
    words = "cannot resolve the proxy's host name: nobody.invalid"
    said = alone.run("build", recipe, "--site", "local", "-o", tmp_path / "out", code=5).stderr
    assert words in said
    assert "secret" not in said
    assert words in alone.run("doctor", code=1).stdout
    lock = alone.run("lock", recipe, "--site", "local", "-o", tmp_path / "x.lock", code=5).stderr
    assert words in lock
