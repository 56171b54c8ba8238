"""What surrounds an image wherever it is launched at a site: settled once, for jobs, modules,
`bench` and `validate`. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dlcontainer.config.templating import Literal
from dlcontainer.engines.apptainer import RUN_MODES
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.errors import ConfigError
from dlcontainer.planning.launch import refused_variables
from dlcontainer.planning.launch.launch_plan import LaunchPlan
from dlcontainer.sites import gpu_flags
from dlcontainer.sites.facts import Mpi
from dlcontainer.sites.site import Site

# The launching scripts' own variables begin so.
OWN = "dlc_"
# The whole of it holds what the user's other modules put there: none of the image's business.
_WHOLE = frozenset({"$LD_LIBRARY_PATH", "${LD_LIBRARY_PATH}"})
# The engine's own folders, and those that it shows by itself: no site has them bound once more.
ALWAYS_SHOWN = frozenset({"/", "/dev", "/proc", "/sys", "/tmp", "/var/tmp"})  # noqa: S108
# The engine's way to run, which each host finds out by itself.
_RUN_MODES = frozenset(flag for flags in RUN_MODES.values() for flag in flags)

# Ranks in user namespaces of their own can't copy from each other's memory: large messages hang.
# By an MPI's family. Sources: docs/measure/collectives.md.
APART: Mapping[str, Mapping[str, str]] = {
    "openmpi": {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"},
    "mpich": {"UCX_POSIX_USE_PROC_LINK": "n", "MPIR_CVAR_CH4_CMA_ENABLE": "0"},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageFacts:
    """The facts of an image that decide its surroundings: both a plan and a record have them."""

    uses_mpi: bool = False
    # Set by the image itself.
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What surrounds an image, in the order in which it is applied.

    `program` starts images; `unset` never enters, unless `environment` or `inside` names it;
    `flags` are all the runtime's words but the binds, `gpu` those that let accelerators in;
    `folders` are shown where a node has them, `binds` must be there.
    """

    program: str
    modules: tuple[str, ...]
    scripts: tuple[str, ...]
    unset: tuple[str, ...]
    environment: Mapping[str, str]
    inside: Mapping[str, str]
    binds: tuple[str, ...]
    folders: tuple[str, ...]
    flags: tuple[str, ...]
    gpu: tuple[str, ...]
    libraries: tuple[str, ...]
    preload: tuple[str, ...]
    library_path: tuple[str, ...]

    @property
    def own_flags(self) -> tuple[str, ...]:
        """The runtime's words without those of each host: its mode, and its accelerators."""
        return tuple(flag for flag in self.flags if flag not in {*self.gpu, *_RUN_MODES})

    @property
    def targets(self) -> tuple[str, ...]:
        """The places in the image that binds name outright."""
        places = (bind.split(":")[:2][-1] for bind in self.binds)
        return tuple(target for target in places if "$" not in target)

    @property
    def unbound(self) -> tuple[str, ...]:
        """The folders that no bind shows already."""
        return tuple(folder for folder in self.folders if folder not in self.targets)

    @property
    def own_library_path(self) -> tuple[str, ...]:
        """The folders that are named, without the host's whole list."""
        return tuple(entry for entry in self.library_path if entry not in _WHOLE)


def used_mpi(plan: LaunchPlan) -> Mpi | None:
    """Return the site's MPI where the recipe's programs use one."""
    return plan.site.mpi if plan.recipe.stack.mpi else None


def of_plan(plan: LaunchPlan) -> Surroundings:
    """Gather what surrounds a plan's image; raises as `of`."""
    image = ImageFacts(uses_mpi=plan.recipe.stack.mpi is not None, environment=plan.environment)
    return of(plan.site, image, plan.trial)


def swapped(site: Site, image: ImageFacts) -> Mpi | None:
    """Return the site's MPI where it takes the place of the image's once it is loaded, else None.

    Launchers of Apptainer's own do that; another runtime swaps by flags of its own.
    """
    mpi = site.mpi
    if mpi is None or not image.uses_mpi or mpi.mode == "container" or not is_apptainer(site):
        return None
    return mpi


def alone(site: Site, image: ImageFacts) -> Surroundings:
    """Gather what surrounds an image where the host's MPI does not take over: a login node."""
    wired = site.mpi is not None and site.mpi.mode == "container"
    return of(site, image if wired else ImageFacts(environment=image.environment))


def of(site: Site, image: ImageFacts, trial: EngineCapabilities | None = None) -> Surroundings:
    """Gather what surrounds an image at a site.

    `trial` is of this host's engine: it counts where the site is this host, and nowhere else.
    Raises ConfigError for a name that launching scripts own.
    """
    jobs, mpi = site.jobs, site.mpi if image.uses_mpi else None
    environment = {**jobs.environment, **(mpi.environment if mpi else {})}
    for name in environment:
        if name.startswith(OWN):
            raise ConfigError(
                f"site {site.name}: a job can't set {name}",
                why=f"names that begin with {OWN} are reserved for the job script",
            )
    apart = {
        name: value
        for name, value in _apart(site, mpi).items()
        if name not in image.environment and name not in environment
    }
    inside = {**apart, **jobs.inside, **(mpi.inside if mpi else {})}
    preload = _list("LD_PRELOAD", mpi.preload if mpi else (), inside, image)
    library_path = _list("LD_LIBRARY_PATH", mpi.library_path if mpi else (), inside, image)
    gpu = gpu_flags.flags(site)
    host_trial = trial if site.facts == "host" else None
    flags = (*jobs.flags, *(mpi.flags if mpi else jobs.flags_without_mpi))
    return Surroundings(
        program=_program(site, host_trial),
        modules=_modules(site, mpi),
        scripts=mpi.scripts if mpi else (),
        unset=refused_variables.job_names(),
        environment=environment,
        inside=inside,
        binds=tuple(dict.fromkeys([*jobs.binds, *_mpi_binds(mpi)])),
        folders=folders(site),
        flags=(*_mode(site, host_trial), *(flag for flag in gpu if flag not in flags), *flags),
        gpu=gpu,
        libraries=mpi.libraries if mpi else (),
        preload=preload,
        library_path=library_path,
    )


def _apart(site: Site, mpi: Mpi | None) -> Mapping[str, str]:
    """Return what an image's own MPI takes where each rank has a user namespace of its own."""
    if mpi is None or mpi.mode != "container" or not is_apptainer(site):
        return {}
    return {name: value for family in mpi.families for name, value in APART.get(family, {}).items()}


def folders(site: Site) -> tuple[str, ...]:
    """Return the site's file systems, which images show wherever a node has them. Homes are left to
    the engine.
    """
    named = [system.path for system in site.filesystems if system.purpose != "home"]
    return tuple(dict.fromkeys(path for path in named if path not in ALWAYS_SHOWN))


def is_apptainer(site: Site) -> bool:
    """Return whether this project's own engine starts images there."""
    return site.engine.runtime in ("apptainer", "singularity")


def _program(site: Site, host_trial: EngineCapabilities | None) -> str:
    """Name what starts images; on this very host the program that was tried, on PATH or not."""
    return host_trial.program if host_trial and is_apptainer(site) else site.engine.runtime


def _mode(site: Site, host_trial: EngineCapabilities | None) -> tuple[str, ...]:
    """Return the flags of the mode that the site states; on this very host, of the one that
    works.
    """
    if not is_apptainer(site):
        return ()
    mode = site.engine.run_mode or (host_trial.run_mode if host_trial else None)
    return tuple(flag for flag in RUN_MODES[mode or "plain"] if flag not in site.jobs.flags)


def _list(
    name: str, first: tuple[str, ...], inside: dict[str, str], image: ImageFacts
) -> tuple[str, ...]:
    """Put what the site and the image say of a list of libraries behind what MPI needs there.

    A value from outside replaces the image's own.
    """
    if not first:
        return ()
    more = [inside.pop(name, ""), Literal(image.environment.get(name, ""))]
    return (*first, *filter(None, more))


def _modules(site: Site, mpi: Mpi | None) -> tuple[str, ...]:
    """Order the module commands: the engine's after the site's, which may begin with a purge."""
    engine = site.engine.module
    modules = site.jobs.modules
    loads = (f"load {engine}",) if engine and f"load {engine}" not in modules else ()
    return (*modules, *loads, *(mpi.modules if mpi else ()))


def _mpi_binds(mpi: Mpi | None) -> tuple[str, ...]:
    if mpi is None:
        return ()
    # What is compiled against the host's MPI finds it at run time where it was while building.
    if mpi.mode == "compile" and mpi.root:
        root = mpi.root
        if not {root, f"{root}:{root}"} & set(mpi.binds):
            return (f"{root}:{root}", *mpi.binds)
    return mpi.binds
