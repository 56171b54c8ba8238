"""One mount for the ranks of a node: kept as the site says, or of the job's ranks alone."""

from collections.abc import Mapping

from dlcontainer.config.templating import Text
from dlcontainer.formats.runtimes import RuntimeStart
from dlcontainer.planning.launch import surroundings
from dlcontainer.planning.launch.surroundings import Surroundings
from dlcontainer.sites.site import Site

# That a mount which ranks share stays without any: a rank may come late, and an end be untidy.
_IDLE_S = 60


def kept(site: Site) -> Mapping[str, object] | None:
    """Return how a node's ranks and launches keep one mount; None where the site does not say
    so.
    """
    seconds, program = site.modules.keep_mounted, site.engine.runtime
    if not seconds or not surroundings.is_apptainer(site):
        return None
    return {"program": Text(program), "seconds": seconds}


def shared(site: Site, start: RuntimeStart, applied: Surroundings) -> Mapping[str, object] | None:
    """Return how the ranks of a node share a mount that ends with them; None where none does.

    It is what a job does unless the site says something of its own: `modules.keep_mounted`.
    """
    scheduler, flags = site.scheduler, set(applied.flags)
    forms = scheduler.forms.values()
    several = any(form.ranks_per_node > 1 and form.inside is None for form in forms)
    if (
        site.modules.keep_mounted is not None
        or start.prefix is None
        or "--unsquash" in flags
        or not (several or (scheduler.launcher and not forms))
    ):
        return None
    program = site.engine.runtime
    return {
        "program": Text(program),
        "seconds": _IDLE_S,
        "userns": bool(flags & {"--userns", "-u"}),
        "asked": Text(f"${{{program.upper()}_USERNS-}}"),
    }
