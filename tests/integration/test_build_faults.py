"""A build whose disk is full, whose engine dies, that is killed at any moment: nothing is lost."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.system.workspace import PREFIX
from tests.integration.test_bad_input import mounted
from tests.integration.world import STEPPED, World
from tests.processes import MARK, kill_marked, left_of, new_mark, poll

SEED = 20261121
KILLS = 50
# After so many kills a build runs to its end.
NEXT = 5


@pytest.fixture
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Give a file system of so many MB; the engine knows no mount point with a space."""
    yield from mounted(tmp_path / "small", f"size={request.param}m")


def write(recipe: Path, text: str) -> Path:
    (recipe / "recipe.yaml").write_text(text.replace("space_mb: 300", "space_mb: 2"))
    return recipe


def argv(recipe: Path, output: Path, *more: str | Path) -> tuple[str | Path, ...]:
    return ("build", recipe, "--site", "local", "-o", output, *more)


def require_whole(world: World, output: Path) -> None:
    """Find no half image, and nothing in the cache whose checksum is wrong."""
    for image in output.glob("*.sif"):
        recorded = json.loads(image.with_suffix(".json").read_text())
        digest = hashlib.sha256(image.read_bytes()).hexdigest()
        assert recorded["image"]["sha256"] == digest
    steps = Path(world.environ["XDG_CACHE_HOME"]) / "dlcontainer/steps"
    for note in steps.glob("by-*/??/*.json"):
        packed = note.with_suffix(".sqfs")
        assert (
            hashlib.sha256(packed.read_bytes()).hexdigest()
            == json.loads(note.read_text())["sha256"]
        )


# What is written when the disk is full: the base's tree, or what a step writes.
@pytest.mark.parametrize(
    ("small", "step"),
    [(60, "unpack"), pytest.param(350, "second", marks=pytest.mark.long)],
    indirect=["small"],
    ids=str,
)
def test_the_tree_s_disk_is_full(
    small: Path, step: str, alone: World, stepped: Path, tmp_path: Path
) -> None:
    big = STEPPED.replace("echo {{ versions.second }}", "head -c 300M /dev/zero > /opt/big; echo")
    recipe, output = write(stepped, big), tmp_path / "out"
    said = alone.run(*argv(recipe, output, "--tmpdir", small), code=5).stderr
    assert f"failed in step '{step}': the disk is full" in said, said
    assert [path.name for path in output.iterdir()] == ["stepped-1.0-local.failed.log"]
    assert list(small.iterdir()) == []
    alone.run(*argv(recipe, output))
    require_whole(alone, output)


@pytest.mark.parametrize("small", [20], indirect=True)
def test_the_image_s_disk_is_full(small: Path, alone: World, stepped: Path, tmp_path: Path) -> None:
    recipe = write(stepped, STEPPED)
    said = alone.run(*argv(recipe, small / "out"), code=5).stderr
    assert "failed in step 'pack-image'" in said
    assert "the disk is full" in said
    assert list((small / "out").glob("*.sif")) == []
    built = alone.build(recipe, tmp_path / "out")
    taken = [one["seconds"] is None for one in built.recorded()["work"]]
    assert taken == [True, True, False, False]


@pytest.mark.parametrize("small", [20], indirect=True)
def test_the_cache_s_disk_is_full(small: Path, alone: World, stepped: Path, tmp_path: Path) -> None:
    recipe = write(stepped, STEPPED)
    where = f"site.engine.cache={small}"
    said = alone.run(*argv(recipe, tmp_path / "out", "--set", where)).stderr
    assert "note: not keeping the result of 'first' in the cache: the disk is full" in said
    assert [path for path in small.rglob("*") if path.is_file()] == []
    require_whole(alone, tmp_path / "out")


@pytest.mark.long
@pytest.mark.parametrize("small", [30], indirect=True)
def test_the_cache_s_disk_is_full_of_the_base(
    small: Path, alone: World, stepped: Path, tmp_path: Path
) -> None:
    recipe, output = write(stepped, STEPPED), tmp_path / "out"
    said = alone.having(XDG_CACHE_HOME=small).run(*argv(recipe, output), code=5).stderr
    assert f"cannot write the base to the cache {small}" in said, said
    assert "No space left on device" in said
    assert [path.name for path in output.iterdir()] == ["stepped-1.0-local.failed.log"]
    assert list(small.rglob("*.sqfs*")) == []
    alone.run(*argv(recipe, output))
    require_whole(alone, output)


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    yield from mounted(tmp_path / "read only", "ro")


def test_nothing_can_be_written(read_only: Path, alone: World, bare: Path, tmp_path: Path) -> None:
    for output in (read_only, read_only / "out"):
        said = alone.run(*argv(bare, output), code=5).stderr
        assert f"{output}: Read-only file system" in said
        assert "-o" in said.rpartition("next: ")[2]
    said = alone.run(*argv(bare, tmp_path / "out", "--tmpdir", read_only), code=5).stderr
    assert "Read-only file system" in said
    user = alone.having(XDG_CACHE_HOME=read_only)
    said = user.run(*argv(bare, tmp_path / "out"), code=5).stderr
    assert f"cannot write to the cache {read_only}" in said
    assert "XDG_CACHE_HOME" in said.rpartition("next: ")[2]
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


def test_the_engine_is_killed_in_a_step(alone: World, stepped: Path, tmp_path: Path) -> None:
    mark = new_mark()
    user = alone.having(**{MARK: mark})
    slow = STEPPED.replace("echo {{ versions.third }}", "sleep 317; echo")
    recipe = write(stepped, slow)
    words = [*user.program, *map(str, argv(recipe, tmp_path / "out"))]
    with subprocess.Popen(
        words, env=dict(user.environ), cwd=user.folder, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "step third" in line)

        def engines() -> list[int]:
            # Steps see none of our variables, so the mark does not reach them.
            everyone = (int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit())
            return [pid for pid in everyone if command(pid) == b"sleep\x00317\x00"]

        assert poll(lambda: bool(engines()), 60)
        for pid in engines():
            os.kill(pid, signal.SIGKILL)
        said = process.stderr.read()
        assert process.wait(60) == 5
    assert "failed in step 'third'" in said
    kill_marked(mark)
    built = alone.build(write(stepped, STEPPED), tmp_path / "out")
    taken = [one["seconds"] is None for one in built.recorded()["work"]]
    assert taken == [True, True, False, False]


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_killed_at_any_moment(alone: World, stepped: Path, tmp_path: Path) -> None:
    """Kill -9 at random points, seeded: no half image, no lost cache, no mounts, no processes.

    Every second time the whole process group, as `kill -9 -PID` and some batch systems do. The
    next build is the first one's, bit for bit.
    """
    recipe, output = write(stepped, STEPPED), tmp_path / "out"
    # Two builds of one moment are the same bits.
    alone = alone.having(SOURCE_DATE_EPOCH="1784678400")
    began = time.monotonic()
    first = alone.build(recipe, output)
    whole, image = time.monotonic() - began, digest(first.image)
    moments, mark = random.Random(SEED), new_mark()
    user, killed = alone.having(**{MARK: mark}), 0
    for number in range(KILLS):
        # Every build has something to do: another last step, now and then all of them.
        fresh = ("--no-cache",) if number % 5 == 0 else ()
        change = ("--set", f"versions.third={number}")
        words = [*user.program, *map(str, argv(recipe, output, *change, *fresh))]
        with subprocess.Popen(
            words,
            env=dict(user.environ),
            cwd=user.folder,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            time.sleep(moments.uniform(0.0, whole))
            (os.killpg if number % 2 else os.kill)(process.pid, signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
        assert left_of(mark) == {}, number
        require_whole(alone, output)
        assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
        if number % NEXT == 0 or number == KILLS - 1:
            require_next(alone, recipe, tmp_path / "next", image)
    # Some of them had ended.
    assert killed > KILLS / 2
    age(output)
    alone.build(recipe, output)
    assert [path for path in output.iterdir() if path.name.startswith(".")] == []


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def age(folder: Path) -> None:
    """Let a minute go by: a folder without its lock may be of a build that is just beginning."""
    for path in folder.glob(f"{PREFIX}*"):
        os.utime(path, (0, 0))


def require_next(world: World, recipe: Path, output: Path, image: str) -> None:
    """Require that a build makes the very same image, and nothing is left of those before it."""
    age(Path(world.environ["TMPDIR"]))
    built = world.build(recipe, output)
    assert digest(built.image) == image
    assert built.recorded()["work"][0]["seconds"] is None
    shutil.rmtree(output)
    assert list(Path(world.environ["TMPDIR"]).iterdir()) == []
    cache = Path(world.environ["XDG_CACHE_HOME"])
    hidden = {path for path in cache.rglob(".*") if path.name != ".lock"}
    assert hidden == set()
