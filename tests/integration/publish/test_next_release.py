"""A fix of a published image: built again, published as the next release, rolled back."""

import shutil
import subprocess
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from tests.integration.publish.tools import Shelf, clean_home, in_shell, program
from tests.integration.world import Built, World

# What the first image has not: it stands for the fixed package.
_FIX = '  - {name: fix, shell: "echo fixed > /opt/fix"}\n'
_ASKED = 'import os; print(os.environ["DLCONTAINER_RELEASE"], os.path.exists("/opt/fix"))'
_TELL = f"python -c '{_ASKED}'"
_LOADING = """
module use "$USE"
n=0
until [ -e "$STOP" ]; do
    for m in tiny tiny/1.0 tiny/1.0-1; do
        module load $m || echo "FAILED $m"
        [ -x "$(type -P python)" ] || echo "FAILED $m: no python"
        module unload tiny
        n=$((n + 1))
    done
done
echo "$n loads"
"""


@pytest.fixture
def fixed(world: World, tiny: Path, wheels: Path, tmp_path: Path) -> Built:
    """Build the tiny recipe with its fix."""
    folder = tmp_path / "fixed"
    shutil.copytree(tiny, folder)
    recipe = folder / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("exposes:", f"{_FIX}exposes:"))
    found = f"{world.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()
    return world.having(PIP_FIND_LINKS=found).build(folder, tmp_path / "fixed image")


@pytest.fixture
def shelf(world: World, engine: Apptainer, tiny_image: Built, tmp_path: Path) -> Shelf:
    """Publish the image with the hole, and mark it."""
    root = tmp_path / "root"
    world.run("publish", tiny_image.image, "--site", "local", "--root", root)
    world.run("modules", "default", "tiny/1.0", "--root", root)
    environ = clean_home(tmp_path)
    environ["PATH"] = f"{engine.program.parent}:{environ['PATH']}"
    return Shelf(root=root, name="tiny", version="1.0", environ=environ)


def told(shelf: Shelf, lmod: str, module: str) -> str:
    """Load a module and ask its image which release it is, and whether it has the fix."""
    return in_shell(shelf, (lmod, "lmod"), f"module load {module} && {_TELL}").strip()


def test_a_fix_reaches_users_without_a_gap(
    world: World, shelf: Shelf, fixed: Built, lmod: str, tmp_path: Path
) -> None:
    refused = world.run("publish", fixed.image, "-s", "local", "--root", shelf.root, code=6)
    assert "--release" in refused.stderr
    stop = tmp_path / "stop"
    bash = program("bash", "bash")
    use = {"USE": f"{shelf.root}/modules/lmod", "STOP": str(stop)}
    with subprocess.Popen(
        [bash, "--norc", "-c", f"{lmod}\nexec 2>&1\n{_LOADING}"],
        env={**shelf.environ, **use},
        stdout=subprocess.PIPE,
        text=True,
    ) as loading:
        try:
            assert told(shelf, lmod, "tiny") == "tiny/1.0-1 False"
            done = world.run(
                "publish", fixed.image, "-s", "local", "--root", shelf.root, "--release"
            )
            assert "module load tiny/1.0   # release 2: tiny/1.0-2" in done.stdout
            for module in ("tiny", "tiny/1.0", "tiny/1.0-2"):
                assert told(shelf, lmod, module) == "tiny/1.0-2 True"
            assert told(shelf, lmod, "tiny/1.0-1") == "tiny/1.0-1 False"
            world.run("modules", "rollback", "--root", shelf.root)
            assert told(shelf, lmod, "tiny") == "tiny/1.0-1 False"
        finally:
            stop.touch()
        said = loading.communicate(timeout=120)[0]
    assert "FAILED" not in said, said
    assert int(said.split()[-2]) > 0
    listed = world.run("modules", "history", "--root", shelf.root).stdout
    assert "publish tiny/1.0-2" in listed
