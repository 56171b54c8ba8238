"""What of a recipe contradicts the facts of a site: found before anything is built. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from dlcontainer.document import KeyPath, Sourced, dotted
from dlcontainer.errors import MisfitError
from dlcontainer.recipe import Recipe
from dlcontainer.siteconfig import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """Two facts that do not go together: where each stands, why, and the way out."""

    what: str
    why: str
    in_site: KeyPath
    in_recipe: KeyPath
    way_out: str


def find(site: Site, recipe: Recipe) -> Iterator[Contradiction]:
    """Find what of a settled recipe contradicts a site's facts."""
    yield from _fabric(site, recipe)


def refuse(site: Sourced[Site], recipe: Sourced[Recipe]) -> None:
    """Raise MisfitError that names each contradiction with both its places, if there is one."""
    found = list(find(site.value, recipe.value))
    if not found:
        return
    lines = []
    for one in found:
        there = site.document.origin(one.in_site).where
        here = recipe.document.origin(one.in_recipe).where
        lines.append(
            f"{here}: {dotted(one.in_recipe)} against {there}: {dotted(one.in_site)}: {one.what}\n"
            f"  why: {one.why}\n  next: {one.way_out}"
        )
    raise MisfitError("\n".join(lines))


def _fabric(site: Site, recipe: Recipe) -> Iterator[Contradiction]:
    mpi = recipe.stack.mpi
    if mpi is None or site.network is None or not mpi.fabrics:
        return
    if site.network.kind not in mpi.fabrics:
        yield Contradiction(
            what=f"the image's {mpi.name} is built for {', '.join(mpi.fabrics)}, the site has "
            f"{site.network.kind}",
            why="an MPI without a driver for the network falls back to TCP or does not start",
            in_site=("network", "kind"),
            in_recipe=("stack", "mpi", "fabrics"),
            way_out="take a variant whose MPI knows the network: --variant",
        )
