"""What surrounds an image in a job of a site: the site's `jobs`, and its MPI where one is used."""

from collections.abc import Mapping
from dataclasses import dataclass

from dlcontainer.errors import ConfigError
from dlcontainer.formats.host_variables import Literal
from dlcontainer.planning.plan import Plan
from dlcontainer.sites.facts import Mpi

# The job script's own variables begin so.
OWN = "dlc_"


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """Modules, variables, binds and flags of a job, in the order in which they are applied."""

    modules: tuple[str, ...]
    scripts: tuple[str, ...]
    environment: Mapping[str, str]
    inside: Mapping[str, str]
    binds: tuple[str, ...]
    flags: tuple[str, ...]
    libraries: tuple[str, ...]
    preload: tuple[str, ...]
    library_path: tuple[str, ...]


def used_mpi(plan: Plan) -> Mpi | None:
    """Give the site's MPI where the recipe's programs use one."""
    return plan.site.mpi if plan.recipe.stack.mpi else None


def of(plan: Plan) -> Surroundings:
    """Gather what surrounds the image; raises ConfigError for a name that the script owns."""
    jobs, mpi = plan.site.jobs, used_mpi(plan)
    environment = {**jobs.environment, **(mpi.environment if mpi else {})}
    for name in environment:
        if name.startswith(OWN):
            raise ConfigError(
                f"site {plan.site.name}: a job can't set {name}",
                why=f"variables that begin with {OWN} are the job script's own",
            )
    inside = {**jobs.inside, **(mpi.inside if mpi else {})}
    preload = _list("LD_PRELOAD", mpi.preload if mpi else (), inside, plan)
    library_path = _list("LD_LIBRARY_PATH", mpi.library_path if mpi else (), inside, plan)
    return Surroundings(
        modules=_modules(plan, mpi),
        scripts=mpi.scripts if mpi else (),
        environment=environment,
        inside=inside,
        binds=tuple(dict.fromkeys([*jobs.binds, *_mpi_binds(mpi)])),
        flags=(*jobs.flags, *(mpi.flags if mpi else ())),
        libraries=mpi.libraries if mpi else (),
        preload=preload,
        library_path=library_path,
    )


def _list(name: str, first: tuple[str, ...], inside: dict[str, str], plan: Plan) -> tuple[str, ...]:
    """Put what the site and the image say of a list of libraries behind what MPI needs there.

    A value from outside replaces the image's own.
    """
    if not first:
        return ()
    more = [inside.pop(name, ""), Literal(plan.environment.get(name, ""))]
    return (*first, *filter(None, more))


def _modules(plan: Plan, mpi: Mpi | None) -> tuple[str, ...]:
    """Order the module commands: the engine's after the site's, which may begin with a purge."""
    engine = plan.site.engine.module
    given = plan.site.jobs.modules
    loads = (f"load {engine}",) if engine and f"load {engine}" not in given else ()
    return (*given, *loads, *(mpi.modules if mpi else ()))


def _mpi_binds(mpi: Mpi | None) -> tuple[str, ...]:
    if mpi is None:
        return ()
    # What is compiled against the host's MPI finds it at run time where it was while building.
    if mpi.mode == "compile" and mpi.root:
        root = mpi.root
        if not {root, f"{root}:{root}"} & set(mpi.binds):
            return (f"{root}:{root}", *mpi.binds)
    return mpi.binds
