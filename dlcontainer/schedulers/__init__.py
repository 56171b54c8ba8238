"""Schedulers, one file each: job scripts, ranks and ReFrame ask the table, never for a name."""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from dlcontainer.schedulers import lsf, mpi_launchers, slurm
from dlcontainer.schedulers.cobalt import COBALT
from dlcontainer.schedulers.gridengine import GRID_ENGINE
from dlcontainer.schedulers.lsf import LSF
from dlcontainer.schedulers.none import NONE
from dlcontainer.schedulers.pbs import PBS
from dlcontainer.schedulers.scheduler import BatchSystem, Launcher, RankVariables
from dlcontainer.schedulers.slurm import SLURM

# A site config's `scheduler.kind`: a new scheduler is a file and a line here.
SCHEDULERS: Mapping[str, BatchSystem] = {
    "none": NONE,
    "slurm": SLURM,
    "lsf": LSF,
    "pbs": PBS,
    "cobalt": COBALT,
    "gridengine": GRID_ENGINE,
}
# The first whose rank is set holds: inside a job of Slurm mpirun's ranks see Slurm's variables of
# the batch script too, so Slurm's own come late.
RANK_VARIABLES: tuple[RankVariables, ...] = (
    mpi_launchers.OPEN_MPI,
    lsf.JSM,
    mpi_launchers.MVAPICH2,
    mpi_launchers.PALS,
    mpi_launchers.HYDRA,
    slurm.RANKS,
    mpi_launchers.PMIX,
)
# Flux: no site has it, but sessions within its jobs know that they are in one. It comes before Grid
# Engine's, whose name others use too. The hosts of `lab slownet` are an allocation as well.
_OTHER_JOBS = ("FLUX_JOB_ID", "DLC_HOSTS_JOB")


def launcher(program: str) -> Launcher | None:
    """Find a launcher by its program's name; None for one that nobody described."""
    for scheduler in SCHEDULERS.values():
        if program in scheduler.launchers:
            return scheduler.launchers[program]
    return mpi_launchers.LAUNCHERS.get(program)


def rank_variables(program: str) -> tuple[RankVariables, ...]:
    """Return where a launcher's ranks find their numbers; of an unknown one all that are known."""
    traits = launcher(program)
    return (traits.tells if traits else ()) or RANK_VARIABLES


def allocation(environ: Mapping[str, str]) -> str | None:
    """Return the batch job that this is part of, as its scheduler names it; None outside of one."""
    variables = (scheduler.job_variable for scheduler in SCHEDULERS.values())
    for name in (*_OTHER_JOBS, *filter(None, variables)):
        if environ.get(name):
            return f"{name}={environ[name]}"
    return None


def cpus_each(words: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """Return the CPUs that a launcher's words, or else its allocation, ask for each rank."""
    traits = launcher(PurePath(words[0]).name)
    if traits is None or not traits.cpus_asked:
        return None
    match = re.search(rf"(?<!\S){traits.cpus_said}(?!\S)", " ".join(words))
    return _number(match["value"] if match else environ.get(traits.cpus_asked, ""))


def cpus_handed(words: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variable by which a launcher takes the CPUs that its allocation asked for."""
    traits = launcher(PurePath(words[0]).name)
    cpus = environ.get(traits.cpus_asked) if traits else None
    return {traits.cpus_taken: cpus} if traits and cpus else {}


def cpus_of_task(environ: Mapping[str, str]) -> int | None:
    """Return the CPUs that were asked for the task which this process is; None outside of one."""
    for scheduler in SCHEDULERS.values():
        for traits in scheduler.launchers.values():
            if traits.cpus_asked and any(environ.get(variables.rank) for variables in traits.tells):
                return _number(environ.get(traits.cpus_asked, ""))
    return None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def first_host(environ: Mapping[str, str]) -> str | None:
    """Name the first host of an allocation that this process is outside of; None if unknown."""
    hosts = (scheduler.first_host(environ) for scheduler in SCHEDULERS.values())
    return next(filter(None, hosts), None)


def variables() -> tuple[str, ...]:
    """List the patterns of the variables that schedulers set in jobs."""
    return tuple(name for scheduler in SCHEDULERS.values() for name in scheduler.variables)
