import json
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from tests.integration.publish.tools import Shelf, clean_home
from tests.integration.world import Built, World, missing

_LMOD = Path("/usr/share/lmod/lmod/init/bash")


@pytest.fixture(scope="session")
def shelf(
    world: World,
    engine: Apptainer,
    pytorch_image: Built,
    tmp_path_factory: pytest.TempPathFactory,
) -> Shelf:
    """Publish the PyTorch image, once, below a path that needs quoting."""
    folder = tmp_path_factory.mktemp("shelf")
    root = folder / "root's;(one)&#two*"
    site = folder / "lab.yaml"
    site.write_text(
        "schema: 1\nname: local\nsummary: for tests\nfacts: host\ndefault_recipe: pytorch\n"
        f"filesystems: [{{path: {folder}/project, kind: local, purpose: project}}]\n"
        "modules: {pass_environment: [PERL5LIB, R_*]}\n"
    )
    (folder / "project").mkdir()
    done = world.run("publish", pytorch_image.image, "-s", site, "--root", root, "--json")
    body = json.loads(done.stdout)
    assert (body["new"], body["module"]) == (True, "pytorch/2.13.0")
    environ = clean_home(folder)
    # The engine that the tests found, as a user's module would put it on PATH.
    environ["PATH"] = f"{engine.program.parent}:{environ['PATH']}"
    return Shelf(root=Path(root), name="pytorch", version="2.13.0", environ=environ)


@pytest.fixture(scope="session")
def lmod() -> str:
    """Give the shell line that starts Lmod."""
    if not _LMOD.is_file():
        missing("Lmod (Debian's package lmod)")
    return f". {_LMOD}"
