"""A site and a recipe on disk, to be settled: what goes, what is refused, what is in doubt."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import MisfitError
from dlcontainer.planning import conflicts
from dlcontainer.planning.plan import Plan
from dlcontainer.sites import loading
from dlcontainer.sites.site import USUAL, SiteTarget
from tests.values import HOST, SITE, folder_of, plan_of, write_yaml

GPU = {"vendor": "nvidia", "model": "a GPU", "per_node": 4}
GROUPS = ("os", "cpu", "accelerator", "network", "mpi", "jobs")
MPI = {"family": "openmpi", "name": "Open MPI 4.1.4"}


def settle(
    tmp_path: Path, site: dict[str, Any], target: SiteTarget = USUAL, /, **recipe: Any
) -> Plan:
    """Settle a recipe at a site, both written to files first."""
    facts = {
        key: {"sources": ["made-up"], **value} if key in GROUPS else value
        for key, value in site.items()
    }
    path = write_yaml(tmp_path / "site.yaml", {**SITE, "sources": {"made-up": "a test"}, **facts})
    loaded = loading.load(
        path,
        files=loading.SiteFiles(display=lambda path: path.name, find=path.with_name),
        overrides=None,
        host=HOST,
        target=target,
    )
    return plan_of(folder_of(tmp_path, **recipe), site=loaded)


def refused(tmp_path: Path, site: dict[str, Any], /, **recipe: Any) -> str:
    """Give the words with which a recipe is refused at a site."""
    with pytest.raises(MisfitError) as caught:
        settle(tmp_path, site, **recipe)
    return str(caught.value)


def doubted(tmp_path: Path, site: dict[str, Any], /, **recipe: Any) -> list[str]:
    """Give what the plan of a recipe that is not refused says it can't promise."""
    plan = settle(tmp_path, site, **recipe)
    said = list(conflicts.doubts(plan.site, plan.recipe))
    assert set(said) <= set(plan.notes)
    return said
