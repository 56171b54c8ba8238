import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.engines import oci_connect
from dlcontainer.engines.oci import OCI_KINDS
from dlcontainer.engines.oci_client import SdkClient
from tests.integration import registries
from tests.integration.oci import daemons
from tests.integration.oci.daemons import Service
from tests.integration.test_leaks import WHEELS, plant
from tests.integration.world import World
from tests.values import ROOT


@dataclass(frozen=True, kw_only=True, slots=True)
class Builder:
    """A user who builds with an engine, through the driver, in a process of its own."""

    service: Service
    world: World
    settings: tuple[str, ...] = ()

    def argv(self, recipe: Path, output: Path, **order: object) -> list[str]:
        body = {"kind": self.service.kind, "recipe": str(recipe), "output": str(output), **order}
        text = json.dumps({**body, "settings": self.settings})
        return [sys.executable, "-m", "tests.integration.oci.driver", text]

    def environ(self) -> dict[str, str]:
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        return {**self.world.environ, **self.service.variables, "PYTHONPATH": path}

    def build(self, recipe: Path, output: Path, **order: object) -> dict[str, Any]:
        done = subprocess.run(
            self.argv(recipe, output, **order),
            env=self.environ(),
            cwd=self.world.folder,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))


@pytest.fixture(scope="session", params=OCI_KINDS)
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """Run Docker, then Podman."""
    with daemons.running(request.param) as running:
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[SdkClient]:
    """Connect to the engine."""
    connected = oci_connect.connect(service.kind, service.variables, os.getuid())
    yield connected
    connected.close()


@pytest.fixture(scope="session")
def planted(world: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Give a user whose way to the outside would be seen wherever it got."""
    own = plant(world, tmp_path_factory.mktemp("planted"))
    scratch = own.folder / "planted scratch"
    scratch.mkdir()
    return own.having(TMPDIR=scratch)


@pytest.fixture(scope="session")
def builder(service: Service, planted: World) -> Builder:
    """Give the planted user with an engine."""
    wheels = f"site.routing.wheels=[{planted.folder / WHEELS}]"
    return Builder(service=service, world=planted, settings=(wheels,))


@pytest.fixture(scope="session")
def plain(builder: Builder, world: World) -> Builder:
    """Give an ordinary user with the same engine."""
    return replace(builder, world=world, settings=())


@pytest.fixture(scope="session")
def built(builder: Builder, tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Build the tiny recipe to a SIF, by way of a docker-archive."""
    # All tests share the engine's store: another user may have kept these steps.
    return builder.build(tiny, tmp_path_factory.mktemp(builder.service.kind), fresh=True)


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a registry on loopback; give HOST:PORT."""
    with registries.running(tmp_path_factory.mktemp("registry")) as address:
        yield address
