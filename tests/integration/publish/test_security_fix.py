"""A hole in a package of three published images of five: found, closed, and back, with no gap."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from tests import aptrepo
from tests.integration.publish.tools import clean_home, program
from tests.integration.test_emulation import sources
from tests.integration.world import World, isolated
from tests.processes import poll
from tests.skips import skip
from tests.unit.vulnerabilities.cases import affected, record

RECIPE = """\
schema: 1
name: {name}
version: "1.0"
summary: A Python and a package of ours, for tests
space_mb: 300
base: {{distribution: debian, release: bookworm}}
prefix: /opt/{name}
steps:
  - {{name: system, os_packages: [python3, python3-venv, {package}]}}
  - {{name: wheel, python_packages: {{packages: [dlctiny==1.0]}}}}
exposes: [python]
verify: {{script: verify.py, imports: {{dlctiny: "1.0"}}}}
"""
VERIFY = """\
import json
print(json.dumps({"ok": True, "what": "nothing"}))
"""
HOLED, SOUND = ("net-a", "net-b", "net-c"), ("plain-d", "plain-e")
LEAST_LOADS = 500
# Each look at a module is two loads: what users name, and the version.
LOADING = """
module use "$USE"
n=0
until [ -e "$STOP" ]; do
    for m in net-a net-b net-c plain-d; do
        module load $m || echo "FAILED $m"
        [ -x "$(type -P python)" ] || echo "FAILED $m: no python"
        module unload $m
        module load $m/1.0 || echo "FAILED $m/1.0"
        module unload $m
        n=$((n + 2))
        echo $n > "$COUNT"
    done
done
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Centre:
    """Staff with five published images, and a mirror of their own beside Debian's."""

    world: World
    folder: Path
    repository: aptrepo.Repository
    site: str

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def build(self, name: str, *more: str) -> Path:
        recipe = self.folder / name
        argv = ("build", recipe, "--site", "local", "-o", self.folder / "images", "--json")
        body = json.loads(self.world.run(*argv, "--set", self.site, *more).stdout)
        return Path(body["image"])

    def publish(self, image: Path, *more: str) -> None:
        self.world.run("publish", image, "--site", "local", "--root", self.root, *more)

    def modules(self, *argv: str | Path, code: int = 0) -> str:
        return self.world.run("modules", *argv, "--root", self.root, code=code).stdout

    def inside(self, image: Path) -> str:
        argv = ["apptainer", "exec", "--userns", str(image), "cat", "/opt/dlchole.txt"]
        environ = dict(self.world.environ)
        run = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True)
        return run.stdout.strip()


@pytest.fixture
def centre(tmp_path: Path, engine: Apptainer, wheels: Path) -> Iterator[Centre]:
    listed = sources("bookworm")
    if not listed:
        skip("the host has no mirror of Debian's", elsewhere="Debian or Ubuntu")
    user = isolated(tmp_path / "user", tmp_path / "cache").having(no_proxy="127.0.0.1")
    world = user.having(PIP_FIND_LINKS=f"{user.environ.get('PIP_FIND_LINKS', '')} {wheels}")
    for name in (*HOLED, *SOUND):
        (tmp_path / name).mkdir()
        package = "dlchole" if name in HOLED else "dlcsound"
        (tmp_path / name / "recipe.yaml").write_text(RECIPE.format(name=name, package=package))
        (tmp_path / name / "verify.py").write_text(VERIFY)
    with aptrepo.serving(tmp_path) as repository:
        repository.offer("dlchole", "1.0-1")
        repository.offer("dlcsound", "1.0-1")
        repository.publish()
        lines = json.dumps([listed[0], repository.line])
        made = Centre(
            world=world,
            folder=tmp_path,
            repository=repository,
            site=f"site.routing.apt={lines}",
        )
        for name in (*HOLED, *SOUND):
            made.publish(made.build(name))
            made.modules("default", f"{name}/1.0")
        yield made


def advisory(folder: Path) -> Path:
    """Write a record of our own about the package, as OSV's schema has it."""
    database = folder / "osv"
    database.mkdir()
    events = ({"introduced": "0"}, {"fixed": "1.0-2"})
    body = record("x_MADE-hole", affected("Debian:12", "dlchole", *events))
    (database / "x_MADE-hole.json").write_text(json.dumps(body))
    return database


@contextmanager
def users_who_load(centre: Centre, lmod: str) -> Iterator[Path]:
    """Load and unload modules beside what runs, until the end; no load may fail."""
    count, stop = centre.folder / "count", centre.folder / "stop"
    environ = clean_home(centre.folder / "a user")
    environ |= {"USE": f"{centre.root}/modules/lmod", "STOP": str(stop), "COUNT": str(count)}
    argv = [program("bash", "bash"), "--norc", "-c", f"{lmod}\nexec 2>&1\n{LOADING}"]
    with subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, text=True) as loading:
        try:
            yield count
        finally:
            stop.touch()
        said = loading.communicate(timeout=300)[0]
    assert "FAILED" not in said, said[-2000:]


def loads(count: Path) -> int:
    return int(count.read_text() or 0) if count.exists() else 0


@pytest.mark.long  # five images and three rebuilds; test_next_release.py has one
@pytest.mark.timeout(2400)
def test_a_hole_in_three_of_five(centre: Centre, lmod: str) -> None:
    database = advisory(centre.folder)

    def concerned() -> set[str]:
        found = json.loads(centre.modules("find", "--osv", database, "--json", code=0))
        live = (match for match in found["matches"] if match["live"])
        return {module for match in live for module in match["modules"]}

    assert {name.partition("/")[0] for name in concerned()} == set(HOLED)
    centre.repository.offer("dlchole", "1.0-2")
    centre.repository.withdraw("dlchole", "1.0-1")
    centre.repository.publish("Sat, 03 Jan 2026 00:00:00 UTC")
    with users_who_load(centre, lmod) as count:
        for name in HOLED:
            image = centre.build(name, "--refresh", "os")
            assert centre.inside(image) == "1.0-2"
            centre.world.run("validate", image, "--site", "local")
            centre.publish(image, "--release")
        fixed = loads(count)
        assert poll(lambda: loads(count) >= LEAST_LOADS, 900)
        listed = json.loads(centre.modules("list", "--json"))["modules"]
        newest = {one["module"]: one["number"] for one in listed if one["newest"]}
        assert [newest[f"{name}/1.0"] for name in (*HOLED, *SOUND)] == [2, 2, 2, 1, 1]
        assert {name for name in concerned() if name.endswith("/1.0")} == set()
        for _ in HOLED:
            centre.modules("rollback")
        assert {f"{name}/1.0" for name in HOLED} <= concerned()
        back = loads(count)
        assert poll(lambda: loads(count) > back, 300)
    assert fixed > 0
