"""A command that runs while its release is replaced, rolled back, taken back and collected."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.engines.apptainer import Apptainer
from tests.integration.publish.tools import clean_home
from tests.integration.world import Built, World

# What it imports after the switches, it has not read before.
WAITING = "print('ready', flush=True); input(); import dlctiny, decimal; print(dlctiny.ANSWER)"
SITE = """\
schema: 1
name: local
summary: for tests
facts: host
default_recipe: tiny
modules:
  pass_environment: [{passed}]
  after_publish: [sh, -c, 'readlink "$1/current" >> "$1/followed"', sh, {root}]
"""


class Tree:
    """The commands of a tree, by a site with a command after each switch."""

    def __init__(self, world: World, root: Path) -> None:
        self.world, self.root, self.site = world, root, root.parent / "lab.yaml"
        root.mkdir()
        self.facts("PERL5LIB")

    def facts(self, passed: str) -> None:
        self.site.write_text(SITE.format(passed=passed, root=json.dumps(str(self.root))))

    def run(self, *argv: str | Path) -> dict[str, Any]:
        where = ("--site", self.site, "--root", self.root, "--json")
        return dict(json.loads(self.world.run(*argv, *where).stdout))

    def followed(self) -> list[str]:
        return (self.root / "followed").read_text().split()


@pytest.fixture
def tree(world: World, tmp_path: Path) -> Tree:
    return Tree(world, tmp_path / "root's")


def test_a_running_command_goes_on(
    tree: Tree, tiny_image: Built, engine: Apptainer, tmp_path: Path
) -> None:
    first = Path(tree.run("publish", tiny_image.image)["folder"])
    environ = clean_home(tmp_path)
    environ["PATH"] = f"{engine.program.parent}:{environ['PATH']}"
    argv = [str(first / "bin/python"), "-c", WAITING]
    streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(argv, env=environ, cwd=tmp_path, text=True, **streams) as command:
        try:
            assert command.stdout is not None
            assert command.stdout.readline() == "ready\n"
            tree.facts("R_HOME")
            second = Path(tree.run("publish", tiny_image.image)["folder"])
            assert (second / "image.sif").samefile(first / "image.sif")
            assert tree.run("modules", "rollback")["generation"] == 1
            tree.run("modules", "unpublish", "tiny/1.0")
            assert tree.followed() == [f"generations/{number}" for number in (1, 2, 1, 3)]
            collected = tree.run("modules", "gc", "--keep", "0")
            assert collected["removed"] == ["generations/1", "generations/2"]
            kept = {one["path"]: one["why"] for one in collected["kept"]}
            assert "a process on this host has" in kept[f"releases/{first.name}"]
            said, errors = command.communicate("\n", timeout=120)
        finally:
            command.kill()
    assert (said, errors, command.returncode) == ("42\n", "", 0)
    gone = tree.run("modules", "gc", "--keep", "0")["removed"]
    assert sorted(gone) == sorted(f"releases/{path.name}" for path in (first, second))
    assert list((tree.root / "releases").iterdir()) == []
