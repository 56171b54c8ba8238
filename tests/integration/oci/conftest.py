import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dlcontainer.engines import oci_socket
from dlcontainer.engines.docker import SdkClient
from dlcontainer.engines.oci import OCI_KINDS
from tests.integration import registries
from tests.integration.oci import daemons
from tests.integration.oci.daemons import Service
from tests.integration.test_leaks import WHEELS, plant
from tests.integration.world import Built, World


def one_engine(kind: str) -> pytest.MarkDecorator:
    """Try with one engine what is much the same with both; the other is among the long tests."""
    kinds = [pytest.param(own, marks=() if own == kind else pytest.mark.long) for own in OCI_KINDS]
    return pytest.mark.parametrize("service", kinds, indirect=True, scope="session")


@dataclass(frozen=True, kw_only=True, slots=True)
class Builder:
    """A user who builds with an engine, on the command line."""

    service: Service
    user: World
    settings: tuple[str, ...] = ()

    @property
    def world(self) -> World:
        """The user, with the engine's socket."""
        return self.user.having(**self.service.variables)

    def options(self, *more: str) -> tuple[str, ...]:
        """Give the options that every build has."""
        sets = (word for setting in self.settings for word in ("--set", setting))
        return ("--engine", self.service.kind, *sets, *more)

    def build(self, recipe: Path, output: Path, *more: str) -> Built:
        return self.world.build(recipe, output, *self.options(*more))


@pytest.fixture(scope="session", params=OCI_KINDS)
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """Run Docker, then Podman."""
    with daemons.running(request.param) as running:
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[SdkClient]:
    """Connect to the engine."""
    connected = oci_socket.connect(service.kind, service.variables, os.getuid())
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
    return Builder(service=service, user=planted, settings=(wheels,))


@pytest.fixture(scope="session")
def plain(builder: Builder, world: World) -> Builder:
    """Give an ordinary user with the same engine."""
    return replace(builder, user=world, settings=())


@pytest.fixture(scope="session")
def built(builder: Builder, tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build the tiny recipe to a SIF, by way of a docker-archive."""
    # All tests share the engine's store: another user may have kept these steps.
    return builder.build(tiny, tmp_path_factory.mktemp(builder.service.kind), "--no-cache")


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a registry on loopback; give HOST:PORT."""
    with registries.running(tmp_path_factory.mktemp("registry")) as address:
        yield address
