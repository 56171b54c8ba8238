"""PBS Professional and OpenPBS, with HPE's PALS."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from dlcontainer.schedulers import time_limits
from dlcontainer.schedulers.mpi_launchers import APRUN
from dlcontainer.schedulers.scheduler import (
    MOST_CPUS,
    BatchQueue,
    BatchSystem,
    Cause,
    CpuBinding,
    JobVariables,
    MemoryWords,
    Placement,
    ReframeBackend,
    RequeueWords,
    Resource,
    SchedulerEnding,
    SchedulerSigns,
    hosts_listed,
    hosts_named,
)

# Exit statuses that are PBS's own, with their names in its source: those of a node's daemon that
# could not start the job, was started again, or lost its sisters, and those of the site's hooks.
# Source: openpbs/openpbs@cd7ab5e src/include/job.h and src/server/req_jobobit.c.
_OUTSIDE: Mapping[int, str] = {
    -1: "JOB_EXEC_FAIL1",
    -2: "JOB_EXEC_FAIL2",
    -3: "JOB_EXEC_RETRY",
    -4: "JOB_EXEC_INITABT",
    -11: "JOB_EXEC_RERUN",
    -14: "JOB_EXEC_RERUN_SIS_FAIL",
    -16: "JOB_EXEC_FAILHOOK_RERUN",
    -17: "JOB_EXEC_FAILHOOK_DELETE",
    -18: "JOB_EXEC_HOOK_RERUN",
    -19: "JOB_EXEC_HOOK_DELETE",
    -20: "JOB_EXEC_RERUN_MS_FAIL",
    -22: "JOB_EXEC_HOOKERROR",
    -30: "JOB_EXEC_JOINJOB",
}
_WALLTIME = -29
# The substate of a job that failed. Without an exit status it never told one: its node went down
# (src/server/node_manager.c, post_discard_job; svr_jobfunc.c, svr_setjob_histinfo).
_FAILED = "93"


def _attribute(text: str, name: str) -> str | None:
    match = re.search(rf"(?m)^ {{4}}{name} = (?P<value>.*\S)", text)
    return match["value"] if match else None


def ending(text: str) -> SchedulerEnding | None:
    """Read how a job ended in what `qstat -x -f` prints."""
    if _attribute(text, "job_state") != "F":
        return None
    status, substate = _attribute(text, "Exit_status"), _attribute(text, "substate")
    if status is None:
        lost: Cause = "outside" if substate == _FAILED else "job"
        why = "its node is down" if lost == "outside" else f"substate {substate}"
        return SchedulerEnding(state=f"F without Exit_status: {why}", cause=lost)
    code, state = int(status), f"Exit_status {status}"
    if code == 0:
        return SchedulerEnding(state=state, cause="none")
    if code == _WALLTIME:
        return SchedulerEnding(state=f"{state}, JOB_EXEC_KILL_WALLTIME", cause="limit")
    if code in _OUTSIDE:
        return SchedulerEnding(state=f"{state}, {_OUTSIDE[code]}", cause="outside")
    return SchedulerEnding(state=state, cause="job")


def ranges(cores: Sequence[int]) -> str:
    """Write cores, in their order, as numbers and ranges: 1-7,9."""
    runs: dict[int, list[int]] = {}
    for core, index in zip(cores, count(), strict=False):
        runs.setdefault(core - index, []).append(core)
    return ",".join(
        str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs.values()
    )


# Source: argonne-lcf/user-guides@7d04a3f docs/aurora/running-jobs-aurora.md ("Binding MPI ranks and
# threads to cores"): list:1,2:3-4, and depth, which gives each rank the next CPUs.
_PALS = re.compile(r"(?<!\S)--cpu-bind[= ](?:v(?:erbose)?,)?(?P<way>\S+)")
_DEPTH = re.compile(r"(?<!\S)(?:-d ?|--depth[= ])(?P<value>\d{1,4})(?!\S)")


def read_pals(words: Sequence[str], ranks: int) -> Placement:
    """Read where the words of PALS's mpiexec place ranks."""
    text = " ".join(words)
    stated, depth = [match["way"] for match in _PALS.finditer(text)], _DEPTH.search(text)
    scheme = stated[-1] if stated else ""
    if scheme == "depth" and depth is not None:
        size = int(depth["value"])
        return Placement(cpus=tuple(tuple(range(n * size, (n + 1) * size)) for n in range(ranks)))
    lists = scheme.removeprefix("list:").split(":")
    # How another number of ranks is served is not described.
    if not scheme.startswith("list:") or len(lists) != ranks:
        return Placement()
    try:
        return Placement(cpus=tuple(tuple(_ranged(text)) for text in lists))
    except ValueError:
        return Placement()  # the launcher's own business


def _ranged(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low, high = int(first), int(last if dash else first)
        if high >= MOST_CPUS:
            raise ValueError("a CPU that no node has")
        yield from range(low, high + 1)


PBS = BatchSystem(
    submit="qsub",
    takes_words=False,
    variable_option="-v",
    node_count=hosts_listed("PBS_NODEFILE"),
    hosts=hosts_named("PBS_NODEFILE"),
    # A job's script runs on the first host of its list (PBS Professional, User's Guide).
    script_on_first='[ -n "${PBS_JOBID-}" ]',
    directive="#PBS",
    # Source: qsub(1B).
    resources={
        "account": Resource(written=r"-A (?P<value>\S+)", line="-A {value}"),
        "partition": Resource(written=r"-q (?P<value>\S+)", line="-q {value}"),
        "time": Resource(
            written=r"-l (?:\S+,)?walltime=(?P<value>[^,\s]+)", line="-l walltime={value}"
        ),
        "nodes": Resource(written=r"-l (?:\S+,)?select=(?P<value>\d+)", line="-l select={value}"),
    },
    read_time=time_limits.pbs,
    # A chunk of `select` lies on one node. Source: pbs_resources(7B).
    of_node={
        "CPUs": r"-l ?select=\S*?\bncpus=(?P<value>\d+)",
        "accelerators": r"-l ?select=\S*?\bngpus=(?P<value>\d+)",
    },
    # Source: pbs_resources(7B), "place".
    whole_nodes=r"-l ?\S*?\bplace=(?:\S*:)?excl(?:host)?\b",
    # Source: pbs_resources(7B). A word has the length of the server's.
    memory=(
        MemoryWords(
            written=r"-l ?\S*?\b(?P<name>p?v?mem)=(?P<value>\w+)",
            of="a chunk of select, the job, or a process",
            units={
                "": "bytes",
                **{f"{letter}b": f"{letter.upper()}B" for letter in ("", *"kmgtp")},
                **{f"{letter}w": f"{letter.upper()}-words" for letter in ("", *"kmgtp")},
            },
            per_node=r"-l ?select=\S*?\bmem=",
        ),
    ),
    # A custom resource, so a site may call it otherwise, or give whole nodes. Source: PBS
    # Professional, Administrator's Guide, "Using GPUs" (remembered).
    gpu_example="#PBS -l select=1:ngpus={count}",
    gpu_words=r"\S*(?:ngpus|gpus?)=|\S*accelerator",
    # No option has a job told before its limit, and qrerun is not for users. Source: qsub(1B) of
    # openpbs/openpbs@032b529 doc/man1, qrerun(1B) of 1859ef9 there. Never run by us.
    requeue=RequeueWords(allowed=("-r y",), forbidden=("-r n",), written=r"(?<!\S)-r\b"),
    # Jobs start in the home folder.
    enter_folder='cd "${PBS_O_WORKDIR:-$PWD}"',
    # An array's element is part of the number.
    job=JobVariables(number="PBS_JOBID"),
    running='qselect -u "$(id -un)" -s RSE',
    variables=("PBS_*", "PALS_*"),
    # PBS started ranks on Cray's XC through ALPS.
    launchers={"aprun": APRUN},
    # PALS's; another MPI's mpiexec stops at the word. Source: argonne-lcf/user-guides@7d04a3f
    # docs/aurora/running-jobs-aurora.md; docs/polaris/running-jobs/using-gpus.md.
    cpu_bindings={
        "mpiexec": CpuBinding(
            cores=("--cpu-bind", "list:{places}"),
            write_cores=ranges,
            between=":",
            excluded=r"--cpu-bind\b\S*",
            read=read_pals,
        )
    },
    # Source: qsub(1B), qselect(1B), qstat(1B), qdel(1B) of openpbs/openpbs@cd7ab5e doc/man1. A job
    # that has ended is told of where the server keeps a history (job_history_enable). Remembered:
    # a name had at most 15 characters in releases before 230 were. Never run by us.
    queue=BatchQueue(
        submit=("qsub", "-N", "{name}", "-r", "n", "-j", "oe", "-o", "{log}"),
        number=r"(?m)^(?P<job>\d+\S*)$",
        # [HOST:]PATH; a comma divides staged files.
        unfit_in_log=":,",
        listing=("qselect", "-N", "{name}"),
        cancel=("qdel", "{job}"),
        ended=("qstat", "-x", "-f", "{job}"),
        ending=ending,
    ),
    # Source: qstat(1B); the words of a version: remembered.
    signs=SchedulerSigns(
        version_command="qstat --version",
        version=r"(?:pbs_version = |PBSPro_|Version: )(?P<version>\d\S*)",
        partitions_command="qstat -Q",
        head=2,
    ),
    reframe=ReframeBackend(name="pbs", written_options=r"(-N|-o|-e|-l\s*(select|walltime|place)=)"),
)
