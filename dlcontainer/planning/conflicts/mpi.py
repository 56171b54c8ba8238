"""The image's MPI against the site's: its family, and the network that it is built for."""

from collections.abc import Iterator

from dlcontainer.planning.compatibility import (
    FABRIC_DRIVERS,
    FAMILY_OF_SONAME,
    FIRST_CUDA_WITHOUT_SPECTRUM,
    FIRST_GCC_WITHOUT_SPECTRUM,
    MPI_FAMILIES,
    MPI_SOURCE,
    SPECTRUM_SOURCE,
)
from dlcontainer.planning.conflicts.model import Contradiction, FactConflict, Finding, UnknownFact
from dlcontainer.planning.versions import compare, numbers
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.sites.site import Site


def other_family(site: Site, recipe: Recipe) -> Iterator[Finding]:
    """Refuse an MPI of another family than the host's, where that takes its place."""
    inside, host = recipe.stack.mpi, site.mpi
    if inside is None:
        return
    if host is None:
        yield UnknownFact(
            text="the site's MPI is unknown: cannot guarantee that the image's MPI works "
            "across nodes"
        )
    elif host.mode != "container" and inside.family != host.family:
        how = {
            "swap": "the host's MPI replaces the image's at run time",
            "compile": "the image is compiled against the host's MPI",
        }[host.mode]
        yield Contradiction(
            what=f"the image's {inside.name} belongs to the family {inside.family}, the "
            f"site's {host.name} to {host.family}",
            why=f"{how}, and {MPI_SOURCE}",
            in_site=("mpi", "family"),
            in_recipe=("stack", "mpi", "family"),
            way_out=f"use a variant with {MPI_FAMILIES[host.family]}",
        )


def other_fabric(site: Site, recipe: Recipe) -> Iterator[Finding]:
    """Refuse an MPI that is built for other networks than the site's."""
    inside = recipe.stack.mpi
    if inside is None or (site.mpi is not None and site.mpi.mode != "container"):
        return  # the host's MPI drives the network
    built_for = ", ".join(inside.fabrics)
    fabric = site.network.kind if site.network else "not known"
    if site.network is None or fabric in ("ethernet", "other") or not built_for:
        # TCP, which most builds can beside their network, but not all.
        if fabric not in inside.fabrics and (built_for or fabric != "ethernet"):
            yield UnknownFact(
                text=f"the image's {inside.name} is built for "
                f"{built_for or 'no known network'}, the site's network is {_named(site)}: "
                "cannot guarantee that MPI uses it, or uses it well"
            )
    elif fabric not in inside.fabrics:
        driver = FABRIC_DRIVERS[fabric]
        yield Contradiction(
            what=f"the image's {inside.name} is built for {built_for}, but the site has "
            f"{fabric} ({site.network.model})",
            why=f"without {driver} MPI falls back to TCP here, or does not start",
            in_site=("network", "kind"),
            in_recipe=("stack", "mpi", "fabrics"),
            way_out=f"use a variant whose MPI is built with {driver}",
        )


def _named(site: Site) -> str:
    """Name a site's network by its kind, one of no kind by its model."""
    if site.network is None:
        return "not known"
    return site.network.model if site.network.kind == "other" else site.network.kind


def soname(site: Site) -> Iterator[FactConflict]:
    """Refuse a library whose name is another family's than the site's MPI is of."""
    mpi = site.mpi
    family = FAMILY_OF_SONAME.get(mpi.soname or "") if mpi else None
    # Open MPI 1.10 had the number that MPICH has had since 3.1.
    of_1_10 = mpi is not None and mpi.family == "openmpi" and (mpi.version or "").startswith("1.10")
    if mpi and family and family != mpi.family and not of_1_10:
        yield FactConflict(
            what=f"{mpi.soname} belongs to {MPI_FAMILIES[family]}, but mpi.family is {mpi.family}",
            why=MPI_SOURCE,
            first=("mpi", "soname"),
            second=("mpi", "family"),
            way_out="correct one of the two; `ldd` on a program that the site's mpicc "
            "linked prints the library",
        )


def spectrum_cuda(site: Site, recipe: Recipe) -> Iterator[Finding]:
    """Refuse a CUDA or a GCC that Spectrum MPI does not take, in an image that is linked to it."""
    if site.mpi is None or site.mpi.family != "spectrum" or recipe.stack.mpi is None:
        return
    for key, name, text, first in (
        ("cuda", "CUDA", recipe.stack.cuda, FIRST_CUDA_WITHOUT_SPECTRUM),
        ("gcc", "GCC", recipe.stack.gcc, FIRST_GCC_WITHOUT_SPECTRUM),
    ):
        version = numbers(text or "")
        if version and compare(version, first) in (0, 1):
            yield Contradiction(
                what=f"{site.mpi.name} does not support {name} {text}",
                why=SPECTRUM_SOURCE,
                in_site=("mpi", "family"),
                in_recipe=("stack", key),
                way_out=f"use a variant with {name} {first[0] - 1}",
            )
