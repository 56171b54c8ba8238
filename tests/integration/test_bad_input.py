"""What can be wrong before and in a build: refused clearly, nothing half left behind."""

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.world import Built, World, write_bare
from tests.skips import skip

SMALL_MB = 24


def mounted(folder: Path, options: str) -> Iterator[Path]:
    """Mount a small file system in memory for one test; root only."""
    folder.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        skip("no mount program")
    if done.returncode != 0:
        skip(
            f"a file system can't be mounted here: {done.stderr.strip()}", elsewhere="a run as root"
        )
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    yield from mounted(tmp_path / "small", f"size={SMALL_MB}m")


@pytest.fixture
def noexec(tmp_path: Path) -> Iterator[Path]:
    yield from mounted(tmp_path / "no exec", "size=512m,noexec")


def failing(world: World, code: int, *argv: str | Path) -> str:
    """Run a command line that must fail; give what it said, which is never a traceback."""
    said = world.run(*argv, code=code).stderr
    assert "Traceback" not in said
    assert "\ndlcontainer: " in f"\n{said}"
    return said[f"\n{said}".rindex("\ndlcontainer: ") :]


def build(recipe: Path, output: Path, *argv: str | Path) -> tuple[str | Path, ...]:
    return ("build", recipe, "--site", "local", "-o", output, *argv)


def test_no_space_is_seen_before_the_build(
    small: Path, world: World, bare: Path, tmp_path: Path
) -> None:
    said = failing(world, 5, *build(bare, tmp_path / "out", "--tmpdir", small))
    assert f"{small} has " in said
    assert "the build needs about 300 MB" in said
    assert "--tmpdir" in said
    said = failing(world, 5, *build(bare, small / "out"))
    assert "the build needs about 150 MB" in said
    assert "another folder with -o" in said
    assert [path.name for path in small.iterdir()] in ([], ["out"])


def test_no_space_in_mid_build(small: Path, world: World, tmp_path: Path) -> None:
    """The recipe promises less than it takes."""
    recipe = write_bare(tmp_path / "a recipe", space_mb=1)
    output = tmp_path / "out"
    said = failing(world, 5, *build(recipe, output, "--tmpdir", small))
    assert "space" in said
    assert [path.name for path in output.iterdir()] == ["bare-1.0-local.failed.log"]
    assert list(small.iterdir()) == []


def test_no_space_for_the_image(small: Path, world: World, tmp_path: Path) -> None:
    recipe = write_bare(tmp_path / "a recipe", space_mb=1)
    said = failing(world, 5, *build(recipe, small))
    assert "space" in said or "write" in said
    assert {path.name for path in small.iterdir()} <= {"bare-1.0-local.failed.log"}


def test_tmpdir_without_programs(noexec: Path, world: World, bare: Path, tmp_path: Path) -> None:
    said = failing(world, 5, *build(bare, tmp_path / "out", "--tmpdir", noexec))
    assert f"{noexec} is mounted noexec" in said
    assert list(noexec.iterdir()) == []


def test_tmpdir_that_is_not_there(world: World, bare: Path, tmp_path: Path) -> None:
    said = failing(world, 5, *build(bare, tmp_path / "out", "--tmpdir", tmp_path / "nowhere"))
    assert f"no folder {tmp_path / 'nowhere'}" in said


def test_output_below_a_file(world: World, bare: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    said = failing(world, 5, *build(bare, tmp_path / "file" / "out"))
    assert f"can't make {tmp_path / 'file' / 'out'}" in said
    said = failing(world, 5, *build(bare, tmp_path / "file"))
    assert f"can't make {tmp_path / 'file'}" in said
    assert (tmp_path / "file").read_text() == "mine"


def test_failed_step_shows_its_last_lines_and_keeps_the_log(world: World, tmp_path: Path) -> None:
    work = "seq 1 50\necho 'something is wrong here' >&2\nexit 7"
    recipe = write_bare(tmp_path / "a recipe", work)
    output = tmp_path / "out put"
    said = failing(world, 5, *build(recipe, output))
    log = output / "bare-1.0-local.failed.log"
    assert "the build failed in step 'work'" in said
    assert "something is wrong here" in said
    assert f"read {log}" in said
    assert "\n    2\n" not in said  # the last lines, not all
    assert "something is wrong here" in log.read_text()
    assert [path.name for path in output.iterdir()] == [log.name]
    # One that works takes the old failure's log away.
    world.build(write_bare(tmp_path / "a recipe"), output)
    assert not log.exists()


HOSTILE = ("a'; touch canary; echo 'b", 'a"b\nc,d:e\\f', "-x $(touch canary) `id`")
UNBINDABLE = ("a:b", "a,b", 'a"b', "a\\b", "a\nb")


# A build each: one name in the short set, with what a shell would run.
@pytest.mark.parametrize(
    "name", [HOSTILE[2], *(pytest.param(name, marks=pytest.mark.long) for name in HOSTILE[:2])]
)
def test_output_with_a_hostile_name(world: World, bare: Path, tmp_path: Path, name: str) -> None:
    built = world.build(bare, tmp_path / name)
    assert built.image == tmp_path / name / "bare-1.0-local.sif"
    assert len(list(built.image.parent.iterdir())) == 4
    # No Python is in it; labels are read by the engine, from this path.
    said = world.run("validate", built.image, code=1).stdout
    assert "ok      labels: bare 1.0" in said
    assert "FAILED  runs: " in said
    assert [path.name for path in tmp_path.rglob("canary")] == []
    assert not (world.folder / "canary").exists()


@pytest.mark.parametrize("name", [HOSTILE[0], pytest.param(HOSTILE[2], marks=pytest.mark.long)])
def test_tmpdir_with_a_hostile_name(
    world: World, bare: Path, tmp_path: Path, fast: Path, name: str
) -> None:
    scratch = tmp_path / name
    scratch.mkdir()
    built = world.build(bare, tmp_path / "out", "--tmpdir", scratch)
    assert built.image.is_file()
    assert list(scratch.iterdir()) == []
    assert not (world.folder / "canary").exists()


@pytest.mark.long
def test_base_in_a_tmpdir_with_a_hostile_name(world: World, bare: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "a b'; touch canary; echo 'c"
    scratch.mkdir()
    user = world.having(XDG_CACHE_HOME=tmp_path / "a cache's folder")
    built = user.build(bare, tmp_path / "out", "--tmpdir", scratch)
    assert built.image.is_file()
    assert list(scratch.iterdir()) == []
    assert not (world.folder / "canary").exists()


@pytest.mark.parametrize("name", UNBINDABLE)
def test_tmpdir_that_the_engine_can_not_bind(
    world: World, bare: Path, tmp_path: Path, name: str
) -> None:
    scratch = tmp_path / name
    scratch.mkdir()
    said = failing(world, 4, *build(bare, tmp_path / "out", "--tmpdir", scratch))
    assert "the engine cannot bind" in said
    assert "choose another folder with --tmpdir" in said
    assert list(scratch.iterdir()) == []
    assert list((tmp_path / "out").iterdir()) == []


def test_no_image(world: World, tmp_path: Path) -> None:
    (tmp_path / "text.sif").write_text("I am a text\n")
    (tmp_path / "empty.sif").touch()
    (tmp_path / "folder.sif").mkdir()
    for name, code, says in (
        ("text.sif", 1, "is not a SIF image"),
        ("empty.sif", 1, "is not a SIF image"),
        ("folder.sif", 2, "can't read"),
        ("nowhere.sif", 2, "can't read"),
    ):
        said = failing(world, code, "validate", tmp_path / name)
        assert says in said
        assert str(tmp_path / name) in said


@pytest.mark.parametrize("size", [60, 4096, 40_000, 1_000_000])
def test_cut_image(as_built: Built, world: World, size: int) -> None:
    with as_built.image.open("r+b") as file:
        file.truncate(size)
    done = world.run("validate", as_built.image, code=1)
    assert "FAILED  record: " in done.stdout
    assert "Traceback" not in done.stderr
    assert "checks failed" in done.stderr


def test_image_of_another_architecture(as_built: Built, world: World) -> None:
    with as_built.image.open("r+b") as file:
        file.seek(45)
        file.write(b"06\0")
    done = world.run("validate", as_built.image, code=1)
    first, step = done.stdout.splitlines()
    assert first.startswith("FAILED  architecture: ppc64le, wanted ")
    assert step.startswith("        -> ")


def test_odd_recipe_path_is_quoted_for_a_shell(world: World, bare: Path, tmp_path: Path) -> None:
    output = tmp_path / "a b'c"
    text = world.run(*build(bare, output, "--dry-run")).stdout
    (command,) = [
        line for line in text.splitlines() if line.startswith("$ ") and " sif new " in line
    ]
    assert str(output / "bare-1.0-local.sif") in shlex.split(command[2:])
