"""`build --refresh` with the real engine, apt and mmdebstrap, on a signed repository of our own."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.packages import lockfile
from dlcontainer.system import digests
from tests import aptrepo
from tests.aptrepo import Repository
from tests.integration.test_emulation import sources
from tests.integration.world import World, isolated
from tests.processes import files_below, poll
from tests.skips import skip

RECIPE = """\
schema: 1
name: holed
version: "1.0"
summary: A package with a hole, for tests
space_mb: 300
base: {distribution: debian, release: bookworm}
prefix: /opt/holed
steps:
  - {name: before, shell: "echo one > /opt/before; sleep 2"}
  - {name: system, os_packages: [dlctool]}
  - {name: after, shell: "cat /opt/dlchole.txt > /opt/after; sleep 2"}
exposes: [sh]
verify: {script: verify.py}
"""


@dataclass(frozen=True)
class Bench:
    """A user with a recipe, whose site knows Debian's mirror and our repository."""

    world: World
    recipe: Path
    repository: Repository
    site: str

    def argv(self, output: Path, *more: str) -> list[str]:
        words = ["build", str(self.recipe), "--site", "local", "-o", str(output)]
        return [*words, "--set", self.site, *more]

    def build(self, output: Path, *more: str, code: int = 0) -> dict[str, Any]:
        done = self.world.run(*self.argv(output, "--json", *more), code=code)
        return dict(json.loads(done.stdout)) if code == 0 else {"said": done.stderr}

    def inside(self, output: Path, path: str) -> str:
        """Read a small file of the image."""
        image = next(output.glob("*.sif"))
        done = self.world.run("inspect", image, "--json")
        assert json.loads(done.stdout)
        argv = ["apptainer", "exec", "--userns", str(image), "cat", path]
        run = subprocess.run(
            argv, env=dict(self.world.environ), capture_output=True, text=True, check=True
        )
        return run.stdout.strip()


def asked(bench: Bench, output: Path, code: int) -> dict[str, Any]:
    """Ask whether anything is newer; nothing is another after it, here and in the TMPDIR."""

    def listing() -> list[tuple[str, int]]:
        folders = (output, Path(bench.world.environ["TMPDIR"]))
        paths = (path for folder in folders for path in folder.rglob("*"))
        return sorted((str(path), path.stat().st_mtime_ns) for path in paths)

    before = listing()
    words = bench.argv(output, "--refresh", "os", "--dry-run", "--json")
    body = json.loads(bench.world.run(*words, code=code).stdout)
    assert listing() == before
    return dict(body)


def steps(body: dict[str, Any]) -> dict[str, bool]:
    """Tell of each step of an image whether it was taken from the cache."""
    work = json.loads(Path(body["record"]).read_text())["work"]
    return {step["name"]: step["seconds"] is None for step in work}


@pytest.fixture
def bench(tmp_path: Path, engine: Apptainer) -> Iterator[Bench]:
    listed = sources("bookworm")
    if not listed:
        skip("the host has no mirror of Debian's", elsewhere="Debian or Ubuntu")
    recipe = tmp_path / "recipe"
    recipe.mkdir()
    (recipe / "recipe.yaml").write_text(RECIPE)
    (recipe / "verify.py").write_text("")
    world = isolated(tmp_path / "user", tmp_path / "cache").having(no_proxy="127.0.0.1")
    with aptrepo.serving(tmp_path) as repository:
        repository.offer("dlchole", "1.0-1")
        repository.offer("dlctool", "3.0", "dlchole")
        repository.publish()
        lines = json.dumps([listed[0], repository.line])
        yield Bench(world, recipe, repository, f"site.routing.apt={lines}")


def test_a_hole_is_closed(bench: Bench, tmp_path: Path) -> None:
    output = tmp_path / "images"
    first = bench.build(output)
    assert first["refresh"] is None
    assert asked(bench, output, code=0)["packages"] == []
    # Nothing newer: the same image, and the mirror's state is named.
    same = bench.build(output, "--refresh", "os")
    assert (same["found"], same["sha256"]) == (True, first["sha256"])
    assert same["refresh"]["newer"] is False
    assert f"Tests {aptrepo.SUITE} {aptrepo.DATE}" in same["refresh"]["mirror"]
    # The fix is out. A plain build knows nothing of it.
    bench.repository.offer("dlchole", "1.0-2", size=4_000_000)
    bench.repository.withdraw("dlchole", "1.0-1")
    bench.repository.publish("Sat, 03 Jan 2026 00:00:00 UTC")
    assert bench.build(output)["found"] is True
    newer = asked(bench, output, code=1)
    (move,) = newer["packages"]
    assert move == {"name": "deb:dlchole", "before": "1.0-1", "after": "1.0-2"}
    assert (newer["newer"], newer["sha256_before"]) == (True, first["sha256"])
    fixed = bench.build(output, "--refresh", "os")
    assert fixed["found"] is False
    (change,) = (c for c in fixed["refresh"]["packages"] if c["name"] == "deb:dlchole")
    assert (change["before"], change["after"]) == ("1.0-1", "1.0-2")
    assert change["size_after"] - change["size_before"] > 3_900_000
    assert steps(fixed) == {"before": True, "system": False, "after": False, "image": False}
    assert bench.inside(output, "/opt/after") == "1.0-2"
    record = json.loads(Path(fixed["record"]).read_text())
    assert record["refresh"]["asked_at"] == fixed["refresh"]["asked_at"]
    assert asked(bench, output, code=0)["newer"] is False
    # Builds go on from there, in this folder and in another, with the dates of what they take.
    assert bench.build(output)["sha256"] == fixed["sha256"]
    other = tmp_path / "elsewhere"
    again = bench.build(other)
    assert bench.inside(other, "/opt/after") == "1.0-2"
    assert steps(again)["after"] is True


def test_packed_again_where_nothing_is_newer(bench: Bench, tmp_path: Path) -> None:
    """Another level packs the same packages, and the image's level stays where none is typed."""
    output = tmp_path / "images"
    bench.build(output)
    packed = bench.build(output, "--refresh", "os", "--level", "9")
    assert (packed["found"], packed["refresh"]["newer"]) == (False, False)
    assert steps(packed) == {"before": True, "system": True, "after": True, "image": False}
    record = json.loads(Path(packed["record"]).read_text())
    assert record["refresh"]["asked_at"] == packed["refresh"]["asked_at"]
    assert record["refresh"]["steps"] == {}
    assert "9" in record["engine"]["squash"]
    same = bench.build(output, "--refresh", "os")
    assert (same["found"], same["sha256"]) == (True, packed["sha256"])
    bench.repository.offer("dlchole", "1.0-2")
    bench.repository.publish("Sat, 03 Jan 2026 00:00:00 UTC")
    fixed = bench.build(output, "--refresh", "os")
    assert "9" in json.loads(Path(fixed["record"]).read_text())["engine"]["squash"]
    assert bench.inside(output, "/opt/after") == "1.0-2"


@pytest.mark.long  # two bases each; test_a_hole_is_closed has the usual road
def test_two_at_once_and_one_that_is_killed(bench: Bench, tmp_path: Path) -> None:
    output = tmp_path / "images"
    first = bench.build(output)
    bench.repository.offer("dlchole", "1.0-2")
    bench.repository.publish("Sat, 03 Jan 2026 00:00:00 UTC")
    argv = [*bench.world.program, *bench.argv(output, "--refresh", "os", "--json")]

    def begin() -> "subprocess.Popen[str]":
        return subprocess.Popen(
            argv,
            env=dict(bench.world.environ),
            cwd=bench.world.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    killed = begin()
    assert poll(lambda: bool(files_below(output, "/build.log")), 300)
    killed.kill()
    killed.communicate(timeout=60)
    # The old image, whole, until one is done.
    image = Path(first["image"])
    assert digests.of_file(image) == first["sha256"]
    started = [begin(), begin()]
    bodies = [json.loads(one.communicate(timeout=900)[0]) for one in started]
    assert [one.returncode for one in started] == [0, 0]
    record = json.loads(Path(first["record"]).read_text())
    assert record["image"]["sha256"] == digests.of_file(image)
    assert record["image"]["sha256"] in {body["sha256"] for body in bodies}
    assert bench.inside(output, "/opt/after") == "1.0-2"
    assert [path.name for path in output.iterdir() if path.name.startswith(".")] == []


@pytest.mark.long  # two bases; test_a_lock_takes_one_package_newer has the update
def test_a_lock_is_updated_beside_its_build(bench: Bench, tmp_path: Path) -> None:
    """The build under way keeps the packages that it began with; the next takes the newer ones."""
    output, lock = tmp_path / "images", tmp_path / "a.lock.json"
    argv = ("lock", bench.recipe, "--site", "local", "--set", bench.site, "-o", lock)
    bench.world.run(*argv)
    words = bench.argv(output, "--locked", str(lock), "--json")
    with subprocess.Popen(
        [*bench.world.program, *words],
        env=dict(bench.world.environ),
        cwd=bench.world.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as building:
        assert poll(lambda: bool(files_below(output, "/build.log")), 300)
        # The mirror keeps the old one: a build that is not done may still fetch it.
        bench.repository.offer("dlchole", "1.0-2")
        bench.repository.publish("Sat, 03 Jan 2026 00:00:00 UTC")
        bench.world.run(*argv, "--update", "dlchole")
        body = json.loads(building.communicate(timeout=900)[0])
    assert bench.inside(output, "/opt/after") == "1.0-1"
    newer = bench.build(output, "--locked", str(lock))
    assert bench.inside(output, "/opt/after") == "1.0-2"
    assert (newer["found"], body["found"]) == (False, False)
    digests_of = [body["age"]["lock"], newer["age"]["lock"]]
    assert digests_of[1] == lockfile.read(lock).digest
    assert digests_of[0] != digests_of[1]


def test_a_lock_takes_one_package_newer(bench: Bench, tmp_path: Path) -> None:
    offer, lock = bench.repository.offer, tmp_path / "a.lock.json"
    offer("dlcother", "1.0")
    bench.repository.publish()
    text = RECIPE.replace("[dlctool]", "[dlctool, dlcother]")
    (bench.recipe / "recipe.yaml").write_text(text)
    argv = ("lock", bench.recipe, "--site", "local", "--set", bench.site, "-o", lock)
    bench.world.run(*argv)
    before = lock.read_bytes()
    offer("dlchole", "1.0-2", "dlcnew")
    offer("dlcnew", "0.1")
    offer("dlcother", "2.0")
    bench.repository.withdraw("dlchole", "1.0-1")
    bench.repository.publish("Sat, 03 Jan 2026 00:00:00 UTC")
    said = bench.world.run(*argv, "--update", "dlchol", code=3).stderr
    assert "no package 'dlchol' in the lock; did you mean 'dlchole'?" in said
    assert lock.read_bytes() == before
    body = json.loads(bench.world.run(*argv, "--update", "dlchole", "--json").stdout)
    step = {"part": "step system"}
    assert body["changes"] == [
        {**step, "name": "dlchole", "old": "1.0-1", "new": "1.0-2"},
        {**step, "name": "dlcnew", "old": None, "new": "0.1"},
    ]
    assert json.loads(
        bench.world.run("lock", "--check", lock, *argv[1:6], "--json", code=1).stdout
    )["changes"] == [{**step, "name": "dlcother", "old": "1.0", "new": "2.0"}]
    done = bench.world.run(*argv, "--update", "all")
    assert "dlcother" in done.stdout
    assert bench.world.run(*argv, "--update", "dlcother").stdout == "nothing changed\n"
