"""A step cache that several users share: both directions, and one of them swaps what is used."""

import json
import os
import shutil
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import RunSpec
from dlcontainer.system.guarded_files import name_of
from tests.hostile import open_place
from tests.integration import accounts
from tests.integration.accounts import NOBODY
from tests.integration.world import STEPPED, Built, World, missing

SYSTEM_PYTHON = Path("/usr/bin/python3")

# Run as another user: waits for the NUMBERth open of an entry's tree, then puts another there.
SWAPPER = """\
import ctypes, os, shutil, struct, sys

cache, tree, evil, number = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
handle = libc.inotify_init()
OPEN, CLOSE = 0x20, 0x10
# The queue merges equal events: with what closes between, two opens are two.
if libc.inotify_add_watch(handle, tree.encode(), OPEN | CLOSE) < 0:
    raise OSError(ctypes.get_errno(), "inotify_add_watch")
print("ready", flush=True)
opens = 0
while opens < int(number):
    mask = struct.unpack("iIII", os.read(handle, struct.calcsize("iIII")))[1]
    opens += bool(mask & OPEN)
place = os.path.relpath(tree, cache)
top = place.partition(os.sep)[0]
os.rename(os.path.join(cache, top), os.path.join(cache, "moved"))
shutil.copytree(os.path.join(cache, "moved"), os.path.join(cache, top))
os.unlink(tree)
shutil.copyfile(evil, tree)
print("swapped", flush=True)
"""


@pytest.fixture(autouse=True)
def _root() -> None:
    if os.getuid() != 0:
        missing("root, which can be two users")
    if not SYSTEM_PYTHON.exists():
        missing("python3 of the system")


@pytest.fixture
def cache() -> Iterator[Path]:
    """Give a group's folder whose members include all users of this machine."""
    with open_place() as place:
        folder = place / "it's shared"
        folder.mkdir()
        folder.chmod(0o2777)
        yield folder


def shared(cache: Path, *builders: int) -> list[str]:
    """Give the options of a build whose site shares a cache and trusts some users."""
    names = ", ".join(name_of(uid) for uid in builders)
    return [
        *("--set", f"site.engine.cache={cache}"),
        *("--set", f"site.engine.builders=[{names}]"),
    ]


@contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def makers(built: Built) -> dict[str, str | None]:
    """Say of each step who made the result that it was taken from; None for one that was run."""
    work = built.recorded()["work"]
    return {step["name"]: step["kept"] and step["kept"]["maker"] for step in work}


def planted_tree(tree: Path, folder: Path) -> Path:
    """Make a copy of a packed tree with one file more in it."""
    unpacked, evil = folder / "unpacked", folder / "evil.sqfs"
    subprocess.run(["unsquashfs", "-q", "-n", "-d", unpacked, tree], check=True)
    (unpacked / "opt/planted").write_text("POISONED\n")
    subprocess.run(["mksquashfs", unpacked, evil, "-quiet", "-no-progress"], check=True)
    shutil.rmtree(unpacked)
    return evil


def has(engine: Apptainer, tried: EngineCapabilities, image: Path, path: str) -> bool:
    spec = RunSpec(image=image, argv=("test", "-e", path), mode=str(tried.run_mode), binds=())
    done = subprocess.run(engine.run_argv(spec), check=False, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode == 0


def entry_of(cache: Path, name: str) -> Path:
    """Find the packed tree of a step, in whatever folders a cache has them."""
    (note,) = (
        path
        for path in cache.rglob("*.json")
        if "moved" not in path.parts and json.loads(path.read_text())["name"] == name
    )
    return note.with_suffix(".sqfs")


# Each is a whole build: the second is where a swap once got through.
@pytest.mark.long
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_what_another_user_swaps_meanwhile_is_not_in_the_image(
    alone: World,
    engine: Apptainer,
    tried: EngineCapabilities,
    cache: Path,
    stepped: Path,
    tmp_path: Path,
    number: int,
) -> None:
    with umask(0o002):  # so that the other user could swap in folders of any layout
        alone.build(stepped, tmp_path / "one", *shared(cache))
    tree = entry_of(cache, "second")
    evil = planted_tree(tree, cache.parent)
    script = cache.parent / "swapper.py"
    script.write_text(textwrap.dedent(SWAPPER))
    argv = NOBODY.argv(str(SYSTEM_PYTHON), "-I", str(script), str(cache), str(tree), str(evil))
    with subprocess.Popen([*argv, str(number)], stdout=subprocess.PIPE, text=True) as swapper:
        assert swapper.stdout is not None
        assert swapper.stdout.readline() == "ready\n"
        change = ("--set", "versions.third=2")
        built = alone.build(stepped, tmp_path / "two", *shared(cache), *change)
        swapper.terminate()
        said = swapper.stdout.read()
    assert has(engine, tried, built.image, "/opt/second")
    assert not has(engine, tried, built.image, "/opt/planted")
    # Two looks, then it is taken: that open is the last, for the engine has a copy.
    assert said == ("swapped\n" if number <= 3 else "")
    if number >= 3:
        me = name_of(os.getuid())
        assert makers(built) == {"first": me, "second": me, "third": None, "image": None}


@pytest.fixture
def member(alone: World, engine: Apptainer) -> Iterator[World]:
    """Give another member of the group, whose cache has the same base."""
    with accounts.world_of(NOBODY, engine) as world:
        bases = Path(world.environ["XDG_CACHE_HOME"]) / "dlcontainer/bases"
        shutil.copytree(Path(alone.environ["XDG_CACHE_HOME"]) / "dlcontainer/bases", bases)
        for path in (bases.parent.parent, bases.parent, *bases.rglob("*"), bases):
            os.chown(path, NOBODY.uid, NOBODY.gid)
        bases.parent.chmod(0o700)
        yield world


@pytest.mark.parametrize(
    "mask",
    [0o022, *(pytest.param(mask, marks=pytest.mark.long) for mask in (0o002, 0o077))],
    ids=["0o22", "0o2", "0o77"],
)
def test_two_users_share_what_they_keep(
    alone: World, member: World, cache: Path, stepped: Path, tmp_path: Path, mask: int
) -> None:
    me, other = name_of(os.getuid()), name_of(NOBODY.uid)
    recipe = member.folder / "recipe"
    shutil.copytree(stepped, recipe)
    (recipe / "recipe.yaml").write_text(STEPPED)
    accounts.given(NOBODY, recipe)
    output = accounts.given(NOBODY, _made(member.folder / "images"))
    with umask(mask):
        alone.build(stepped, tmp_path / "one", *shared(cache, NOBODY.uid))
        # From root to the other user, who adds a step of their own beside it.
        theirs = member.build(
            recipe, output, *shared(cache, os.getuid()), "--set", "versions.second=2"
        )
        assert makers(theirs) == {"first": me, "second": None, "third": None, "image": None}
        # And back.
        change = ("--set", "versions.second=2", "--set", "versions.third=2")
        argv = ("build", stepped, "--site", "local", *change)
        said = alone.run(*argv, "-o", tmp_path / "two", *shared(cache), "--explain").stderr
        assert f"{other} made it; to trust this user, add the name to" in said
        back = alone.build(stepped, tmp_path / "two", *shared(cache, NOBODY.uid), *change)
    assert makers(back) == {"first": other, "second": other, "third": None, "image": None}
    folders = {path.name: path.stat() for path in cache.iterdir()}
    assert {name: info.st_uid for name, info in folders.items()} == {
        f"by-{me}": os.getuid(),
        f"by-{other}": NOBODY.uid,
    }
    assert {info.st_mode & 0o777 for info in folders.values()} == {0o755}


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
