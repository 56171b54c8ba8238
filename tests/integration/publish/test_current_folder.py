"""The folder that a module's program runs in, with the real engine: the user's own, or exit 3.

Whatever leads there: {plain, links, an automount} x {shown to the image, not shown}.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration import folders
from tests.integration.accounts import NOBODY
from tests.integration.folders import LOOK, WAYS, Place
from tests.integration.publish.test_wrapper_modes import fake
from tests.integration.publish.tools import Shelf, clean_home, program
from tests.integration.world import Built, World
from tests.skips import skip

SITE = """\
schema: 1
name: local
summary: for tests
facts: host
default_recipe: pytorch
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with folders.placed(tmp_path_factory.mktemp("folders")) as made:
        yield made


def published(
    world: World, image: Built, place: Place, *argv: str, shown: bool = False, extra: str = ""
) -> Shelf:
    # Where an ordinary user comes, too.
    root = place.far.parent / f"root {len(list(place.far.parent.iterdir()))}"
    paths = (place.far, place.automounted) if shown else ()
    entries = [{"path": str(path), "kind": "local", "purpose": "scratch"} for path in paths]
    site = root.with_suffix(".yaml")
    site.write_text(f"{SITE}filesystems: {json.dumps(entries)}\n{extra}")
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


def look(shelf: Shelf, place: Place, way: str, **variables: Any) -> str:
    """Run a program in far/run; give its own name of that."""
    if "automount" in way and os.getuid() != 0:
        skip("an automount is made by root", elsewhere="a run as root")
    (place.run / "ckpt").unlink(missing_ok=True)
    named = place.name(way)
    names = (str(named), str(place.real(way)))
    done = stand(shelf, place.argv(way, shelf.python, "-c", LOOK, *names), named, **variables)
    assert done.stderr == ""
    cwd, pwd, same = json.loads(done.stdout)
    assert (pwd, same) == (cwd, [True, True])
    # Outside, too.
    assert (place.run / "ckpt").exists()
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
@pytest.mark.parametrize("mode", ["kept", "tree"])
def test_in_each_way_of_running(
    shelf: Shelf, tree: Shelf, place: Place, mode: str, way: str
) -> None:
    given: dict[str, Any] = {}
    if mode == "kept":
        program("fusermount3", "fuse3")
        given |= {"DLCONTAINER_KEEP": "10", "FLUX_JOB_ID": place.far.parent.name}
    look(tree if mode == "tree" else shelf, place, way, **given)


@pytest.mark.parametrize("mode", ["", pytest.param("unpacked", marks=pytest.mark.long)])
def test_an_ordinary_user(shelf: Shelf, tree: Shelf, place: Place, mode: str) -> None:
    if os.getuid() != 0:
        skip("the tests above ran as one", elsewhere="a run as root")
    with tempfile.TemporaryDirectory(prefix="dlcontainer-user-") as name:
        home, run = Path(name), place.far / f"theirs{mode}" / "run"
        run.mkdir(parents=True)
        NOBODY.own(run.parent)
        (home / "scratch").symlink_to(run.parent)
        (home / "two").symlink_to(place.outside / run.parent.name)
        NOBODY.own(home)
        given: dict[str, Any] = {"HOME": str(home), "DLCONTAINER_RUN_MODE": mode}
        user = shelf if mode else tree
        if not mode:
            del given["DLCONTAINER_RUN_MODE"]
        for named in (run, home / "scratch/run", home / "two/run"):
            argv = NOBODY.argv(user.python, "-c", LOOK, str(named), str(run))
            for bits in (0o755, 0o300):  # 0300: it may be entered and written to, not read
                run.chmod(bits)
                done = stand(user, argv, named, **given)
                assert json.loads(done.stdout)[2] == [True, True]
                assert ("unpacked for this run" in done.stderr) == bool(mode)
                assert (run / "ckpt").stat().st_uid == NOBODY.uid
                (run / "ckpt").unlink()


def test_a_folder_behind_one_that_is_closed(shelf: Shelf, place: Place) -> None:
    if os.getuid() != 0:
        skip("nothing is closed to its owner", elsewhere="a run as root")
    run = place.far / "closed" / "run"
    run.mkdir(parents=True)
    run.parent.chmod(0o700)
    # Its user is in it all the same, as after `sudo`.
    done = stand(shelf, NOBODY.argv(shelf.python, "-c", "print(1)"), run, code=3, HOME="/tmp")
    assert f"can't show the current folder: {run}" in done.stderr
    assert "closed to you" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("shell", ["/bin/sh", "bash"])
def test_the_words_for_the_engine(tmp_path: Path, place: Place, shell: str) -> None:
    there = fake(tmp_path)
    path = Path(there.shelf.python)
    posix = f"{program(shell, shell)}{' --posix' * (shell == 'bash')}"
    path.write_text(path.read_text().replace("#!/bin/sh", f"#!{posix}", 1))
    second = place.far.parent / "links/second/run"
    given: dict[str, Any] = {"HOME": str(place.home)}
    bound = {
        "plain": [place.run],
        "link in home": [place.run],
        "link at /": [place.run, place.outside / "run"],
        "link in a link": [place.run, second],
    }
    for way, folders_bound in bound.items():
        named = place.name(way)
        stand(there.shelf, [there.shelf.python], named, **given)
        words = "".join(f"<--bind><{folder}>" for folder in folders_bound)
        assert f"<--cleanenv><--pwd><{named}>{words}<--home><{place.home}>" in there.calls()[-1]
        # What the user has shown is not shown again.
        seen: dict[str, Any] = {"DLCONTAINER_BIND": f"{place.far}:{place.outside}:{second.parent}"}
        stand(there.shelf, [there.shelf.python], named, **given, **seen)
        call = there.calls()[-1]
        assert f"<--pwd><{named}>" in call
        assert "/run><" not in call.replace(f"<--pwd><{named}>", "")
    # Nor does the engine start where it would show the image's own.
    (tmp_path / "own").symlink_to("/usr/lib")
    stand(there.shelf, [there.shelf.python], tmp_path / "own", code=3, **given)
    assert there.calls() == []


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
    own = place.home / "usr"
    own.symlink_to("/usr/lib")
    for folder, why in ((strange, "UTF-8"), (Path("/usr/lib"), "its own"), (own, "its own")):
        done = subprocess.run(
            [shelf.python, "-c", "print(1)"],
            cwd=folder,
            env={**shelf.environ, "PWD": str(folder)},
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
        )
        assert (done.returncode, done.stdout) == (3, "")
        assert f"python: the image can't show the current folder: {folder}\n" in done.stderr
        assert f"{why}" in done.stderr
        assert "\n  next: " in done.stderr


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
    text = "import sys, tempfile; print(sys.prefix, tempfile.gettempdir(), sep=chr(10))"
    for number, way in enumerate(("link in home", "link at /", "link in a link")):
        folder = place.name(way)
        stand(shelf, [made, f"venv-{number}"], folder)
        venv, tmp = folder / f"venv-{number}", folder / f"tmp-{number}"
        tmp.mkdir()
        given: dict[str, Any] = {"DLCONTAINER_VENV": str(venv), "TMPDIR": str(tmp)}
        done = stand(shelf, [shelf.python, "-c", text], place.home, **given)
        assert done.stdout.splitlines() == [str(venv), str(tmp)]
        relative = stand(shelf, [made, f"venv-{number}", "python", "-c", text], folder)
        assert relative.stdout.splitlines()[0] == str(venv)


@pytest.mark.parametrize("flag", ["--contain", "--no-mount=tmp,cwd"])
def test_flags_of_a_site_that_hide_folders(
    world: World, tiny_image: Built, place: Place, flag: str
) -> None:
    shelf = published(world, tiny_image, place, extra=f"jobs: {{flags: ['{flag}']}}\n")
    with tempfile.TemporaryDirectory(prefix="dlcontainer-test-", dir="/tmp") as name:
        for named in (Path(name).resolve(), place.name("link at /"), place.name("link in home")):
            done = stand(shelf, [shelf.python, "-c", LOOK, str(named)], named)
            assert (done.stderr, json.loads(done.stdout)[2]) == ("", [True])
            (named / "ckpt").unlink()


def test_a_site_s_bind_of_another_folder_there(
    world: World, tiny_image: Built, place: Place
) -> None:
    """What the image sees by that name is not the user's folder."""
    other = place.far.parent / "other"
    (other / "run").mkdir(parents=True)
    (other / "run/mark").touch()
    bind = json.dumps([f"{other}:{place.far}"])
    shelf = published(world, tiny_image, place, extra=f"jobs: {{binds: {bind}}}\n")
    look(shelf, place, "plain")
    assert not (other / "run/ckpt").exists()


def test_kernels_start_in_their_notebook_s_folder(world: World, shelf: Shelf, place: Place) -> None:
    venv = place.name("link in a link") / "kernel-env"
    stand(shelf, [str(shelf.folder / "bin/dlcontainer-venv"), venv.name], venv.parent)
    (packages,) = venv.glob("lib/python3*/site-packages")
    (packages / "ipykernel").mkdir()
    (packages / "ipykernel/__init__.py").touch()
    text = "import os, sys; print(open(sys.argv[2]).read(), os.getcwd(), os.listdir('.'))"
    (packages / "ipykernel_launcher.py").write_text(text)
    runtime = place.name("link in a link") / "runtime"
    user = world.having(HOME=place.home, JUPYTER_RUNTIME_DIR=runtime, PATH=shelf.environ["PATH"])
    done = user.run("export", "jupyter", shelf.folder, "--venv", venv, "--json")
    kernel = json.loads(Path(json.loads(done.stdout)["file"]).read_text())
    (runtime / "kernel-1.json").write_text("{}")
    argv = [
        word.replace("{connection_file}", str(runtime / "kernel-1.json")) for word in kernel["argv"]
    ]
    notebooks = place.far / "notebooks"
    notebooks.mkdir()
    (notebooks / "one.ipynb").touch()
    for named in (notebooks, place.home / "scratch/notebooks", place.outside / "notebooks"):
        # Jupyter's server knows folders by any of their names, and sets no PWD.
        for variables in ({}, {"PWD": str(named)}):
            said = shelf.run(*argv, cwd=named, **{**kernel["env"], **variables}).stdout
            assert said.startswith("{} ")
            assert said.endswith("/notebooks ['one.ipynb']\n")
