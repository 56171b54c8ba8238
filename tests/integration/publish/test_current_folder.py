"""The folder that a module's program runs in, with the real engine: the user's own, or exit 3.

Whatever leads there: {plain, links, an automount} x {shown to the image, not shown}.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests import automount
from tests.integration.accounts import NOBODY
from tests.integration.publish.tools import Shelf, clean_home, program
from tests.integration.world import Built, World
from tests.skips import skip

WAYS = ("plain", "link in home", "link at /", "link in a link", "link to an automount", "automount")
# It says where it is, whether each name of its folder leads there, and leaves a file.
LOOK = """
import json, os, sys
open("ckpt", "w").close()
same = [os.path.samefile(name, ".") for name in sys.argv[1:]]
print(json.dumps([os.getcwd(), os.environ.get("PWD"), same]))
"""
SITE = """\
schema: 1
name: local
summary: for tests
facts: host
default_recipe: pytorch
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Folders that no image shows by itself: far/run, and what leads to it."""

    far: Path
    # What would be a link at / of a machine whose / is root's alone.
    outside: Path
    automounted: Path
    home: Path

    @property
    def run(self) -> Path:
        return self.far / "run"

    def name(self, way: str) -> Path:
        """Give the name by which the user stands in far/run."""
        names = {
            "plain": self.far,
            "link in home": self.home / "scratch",
            "link at /": self.outside,
            "link in a link": self.home / "two",
            "link to an automount": self.home / "mounted",
            "automount": self.automounted / "far",
        }
        return names[way] / "run"

    def real(self, way: str) -> Path:
        """Give the name without links."""
        return self.automounted / "far/run" if "automount" in way else self.run

    def argv(self, way: str, *argv: str) -> list[str]:
        """Give what goes before a command, where a mount has to appear."""
        if "automount" not in way:
            return [*argv]
        start = ["unshare", "--mount", "--propagation", "slave", sys.executable, automount.__file__]
        folders = [str(self.automounted), str(self.far.parent), str(self.name(way))]
        return [*start, *folders, *argv]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Make the folders: not below /tmp, which the engine shows, nor below the home of the test."""
    root = os.getuid() == 0
    with tempfile.TemporaryDirectory(dir="/var/opt" if root else Path.home(), prefix="dlc-") as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        for part in ("far/run", "auto", "links"):
            (folder / part).mkdir(parents=True)
        home = tmp_path_factory.mktemp("folders") / "a home"
        home.mkdir()
        outside = Path("/" if root else folder / "links") / folder.name
        outside.symlink_to(folder / "far")
        try:
            (folder / "links/second").symlink_to(outside)
            (home / "two").symlink_to(os.path.relpath(folder / "links/second", home.resolve()))
            (home / "scratch").symlink_to(folder / "far/")
            (home / "mounted").symlink_to(folder / "auto/far")
            yield Place(far=folder / "far", outside=outside, automounted=folder / "auto", home=home)
        finally:
            outside.unlink()


def published(world: World, image: Built, place: Place, *argv: str, shown: bool = False) -> Shelf:
    root = place.home.parent / f"root {len(list(place.home.parent.iterdir()))}"
    folders = (place.far, place.automounted) if shown else ()
    entries = [{"path": str(path), "kind": "local", "purpose": "scratch"} for path in folders]
    site = root.with_suffix(".yaml")
    site.write_text(f"{SITE}filesystems: {json.dumps(entries)}\n")
    done = world.run("publish", image.image, "-s", site, "--root", root, "--json", *argv)
    name, version = json.loads(done.stdout)["module"].split("/")
    environ = {**clean_home(root), "PATH": world.environ["PATH"], "HOME": str(place.home)}
    return Shelf(root=root, name=name, version=version, environ=environ)


@pytest.fixture(scope="module")
def shelf(world: World, tiny_image: Built, place: Place) -> Shelf:
    return published(world, tiny_image, place)


@pytest.fixture(scope="module")
def showing(world: World, tiny_image: Built, place: Place) -> Shelf:
    return published(world, tiny_image, place, shown=True)


@pytest.fixture(scope="module")
def tree(world: World, tiny_image: Built, place: Place) -> Shelf:
    return published(world, tiny_image, place, "--layout", "tree")


def stand(shelf: Shelf, argv: list[str], folder: Path, code: int = 0, **variables: str) -> Any:
    """Run a command in a folder, by its name as a shell has it."""
    cwd = Path("/") if argv[0] == "unshare" else folder
    return shelf.run(*argv, cwd=cwd, code=code, **{"PWD": str(folder), **variables})


def look(shelf: Shelf, place: Place, way: str, **variables: str) -> str:
    """Run a program in far/run; give its own name of that."""
    if "automount" in way and os.getuid() != 0:
        skip("an automount is made by root", elsewhere="a run as root")
    (place.run / "ckpt").unlink(missing_ok=True)
    named = place.name(way)
    names = (str(named), str(place.real(way)))
    done = stand(shelf, place.argv(way, shelf.python, "-c", LOOK, *names), named, **variables)
    if variables.get("DLCONTAINER_RUN_MODE") == "unpacked":
        assert done.stderr.count("dlcontainer:") == done.stderr.count("unpacked for this run") == 1
    else:
        assert done.stderr == ""
    cwd, pwd, same = json.loads(done.stdout)
    assert (pwd, same) == (cwd, [True, True])
    # Outside, too.
    assert [path.name for path in place.run.iterdir()] == ["ckpt"]
    return str(cwd)


@pytest.mark.parametrize("way", WAYS)
def test_the_folder_is_the_users(shelf: Shelf, place: Place, way: str) -> None:
    own = place.name(way)
    # As outside, a link that shows is followed; one that does not show keeps its name.
    first = {"link in home": place.run, "link in a link": place.far.parent / "links/second/run"}
    first["link to an automount"] = place.real(way)
    assert look(shelf, place, way) == str(first.get(way, own))


@pytest.mark.parametrize("way", WAYS)
def test_where_the_site_shows_it(showing: Shelf, place: Place, way: str) -> None:
    look(showing, place, way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["unpacked", "kept", "tree"])
def test_in_each_way_of_running(
    shelf: Shelf, tree: Shelf, place: Place, mode: str, way: str
) -> None:
    given: dict[str, Any] = {}
    if mode == "unpacked":
        given["DLCONTAINER_RUN_MODE"] = mode
    if mode == "kept":
        program("fusermount3", "fuse3")
        given |= {"DLCONTAINER_KEEP": "10", "FLUX_JOB_ID": place.far.parent.name}
    look(tree if mode == "tree" else shelf, place, way, **given)


def test_an_ordinary_user(shelf: Shelf, place: Place) -> None:
    if os.getuid() != 0:
        skip("the tests above ran as one", elsewhere="a run as root")
    with tempfile.TemporaryDirectory(prefix="dlcontainer-user-") as name:
        home = NOBODY.own(Path(name))
        NOBODY.own(place.far)
        (home / "scratch").symlink_to(place.far)
        user = replace(shelf, environ={**shelf.environ, "HOME": str(home)})
        argv = NOBODY.argv(user.python, "-c", LOOK, str(home / "scratch/run"), str(place.run))
        place.run.chmod(0o755)
        (place.run / "ckpt").unlink(missing_ok=True)
        for mode in (0o755, 0o300):  # 0300: it may be entered and written to, not read
            place.run.chmod(mode)
            done = stand(user, argv, home / "scratch/run")
            assert json.loads(done.stdout) == [str(place.run), str(place.run), [True, True]]
            assert (place.run / "ckpt").stat().st_uid == NOBODY.uid
            (place.run / "ckpt").unlink()
        place.run.chmod(0o755)


ODD = ("a b", 'q"q', "two\nlines", "$(touch x)", "b\\s", "c,o:n", "end ", "é", "-x", '",\n\\"')


@pytest.mark.parametrize("odd", ODD)
def test_odd_names(shelf: Shelf, place: Place, odd: str) -> None:
    folder = place.far / odd
    folder.mkdir(exist_ok=True)
    for named in (folder, place.home / "scratch" / odd, place.outside / odd):
        (folder / "ckpt").unlink(missing_ok=True)
        argv = [shelf.python, "-c", LOOK, str(named), str(folder)]
        done = stand(shelf, argv, named)
        assert (done.stderr, json.loads(done.stdout)[2]) == ("", [True, True])
        assert (folder / "ckpt").exists()
    assert not list(place.far.rglob("x"))


def test_what_cannot_be_shown_does_not_run(shelf: Shelf, place: Place) -> None:
    strange = Path(os.fsdecode(os.fsencode(place.far) + b"/\xff"))
    strange.mkdir(exist_ok=True)
    own = place.home / "own"
    own.symlink_to("/usr/lib")
    for folder, why in ((strange, "UTF-8"), (Path("/usr/lib"), "its own"), (own, "its own")):
        done = stand(shelf, [shelf.python, "-c", "print(1)"], folder, code=3)
        assert done.stdout == ""
        assert "python: the image can't show the current folder: " in done.stderr
        assert why in done.stderr
        assert "next: " in done.stderr


def test_a_folder_that_is_gone(shelf: Shelf, place: Place) -> None:
    gone, other = place.far / "gone", place.far / "moved"
    gone.mkdir()
    for text in (f"rmdir '{gone}'", f"mkdir '{gone}'; mv '{gone}' '{other}'; mkdir '{gone}'"):
        script = f"cd '{gone}' && {text}; exec '{shelf.python}' -c 'import os; print(os.getcwd())'"
        if "mv" in text:
            # The kernel knows where it is now, whatever the variable says.
            script = script.replace("mkdir", ":", 1)
            gone.mkdir()
            done = shelf.run("/bin/sh", "-c", script)
            assert done.stdout == f"{other}\n"
        else:
            done = shelf.run("/bin/sh", "-c", script, code=3)
            assert "the image can't show the current folder" in done.stderr
            assert "next: cd to a folder that is there" in done.stderr
            assert done.stdout == ""


def test_a_variable_that_lies(shelf: Shelf, place: Place) -> None:
    loop, nowhere = place.home / "loop", place.home / "nowhere"
    loop.symlink_to("loop")
    nowhere.symlink_to("not there")
    lies = ["", "run", "/", "/usr", str(place.home), str(loop), str(nowhere), "/a\n/b"]
    for lie in (*lies, f"{place.far}/../far/run", f"{place.home}/scratch//run"):
        (place.run / "ckpt").unlink(missing_ok=True)
        done = shelf.run(shelf.python, "-c", LOOK, ".", cwd=place.run, PWD=lie)
        assert (done.stderr, json.loads(done.stdout)[0]) == ("", str(place.run))
    # Nor do links of other variables matter.
    for folder in (loop, nowhere):
        done = shelf.run(shelf.python, "-c", LOOK, cwd=place.run, TMPDIR=str(folder))
        assert json.loads(done.stdout)[0] == str(place.run)


def test_an_environment_and_temporary_files_behind_links(shelf: Shelf, place: Place) -> None:
    made = str(shelf.folder / "bin/dlcontainer-venv")
    text = "import os, sys, tempfile; print(sys.prefix, tempfile.gettempdir())"
    for number, way in enumerate(("link in home", "link at /", "link in a link")):
        folder = place.name(way)
        stand(shelf, [made, f"venv-{number}"], folder)
        venv, tmp = folder / f"venv-{number}", folder / f"tmp-{number}"
        tmp.mkdir()
        given: dict[str, Any] = {"DLCONTAINER_VENV": str(venv), "TMPDIR": str(tmp)}
        done = stand(shelf, [shelf.python, "-c", text], place.home, **given)
        assert done.stdout == f"{venv} {tmp}\n"
        relative = stand(shelf, [made, f"venv-{number}", "python", "-c", text], folder)
        assert relative.stdout.split()[0] == str(venv)


def test_flags_of_a_site_that_hide_folders(world: World, tiny_image: Built, place: Place) -> None:
    pass
