"""The image's MPI against the site's: its family, and the network that it is built for."""

from collections.abc import Iterator

from dlcontainer.planning.compatibility import FABRIC_DRIVERS, MPI_FAMILIES, MPI_SOURCE
from dlcontainer.planning.conflicts.model import Contradiction, Doubt, Finding
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.sites.site import Site


def other_family(site: Site, recipe: Recipe) -> Iterator[Finding]:
    """Refuse an MPI of another family than the host's, where that takes its place."""
    inside, host = recipe.stack.mpi, site.mpi
    if inside is None:
        return
    if host is None:
        yield Doubt(
            text="the site's MPI is unknown: no promise that the image's works across nodes"
        )
    elif host.mode != "container" and inside.family != host.family:
        how = {
            "swap": "the host's takes the place of the image's at run time",
            "compile": "the image is compiled against the host's",
        }[host.mode]
        yield Contradiction(
            what=f"the image's {inside.name} is of the family {inside.family}, the site's "
            f"{host.name} is of {host.family}",
            why=f"{how}, and {MPI_SOURCE}",
            in_site=("mpi", "family"),
            in_recipe=("stack", "mpi", "family"),
            way_out=f"take a variant with {MPI_FAMILIES[host.family]}",
        )


def other_fabric(site: Site, recipe: Recipe) -> Iterator[Finding]:
    """Refuse an MPI that is built for other networks than the site's."""
    inside = recipe.stack.mpi
    if inside is None or (site.mpi is not None and site.mpi.mode != "container"):
        return  # the host's MPI drives the network
    built_for = ", ".join(inside.fabrics)
    there = site.network.kind if site.network else "not known"
    if site.network is None or there == "ethernet" or not built_for:
        # TCP, which most builds can beside their network, but not all.
        if there not in inside.fabrics and (built_for or there != "ethernet"):
            yield Doubt(
                text=f"the image's {inside.name} is built for {built_for or 'no known network'}, "
                f"the site's network is {there}: no promise that it is fast, or used at all"
            )
    elif there not in inside.fabrics:
        driver = FABRIC_DRIVERS[there]
        yield Contradiction(
            what=f"the image's {inside.name} is built for {built_for}, the site has {there} "
            f"({site.network.model})",
            why=f"without {driver} an MPI falls back to TCP here or does not start",
            in_site=("network", "kind"),
            in_recipe=("stack", "mpi", "fabrics"),
            way_out=f"take a variant whose MPI is built with {driver}",
        )
