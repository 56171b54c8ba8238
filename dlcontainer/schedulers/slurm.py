"""Slurm."""

import re
from collections.abc import Mapping

from dlcontainer.schedulers.base import (
    BatchSystem,
    Launcher,
    Queue,
    RankVariables,
    ReframeBackend,
    Resource,
    by_state,
)

# Source: srun(1), "OUTPUT ENVIRONMENT VARIABLES".
RANKS = RankVariables(
    rank="SLURM_PROCID",
    size="SLURM_NTASKS",
    local_rank="SLURM_LOCALID",
    local_size="SLURM_TASKS_PER_NODE",
)
# The first name of Slurm's list: n1,n3 or nid[001-004,007] or a login node's only one.
_FIRST = re.compile(r"([^\[\],]+)(?:\[(\d+))?")


def _option(short: str, long: str) -> str:
    return rf"(?:-{short} ?|--{long}[= ])(?P<value>\S+)"


def first_host(environ: Mapping[str, str]) -> str | None:
    """Name the allocation's first node, which need not be a host's name; None within a job."""
    first = _FIRST.match(environ.get("SLURM_JOB_NODELIST", ""))
    if first is None or environ.get("SLURMD_NODENAME"):
        return None
    return first[1] + (first[2] or "")


SLURM = BatchSystem(
    submit="sbatch",
    # squeue(1): -a with hidden partitions, %V the time of submission.
    submissions=("squeue", "-h", "-a", "-o", "%V"),
    node_count="${SLURM_NNODES-}",
    hosts='scontrol show hostnames "${SLURM_JOB_NODELIST-}"',
    # Slurm's names of nodes need not be those of hosts; a batch script runs on the first.
    script_on_first='[ "${SLURM_NODEID-}" = 0 ]',
    job_number="${SLURM_JOB_ID-}",
    directive="#SBATCH",
    # Source: sbatch(1).
    resources={
        "account": Resource(written=_option("A", "account"), line="--account={value}"),
        "partition": Resource(written=_option("p", "partition"), line="--partition={value}"),
        "time": Resource(written=_option("t", "time"), line="--time={value}"),
        "nodes": Resource(written=_option("N", "nodes"), line="--nodes={value}"),
        "ranks": Resource(written=_option("n", "ntasks"), line="--ntasks={value}"),
    },
    # As srun's --kill-on-bad-exit. Source: srun(1), "INPUT ENVIRONMENT VARIABLES".
    # A node that does not have the folder says so in the job's log, and runs the job in /tmp.
    enter_folder='[ "$PWD" != /tmp ] || [ -d "${SLURM_SUBMIT_DIR:-/tmp}" ]',
    end_together="export SLURM_KILL_BAD_EXIT=${SLURM_KILL_BAD_EXIT:-1}",
    # Forced: an older copy of this name gives way. It ends with the job. Source: sbcast(1).
    broadcast="sbcast --force {source} {target}",
    job_variable="SLURM_JOB_ID",
    variables=("SLURM*",),
    first_host=first_host,
    launchers={
        "srun": Launcher(
            counts=("--nodes={nodes}", "--ntasks={ranks}", "--ntasks-per-node={ranks_per_node}"),
            one_a_node=("--nodes={nodes}", "--ntasks={nodes}", "--ntasks-per-node=1"),
            devices=r"--gpus-per-task[= ](\d+)",
            tells=(RANKS,),
            reframe="srun",
        )
    },
    # Not requeued: a job that begins again has other times. Source: sbatch(1), squeue(1),
    # scancel(1), scontrol(1), "JOB STATE CODES".
    queue=Queue(
        submit=(
            *("sbatch", "--parsable", "--no-requeue", "--job-name={name}"),
            *("--output={log}", "--error={log}"),
        ),
        # With several clusters the number comes before a ";".
        number=r"(?m)^(?P<job>[^;\s]+)",
        # A file's name pattern. Source: sbatch(1), "FILENAME PATTERN".
        unfit_in_log="%\\",
        listing=("squeue", "--noheader", "--all", "--name={name}", "--format=%i %T"),
        cancel=("scancel", "--name={name}"),
        ended=("scontrol", "--oneliner", "show", "job", "{job}"),
        ending=by_state(
            r"\bJobState=(?P<state>\S+)",
            good="COMPLETED",
            limit=("TIMEOUT",),
            outside=("BOOT_FAIL", "NODE_FAIL", "PREEMPTED", "REVOKED"),
        ),
        per_node="--ntasks-per-node={count}",
    ),
    reframe=ReframeBackend(
        name="slurm",
        written_options=r"(-J|-N|-n|-t|-o|-e|"
        r"--(job-name|nodes|ntasks|ntasks-per-node|time|output|error))\b",
    ),
)
