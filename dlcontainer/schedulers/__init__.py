"""Schedulers, one file each: job scripts, ranks and ReFrame ask the table, never for a name."""

import os
import re
from collections.abc import Mapping, Sequence
from functools import reduce

from dlcontainer.schedulers import lsf, mpi_launchers
from dlcontainer.schedulers.cobalt import COBALT
from dlcontainer.schedulers.gridengine import GRID_ENGINE
from dlcontainer.schedulers.lsf import LSF
from dlcontainer.schedulers.none import NONE
from dlcontainer.schedulers.pbs import PBS
from dlcontainer.schedulers.scheduler import BatchSystem, JobVariables, Launcher, RankVariables
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
# Flux: no site has it, but what runs in its jobs knows that. A batch script is in none, and has the
# enclosing allocation's name. Source: flux-environment(7).
_FLUX = JobVariables(number="FLUX_JOB_ID", enclosing="FLUX_ENCLOSING_ID")
# The hosts of `lab slownet` are an allocation as well.
_LAB = JobVariables(number="DLC_HOSTS_JOB")
_OF_LAUNCHERS = (
    mpi_launchers.OPEN_MPI,
    lsf.JSM,
    mpi_launchers.MVAPICH2,
    mpi_launchers.PALS,
    mpi_launchers.HYDRA,
)


def job_variables() -> tuple[JobVariables, ...]:
    """List what tells jobs from each other, of every scheduler; names that others use come last."""
    jobs = [_FLUX, *(batch.job for batch in SCHEDULERS.values() if batch.job)]
    return tuple(sorted(jobs, key=lambda job: bool(job.sign)))


def known_ranks() -> tuple[RankVariables, ...]:
    """List where ranks find their numbers; the first whose rank is set holds.

    Inside a job mpirun's ranks see the variables of the batch script too, so those of the
    schedulers' own launchers come late.
    """
    # PMIx says no more than a rank.
    return (*_OF_LAUNCHERS, *_of_schedulers(), mpi_launchers.PMIX)


def _of_schedulers() -> tuple[RankVariables, ...]:
    tables = [batch.launchers for batch in SCHEDULERS.values()]
    sets = (ranks for table in tables for traits in table.values() for ranks in traits.tells)
    general = (*_OF_LAUNCHERS, mpi_launchers.PMIX)
    return tuple(dict.fromkeys(ranks for ranks in sets if ranks not in general))


def first_rank() -> str:
    """Return what a shell expands to this process's rank, to 0 where nothing started ranks."""
    names = [ranks.rank for ranks in (*_OF_LAUNCHERS, mpi_launchers.PMIX, *_of_schedulers())]
    return reduce(lambda inner, name: f"${{{name}:-{inner}}}", reversed(names), "0")


def launcher(program: str, kind: str = "") -> Launcher | None:
    """Find a launcher by its program's name; None for one that nobody described.

    A site's own scheduler comes first, then what comes with an MPI, then other schedulers.
    """
    name = program.rpartition("/")[2]
    tables = [mpi_launchers.LAUNCHERS, *(batch.launchers for batch in SCHEDULERS.values())]
    if kind:
        tables.insert(0, SCHEDULERS[kind].launchers)
    return next((table[name] for table in tables if name in table), None)


def rank_variables(program: str, kind: str = "") -> tuple[RankVariables, ...]:
    """Return where a launcher's ranks find their numbers; of an unknown one all that are known."""
    traits = launcher(program, kind)
    return (traits.tells if traits else ()) or known_ranks()


def allocation(environ: Mapping[str, str]) -> str | None:
    """Return the batch job that this is part of, as its scheduler names it; None outside of one."""
    named = (job.of(environ) for job in (_LAB, *job_variables()))
    return next((f"{name}={_shown(number)}" for name, number in filter(None, named)), None)


def _shown(number: str) -> str:
    """Write a number that may hold any bytes as one line of text."""
    text = os.fsencode(number).decode(errors="backslashreplace")
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def cpus_each(words: Sequence[str], environ: Mapping[str, str], kind: str = "") -> int | None:
    """Return the CPUs that a launcher's words, or else its allocation, ask for each rank."""
    traits = launcher(words[0], kind)
    if traits is None or not traits.cpus_asked:
        return None
    match = re.search(rf"(?<!\S){traits.cpus_said}(?!\S)", " ".join(words))
    return _number(match["value"] if match else environ.get(traits.cpus_asked, ""))


def cpus_handed(words: Sequence[str], environ: Mapping[str, str], kind: str = "") -> dict[str, str]:
    """Return the variable by which a launcher takes the CPUs that its allocation asked for."""
    traits = launcher(words[0], kind)
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
