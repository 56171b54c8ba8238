import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.engines import apptainer, capabilities
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.errors import EngineError
from dlcontainer.system import machine
from dlcontainer.system.process import ProcessRunner
from tests.integration.world import (
    STEPPED,
    Built,
    World,
    isolated,
    missing,
    write_bare,
    write_tiny,
    write_wheel,
)

_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def engine() -> Apptainer:
    """Give the real Apptainer, with the programs that builds need beside it."""
    for name in ("mmdebstrap", "mksquashfs", "unsquashfs"):
        if machine.find_program(name, os.environ) is None:
            missing(name)
    try:
        return apptainer.find(os.environ)
    except EngineError:
        missing("Apptainer")


@pytest.fixture(scope="session")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a private folder for unpacked trees: in memory where there is room, as builds do."""
    memory = machine.mount_of(_MEMORY)
    if memory.kind != "tmpfs" or "noexec" in memory.options or machine.free_mb(_MEMORY) < 8000:
        yield tmp_path_factory.mktemp("fast")
        return
    with tempfile.TemporaryDirectory(prefix="dlcontainer-tests-", dir=_MEMORY) as name:
        yield Path(name)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory, engine: Apptainer, fast: Path) -> World:
    """Give a user whose cache all tests of the session share: the base is made once."""
    folder = tmp_path_factory.mktemp("world")
    return isolated(folder, folder / "cache").having(TMPDIR=fast)


@pytest.fixture(scope="session")
def tried(world: World, engine: Apptainer) -> EngineCapabilities:
    """Give what was found out about the engine here."""
    host = machine.read_host(world.environ)
    cache = Path(world.environ["XDG_CACHE_HOME"]) / "dlcontainer"
    return capabilities.require(cache, engine, host, ProcessRunner(environ=world.environ))


@pytest.fixture(scope="session")
def unsquashfs(engine: Apptainer) -> str:
    return str(machine.find_program("unsquashfs", os.environ))


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of a recipe without packages."""
    return write_bare(tmp_path_factory.mktemp("recipes") / "a bare recipe")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of a recipe with a Python and one wheel; `wheels` has the wheel."""
    return write_tiny(tmp_path_factory.mktemp("recipes") / "a tiny recipe")


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with the tiny recipe's wheel."""
    return write_wheel(tmp_path_factory.mktemp("wheels")).parent


@pytest.fixture
def launching(world: World, wheels: Path) -> World:
    """Give a user who may start more ranks than there are cores, as root too."""
    if shutil.which("mpirun") is None:
        missing("openmpi-bin")
    own = {"OMPI_MCA_rmaps_base_oversubscribe": "1"}
    if os.getuid() == 0:
        own |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    found = f"{world.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()
    return world.having(PIP_FIND_LINKS=found, **own)


@pytest.fixture(scope="session")
def tiny_image(world: World, tiny: Path, wheels: Path) -> Built:
    """Build the tiny recipe, once."""
    found = f"{world.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()
    return world.having(PIP_FIND_LINKS=found).build(tiny, world.folder / "tiny image")


@pytest.fixture(scope="session")
def pytorch_image(world: World) -> Built:
    """Build the shipped recipe, once: a minute or more."""
    return world.build("pytorch", world.folder / "real image")


@pytest.fixture
def as_built(tiny_image: Built, tmp_path: Path) -> Built:
    """Give a copy of the tiny image, with its record, to spoil."""
    keys = ("image", "record", "log", "sbom")
    paths = {key: tmp_path / getattr(tiny_image, key).name for key in keys}
    for key, path in paths.items():
        shutil.copyfile(getattr(tiny_image, key), path)
    return Built(body=json.loads(json.dumps(tiny_image.body)), **paths)


@pytest.fixture
def stepped(tmp_path: Path) -> Path:
    folder = tmp_path / "it's stepped"
    folder.mkdir()
    (folder / "recipe.yaml").write_text(STEPPED)
    (folder / "verify.py").write_text("")
    return folder


@pytest.fixture
def alone(world: World, bare: Path, tmp_path: Path) -> World:
    """Give a world with a cache of its own that has the session's base already."""
    cache = tmp_path / "a cache"
    there = Path(world.environ["XDG_CACHE_HOME"]) / "dlcontainer"
    if not list(there.glob("bases/*/base.json")):
        world.build(bare, tmp_path / "for the base")
    shutil.copytree(there, cache / "dlcontainer", ignore=shutil.ignore_patterns("steps", "twins"))
    return isolated(tmp_path / "someone", cache)
