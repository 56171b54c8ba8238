"""What a site asks of an image between its nodes: ways over its fabric, variables that insist."""

from collections.abc import Mapping

from dlcontainer.config.field_types import SiteFabric
from dlcontainer.planning.launch import host_files, surroundings
from dlcontainer.planning.launch.surroundings import ImageFacts
from dlcontainer.sites.site import Site
from dlcontainer.validate.static.questions import StaticQuestions

# By the names of `fabric_signs`; any of them will do. Source: libfabric, fi_cxi(7), fi_psm2(7),
# fi_opx(7), fi_gni(7), fi_verbs(7).
WAYS: Mapping[SiteFabric, frozenset[str]] = {
    "infiniband": frozenset({"verbs"}),
    "omni-path": frozenset({"psm2", "opx"}),
    "slingshot": frozenset({"cxi"}),
    "aries": frozenset({"gni"}),
}
# Words of a site that brings its libfabric into images: a hook's, a file's.
_BRINGS = ("cxi", "libfabric")


def ways(site: Site) -> frozenset[str]:
    """Return the ways that drive a site's fabric; none of a plain or an unknown network."""
    return WAYS.get(site.network.kind, frozenset()) if site.network else frozenset()


def host_brings(site: Site) -> bool:
    """Return whether the site puts a libfabric of its own into images with an MPI."""
    mpi = site.mpi
    if mpi is None:
        return False
    words = (*mpi.flags, *mpi.library_path, *mpi.binds, *host_files.named(mpi), *site.jobs.binds)
    return any(part in word for word in words for part in _BRINGS)


def inside(image: StaticQuestions) -> Mapping[str, str]:
    """Return the variables that are set in the image at the site: its own, and a job's over them.

    Raises what `surroundings.of` raises.
    """
    facts = ImageFacts(uses_mpi=bool(image.mpi_users), environment=image.variables)
    return {**image.variables, **surroundings.of(image.site, facts).inside}
