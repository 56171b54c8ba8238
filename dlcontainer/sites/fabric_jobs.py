"""What surrounds a site's jobs so that collectives use the fabric: from `collectives`.

As the request for accelerators is (`gpu_jobs`): what the site's own `jobs` say wins.
"""

from collections.abc import Iterator, Mapping

from dlcontainer.config import KeyPath, SelectedDocument, dotted
from dlcontainer.config.field_types import Vendor
from dlcontainer.errors import ConfigError
from dlcontainer.sites import collectives
from dlcontainer.sites.site import Site

_NO_FABRIC = ("ethernet",)
_LIBRARIES: Mapping[Vendor, str] = {"nvidia": "NCCL", "amd": "RCCL", "intel": "oneCCL"}


def settle(site: Site) -> Site:
    """Return the site whose jobs set and bind what its collectives need."""
    facts, jobs = site.collectives, site.jobs
    inside = {**facts.inside, **jobs.inside}
    if inside == jobs.inside and not facts.binds:
        return site
    binds = (*(bind for bind in facts.binds if bind not in jobs.binds), *jobs.binds)
    changed = jobs.model_copy(update={"inside": inside, "binds": binds})
    return site.model_copy(update={"jobs": changed})


def plugin(site: Site, *, uses_mpi: bool = False) -> collectives.PlugIn:
    """Return who brings an image the plug-in for the fabric, else what the kind of network says."""
    if uses_mpi and site.collectives.without_mpi:
        return "none"
    is_known = site.network is not None and site.network.kind == "infiniband"
    return site.collectives.plugin or ("own" if is_known else "none")


def said(site: Site, *, uses_mpi: bool = False) -> str | None:
    """Say what collectives of a site's GPUs use between nodes; None where nothing is to be said."""
    network, gpu = site.network, site.accelerator
    if gpu is None or network is None or network.kind in _NO_FABRIC:
        return None
    brings, ccl = plugin(site, uses_mpi=uses_mpi), _LIBRARIES[gpu.vendor]
    return collectives.said(brings, site.collectives, network.model, ccl)


def require_brought(site: SelectedDocument[Site]) -> None:
    """Refuse a variable that names a plug-in or a provider which nothing at the site brings."""
    if plugin(site.value) in collectives.BRINGING:
        return
    for path, names in _variables(site.value):
        for name in collectives.NEEDING:
            if name in names:
                raise ConfigError(
                    f"{dotted((*path, name))}: nothing at this site brings what it names",
                    where=site.document.origin((*path, name)).where,
                    why="NCCL ends, and libfabric finds no device, where it is not there",
                    next_step="say who brings it by collectives.plugin: host, image or hook; or "
                    "leave the variable out",
                )


def _variables(site: Site) -> Iterator[tuple[KeyPath, set[str]]]:
    yield ("collectives", "environment"), set(site.collectives.environment)
    yield ("jobs", "inside"), set(site.jobs.inside)
    yield ("jobs", "environment"), set(site.jobs.environment)
    yield ("environment",), set(site.environment)
