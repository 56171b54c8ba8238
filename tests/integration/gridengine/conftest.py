from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.gridengine import cell as cells
from tests.integration.gridengine.cell import Cell

# -V: Grid Engine gives a job none of its user's environment unasked, and PATH has the engine.
SITE = """\
schema: 1
name: local
summary: a machine with a Grid Engine, for tests
facts: host
default_recipe: tiny
scheduler:
  kind: gridengine
  directives: ["#$ -V", "#$ -N dlcontainer"EXTRA]
  parallel_environment: {name: mpi, slots_per_node: 2}
"""


@pytest.fixture(scope="session")
def cell() -> Iterator[Cell]:
    """Run a Grid Engine on this machine."""
    with cells.running() as running:
        yield running


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Give this machine's site with Grid Engine."""
    return write_site(tmp_path)


def write_site(folder: Path, *directives: str) -> Path:
    """Write this machine's site with Grid Engine, and further lines of a job's head."""
    path = folder / "lab.yaml"
    path.write_text(SITE.replace("EXTRA", "".join(f', "{line}"' for line in directives)))
    return path
