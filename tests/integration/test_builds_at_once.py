"""Builds of one plan at one moment, and `cache prune` beside them: each image is the right one."""

import json
import subprocess
from pathlib import Path

import pytest

from dlcontainer.system import digests
from tests.integration.world import World

MOMENT = "1790000000"


def building(world: World, recipe: Path, output: Path) -> "subprocess.Popen[str]":
    argv = [*world.program, "build", str(recipe), "--site", "local", "-o", str(output), "--json"]
    return subprocess.Popen(
        argv,
        env=dict(world.environ),
        cwd=world.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def left(*folders: Path) -> list[str]:
    """Name what is hidden, temporary or half made in folders."""
    return [
        str(path)
        for folder in folders
        for path in folder.rglob("*")
        if path.name.startswith((".", "kept-")) or ".new" in path.name
    ]


# Each builds twice; test_steps.py has two builders at once in the short set.
@pytest.mark.long
@pytest.mark.parametrize("together", [False, True])
def test_builds_of_one_plan_beside_a_prune(
    alone: World, stepped: Path, tmp_path: Path, *, together: bool
) -> None:
    """In two folders, or in one; the cache is emptied again and again while they run."""
    world = alone.having(SOURCE_DATE_EPOCH=MOMENT)
    outputs = [tmp_path / "one", tmp_path / ("one" if together else "two")]
    started = [building(world, stepped, output) for output in outputs]
    prunes = 0
    while any(process.poll() is None for process in started):
        world.run("cache", "prune", "--max-size", "0")
        prunes += 1
    said = [process.communicate(timeout=60) for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    assert prunes >= 2
    bodies = [json.loads(stdout) for stdout, _ in said]
    images = [Path(body["image"]) for body in bodies]
    records = [json.loads(Path(body["record"]).read_text()) for body in bodies]
    assert [record["image"]["sha256"] for record in records] == [
        digests.of_file(image) for image in images
    ]
    assert len({digests.of_file(image) for image in images}) == 1
    cache, tmp = Path(world.environ["XDG_CACHE_HOME"]), Path(world.environ["TMPDIR"])
    assert left(cache / "dlcontainer", tmp, *outputs) == []
    # What is kept afterwards gives the same image once more.
    third = world.build(stepped, tmp_path / "three", "--set", "versions.third=1")
    assert third.recorded()["image"]["sha256"] == records[0]["image"]["sha256"]
