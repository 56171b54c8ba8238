"""A rendered folder builds with the engines alone: `render --with-base` wrote all that it takes."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import BUILD_MODES, Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from tests.integration.oci.conftest import one_engine
from tests.integration.oci.daemons import Service
from tests.integration.world import World, missing

# A package of the distribution, so that apt works in the steps too.
RECIPE = """\
schema: 1
name: alone
version: "1.0"
summary: it's "quoted" $HOME `x`
space_mb: 300
base: {distribution: debian, release: bookworm}
prefix: /opt/alone
steps:
  - name: system
    os_packages: [python3-venv]
  - name: environment
    native: true
    shell: /usr/bin/python3 -m venv --without-pip "$prefix"
exposes: [python]
environment: {QUOTED: "a b'c"}
verify: {script: verify.py}
"""
VERIFY = """\
import json, os
right = os.environ["QUOTED"] == "a b'c"
print(json.dumps({"ok": right, "what": "proof"}))
"""


@pytest.fixture(scope="module")
def rendered(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Render the folder; what made it is gone then."""
    recipe = tmp_path_factory.mktemp("recipe") / "alone"
    recipe.mkdir()
    (recipe / "recipe.yaml").write_text(RECIPE)
    (recipe / "verify.py").write_text(VERIFY)
    folder = tmp_path_factory.mktemp("carried") / "it's here"
    world.run("render", recipe, "--site", "local", "--with-base", "-o", f"{folder}/")
    shutil.rmtree(recipe)
    return folder


def by_hand(argv: list[str], folder: Path, **variables: str) -> None:
    """Run an engine as somebody would who has no dlcontainer."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), **variables}
    done = subprocess.run(
        argv, cwd=folder, env=environ, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def check(world: World, image: Path) -> None:
    body = json.loads(world.run("validate", image, "--json").stdout)
    states = {one["name"]: one["state"] for one in body["checks"]}
    assert states.pop("record") == "not tried"
    assert set(states.values()) == {"ok"}
    assert {"manifest", "labels", "verify", "no leftovers", "host stays out"} <= set(states)


@pytest.mark.long
def test_apptainer(
    world: World, rendered: Path, engine: Apptainer, tried: EngineCapabilities, tmp_path: Path
) -> None:
    """With apt; the short set has test_build's test_rendered_text_builds_by_hand, without."""
    image = tmp_path / "alone.sif"
    mode = BUILD_MODES[str(tried.build_mode)]
    argv = [str(engine.program), "build", *mode, str(image), "apptainer.def"]
    by_hand(argv, rendered, APPTAINER_TMPDIR=world.environ["TMPDIR"])
    check(world, image)


def test_without_the_base(
    rendered: Path, engine: Apptainer, tried: EngineCapabilities, tmp_path: Path
) -> None:
    shutil.copyfile(rendered / "apptainer.def", tmp_path / "apptainer.def")
    mode = BUILD_MODES[str(tried.build_mode)]
    done = subprocess.run(
        [str(engine.program), "build", *mode, "x.sif", "apptainer.def"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert f"apptainer.def: no base.sqfs in {tmp_path}\n" in done.stderr
    assert "dlcontainer render --with-base -o FOLDER/" in done.stderr
    assert not (tmp_path / "x.sif").exists()


@pytest.mark.long
@one_engine("docker")
def test_dockerfile(
    service: Service,
    world: World,
    rendered: Path,
    engine: Apptainer,
    tried: EngineCapabilities,
    tmp_path: Path,
) -> None:
    program = shutil.which(service.kind)
    if program is None:
        missing(service.kind)
    call = [program, *(["--remote"] if service.kind == "podman" else [])]
    # --network: the tests' own engine has no bridge.
    build = ["build", "--network", "host", "-t", "alone:1.0", "."]
    variables = {**service.variables, "DOCKER_BUILDKIT": "0"}
    by_hand([*call, *build], rendered, **variables)
    archive, image = tmp_path / "alone.tar", tmp_path / "alone.sif"
    by_hand([*call, "save", "-o", str(archive), "alone:1.0"], rendered, **variables)
    mode = BUILD_MODES[str(tried.build_mode)]
    argv = [str(engine.program), "build", *mode, str(image), f"docker-archive:{archive}"]
    by_hand(argv, rendered, APPTAINER_TMPDIR=world.environ["TMPDIR"])
    check(world, image)


def test_the_folder_arrived(rendered: Path) -> None:
    by_hand(["sha256sum", "--quiet", "--check", "RENDERED-BY-DLCONTAINER"], rendered)
