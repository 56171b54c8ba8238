"""PBS Professional and OpenPBS, with HPE's PALS."""

import re
from collections.abc import Mapping

from dlcontainer.schedulers import time_limits
from dlcontainer.schedulers.mpi_launchers import APRUN
from dlcontainer.schedulers.scheduler import (
    BatchQueue,
    BatchSystem,
    Cause,
    JobVariables,
    MemoryWords,
    ReframeBackend,
    Resource,
    SchedulerEnding,
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
    # Jobs start in the home folder.
    enter_folder='cd "${PBS_O_WORKDIR:-$PWD}"',
    # An array's element is part of the number.
    job=JobVariables(number="PBS_JOBID"),
    running='qselect -u "$(id -un)" -s RSE',
    variables=("PBS_*", "PALS_*"),
    # PBS started ranks on Cray's XC through ALPS.
    launchers={"aprun": APRUN},
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
    reframe=ReframeBackend(name="pbs", written_options=r"(-N|-o|-e|-l\s*(select|walltime|place)=)"),
)
