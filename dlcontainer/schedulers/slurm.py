"""Slurm."""

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from dlcontainer.schedulers import time_limits
from dlcontainer.schedulers.scheduler import (
    MOST_CPUS,
    TASKS,
    BatchQueue,
    BatchSystem,
    CpuBinding,
    JobVariables,
    Launcher,
    MemoryWords,
    Placement,
    RankVariables,
    ReframeBackend,
    RequeueWords,
    Resource,
    SchedulerSigns,
    WarningWords,
    by_state,
)

# Source: srun(1), "OUTPUT ENVIRONMENT VARIABLES".
RANKS = RankVariables(
    rank="SLURM_PROCID",
    size="SLURM_NTASKS",
    local_rank="SLURM_LOCALID",
    local_size="SLURM_TASKS_PER_NODE",
)
# sbatch(1), "--mem": powers of 1024, megabytes where no letter says another.
_UNITS = {"": "MB", "K": "KB", "M": "MB", "G": "GB", "T": "TB"}
_WHOLE_NODE = {"0": "all that there is"}
# The first name of Slurm's list: n1,n3 or nid[001-004,007] or a login node's only one.
_FIRST = re.compile(r"([^\[\],]+)(?:\[(\d+))?")


_Place = TypeVar("_Place")


def _option(short: str, long: str) -> str:
    return rf"(?:-{short} ?|--{long}[= ])(?P<value>\S+)"


def _number(short: str, long: str) -> str:
    return rf"(?:-{short} ?|--{long}[= ])(?P<value>\d+)"


def first_host(environ: Mapping[str, str]) -> str | None:
    """Name the allocation's first node, which need not be a host's name; None within a job."""
    first = _FIRST.match(environ.get("SLURM_JOB_NODELIST", ""))
    if first is None or environ.get("SLURMD_NODENAME"):
        return None
    return first[1] + (first[2] or "")


def mask(cores: Sequence[int]) -> str:
    """Write cores as a hexadecimal mask: bit n is core n."""
    return f"{sum(1 << core for core in cores):x}"


# Source: srun(1), --cpu-bind: how it is told of comes before the way.
_SRUN = re.compile(r"(?<!\S)--cpu[-_]bind[= ](?:(?:v(?:erbose)?|q(?:uiet)?),)?(?P<way>\S+)")
_OF_SRUN = re.compile(r"(?P<way>map_ldom|map_cpu|mask_cpu)[:=](?P<list>\S+)")
# Gives each rank the device beside its cores, whatever their order.
_CLOSEST = re.compile(r"(?<!\S)--gpu-bind[= ](?:v(?:erbose)?,)?closest(?!\S)")
# Which CPUs these are is not told.
_SRUN_UNTOLD = ("map_", "mask_", "none", "no")


def read_srun(words: Sequence[str], ranks: int) -> Placement:
    """Read where srun's words place ranks; without words it gives cores in their order."""
    text = " ".join(words)
    if _CLOSEST.search(text):
        return Placement()
    stated = [match["way"] for match in _SRUN.finditer(text)]
    scheme = stated[-1] if stated else ""
    match = _OF_SRUN.fullmatch(scheme)
    if match is None:
        return Placement(ascending=not scheme.startswith(_SRUN_UNTOLD))
    texts = match["list"].split(",")
    try:
        if match["way"] == "map_ldom":
            return Placement(domains=_each([int(text, 0) for text in texts], ranks))
        if match["way"] == "map_cpu":
            return Placement(cpus=_each([(int(text, 0),) for text in texts], ranks))
        return Placement(cpus=_each([_bits(int(text, 16)) for text in texts], ranks))
    except ValueError:
        return Placement()  # srun's own business


def _each(listed: Sequence[_Place], ranks: int) -> tuple[_Place, ...]:
    """Return the place of each rank: a shorter list begins again (srun(1))."""
    return tuple(listed[rank % len(listed)] for rank in range(ranks))


def _bits(number: int) -> tuple[int, ...]:
    if number.bit_length() > MOST_CPUS:
        raise ValueError("a mask of more CPUs than any node has")
    return tuple(bit for bit in range(number.bit_length()) if number >> bit & 1)


def read_partition(line: str) -> str | None:
    """Read a partition of sinfo's list: name, state, limit, nodes, CPUs, memory, GPUs."""
    parts = line.split("|")
    if len(parts) != 7:
        return None
    name, state, limit, nodes, cpus, memory, gres = parts
    words = f"{name.rstrip('*')}: {state}, {nodes} nodes of {cpus} CPUs, {memory} MB, limit {limit}"
    return words if gres == "(null)" else f"{words}, {gres}"


SLURM = BatchSystem(
    submit="sbatch",
    # squeue(1): -a with hidden partitions, %V the time of submission.
    submissions=("squeue", "-h", "-a", "-o", "%V"),
    node_count="${SLURM_NNODES-}",
    hosts='scontrol show hostnames "${SLURM_JOB_NODELIST-}"',
    # Slurm's names of nodes need not be those of hosts; a batch script runs on the first.
    script_on_first='[ "${SLURM_NODEID-}" = 0 ]',
    directive="#SBATCH",
    # Source: sbatch(1).
    resources={
        "account": Resource(written=_option("A", "account"), line="--account={value}"),
        "partition": Resource(written=_option("p", "partition"), line="--partition={value}"),
        "time": Resource(written=_option("t", "time"), line="--time={value}"),
        "nodes": Resource(written=_option("N", "nodes"), line="--nodes={value}"),
        "ranks": Resource(written=_option("n", "ntasks"), line="--ntasks={value}"),
    },
    read_time=time_limits.slurm,
    # Source: sbatch(1), srun(1).
    on_launcher={
        "--cpus-per-task": _number("c", "cpus-per-task"),
        TASKS: r"--(?:n?tasks-per-node)[= ](?P<value>\d+)",
        "--gpus-per-task": r"--gpus-per-task[= ](?:[^\s=]+:)?(?P<value>\d+)",
        "--threads-per-core": r"--threads-per-core[= ](?P<value>\d+)",
    },
    # Source: sbatch(1). A core that is held back by -S counts for -c all the same.
    of_node={
        "accelerators": r"(?:--gpus-per-node[= ]|--gres[= ]gpu:)(?:[A-Za-z][^\s=:,]*:)?"
        r"(?P<value>\d+)",
    },
    held_back=_number("S", "core-spec"),
    # Source: sbatch(1); with a value it leaves them to more than this job.
    whole_nodes=r"--exclusive(?!\S)",
    memory=(
        MemoryWords(
            written=r"--mem[= ](?P<value>\S+)",
            of="a node",
            units=_UNITS,
            special=_WHOLE_NODE,
            per_node=r"--mem\b",
        ),
        MemoryWords(written=r"--mem-per-cpu[= ](?P<value>\S+)", of="a CPU", units=_UNITS),
        MemoryWords(written=r"--mem-per-gpu[= ](?P<value>\S+)", of="a GPU", units=_UNITS),
    ),
    # To the batch script alone (B:), which waits for its ranks; sent up to 60 s earlier. Source:
    # sbatch(1), "--signal"; scancel(1), "--batch": other signals than KILL reach the steps alone.
    warning=WarningWords(
        words="--signal=B:{signal}@{seconds}",
        written=r"(?<!\S)--signal\b",
        signals=("USR1", "USR2"),
        tells_ranks='scancel --signal={signal} "$SLURM_JOB_ID"',
    ),
    # The second part of a job would else empty the log of the first (JobFileAppend). Source:
    # sbatch(1), "--requeue", "--open-mode"; scontrol(1), "requeue".
    requeue=RequeueWords(
        allowed=("--requeue", "--open-mode=append"),
        forbidden=("--no-requeue",),
        written=r"(?<!\S)--(?:no-)?requeue\b",
        again='scontrol requeue "$SLURM_JOB_ID"',
    ),
    # Source: sbatch(1): of --gres the count is a node's, and steps get what the job asked for. With
    # any plug-in that selects nodes; --gpus-per-node takes select/cons_tres. "gpu" is the name that
    # gres.conf(5) knows. Each rank gets one CPU unless more are asked for.
    gpu_request="--gres=gpu:{count}",
    rank_request="--ntasks-per-node={count}",
    cpu_request="--cpus-per-task={count}",
    gpu_example="#SBATCH --gres=gpu:{count}",
    gpu_words=r"-G|--gpus\b|--gres[= ]\S*gpu|--tres-per-\w+[= ]\S*gpu",
    rank_words=r"-n|--ntasks\b",
    cpu_words=r"-c|--cpus-per-(?:task|gpu)\b",
    # As srun's --kill-on-bad-exit. Source: srun(1), "INPUT ENVIRONMENT VARIABLES".
    # A node that does not have the folder says so in the job's log, and runs the job in /tmp.
    enter_folder='[ "$PWD" != /tmp ] || [ -d "${SLURM_SUBMIT_DIR:-/tmp}" ]',
    end_together="export SLURM_KILL_BAD_EXIT=${SLURM_KILL_BAD_EXIT:-1}",
    # Forced: an older copy of this name gives way. It ends with the job. Source: sbcast(1).
    broadcast="sbcast --force {source} {target}",
    # Source: sbatch(1), srun(1), "OUTPUT ENVIRONMENT VARIABLES". An element of an array is a job of
    # its own; the count is 1 after the first `scontrol requeue`.
    job=JobVariables(number="SLURM_JOB_ID", step="SLURM_STEP_ID", restart="SLURM_RESTART_COUNT"),
    running="squeue -h -a -u \"$dlc_uid\" -o '%A %t'",
    variables=("SLURM*",),
    first_host=first_host,
    launchers={
        "srun": Launcher(
            counts=("--nodes={nodes}", "--ntasks={ranks}", "--ntasks-per-node={ranks_per_node}"),
            one_a_node=("--nodes={nodes}", "--ntasks={nodes}", "--ntasks-per-node=1"),
            # Source: srun(1), "--ntasks-per-node" and SLURM_NTASKS; in a job of two ranks a node a
            # form of one started two (run by us with 22.05).
            per_node_said=r"(?<!\S)--n?tasks-per-node\b",
            all_said=r"(?<!\S)(?:-n(?![a-z-])|--ntasks(?![a-z-]))",
            all_ranks="--ntasks={ranks}",
            # Without -c a step has all CPUs of its nodes; a task may be bound to some of them.
            # Source: srun(1), "--exact", "--cpu-bind".
            whole_node=("--cpu-bind=none",),
            devices=r"--gpus-per-task[= ](\d+)",
            tells=(RANKS,),
            # Since 22.05 srun takes a job's --cpus-per-task no more: a rank gets one CPU unless -c
            # or this variable says another number, and -c comes first. Before, the variable means
            # nothing. Source: Slurm's RELEASE_NOTES of 22.05; srun(1), "-c".
            cpus_asked="SLURM_CPUS_PER_TASK",
            cpus_taken="SRUN_CPUS_PER_TASK",
            cpus_said=_number("c", "cpus-per-task"),
            reframe="srun",
        )
    },
    # Masks and maps hold for a step that has all CPUs of its nodes; a domain is all of its threads.
    # Source: srun(1), --cpu-bind, and --hint, which excludes it.
    cpu_bindings={
        "srun": CpuBinding(
            cores=("--cpu-bind=mask_cpu:{places}",),
            write_cores=mask,
            between=",",
            domains=("--cpu-bind=map_ldom:{places}",),
            excluded=r"--cpu[-_]bind\b\S*|--hint\b\S*",
            alternative="--gpu-bind=closest with --gpus-per-task=1",
            read=read_srun,
        )
    },
    # Not requeued: a job that begins again has other times. Source: sbatch(1), squeue(1),
    # scancel(1), scontrol(1), "JOB STATE CODES".
    queue=BatchQueue(
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
    # Source: sinfo(1), "--version", "--format": %P marks the default partition with a star.
    signs=SchedulerSigns(
        version_command="sinfo --version",
        version=r"^slurm(?:-wlm)? (?P<version>\d\S*)",
        partitions_command="sinfo --noheader --format=%P|%a|%l|%D|%c|%m|%G",
        partition=read_partition,
        usual=r"^(?P<name>[^|*\n]+)\*\|",
        launcher="srun",
    ),
    reframe=ReframeBackend(
        name="slurm",
        written_options=r"(-J|-N|-n|-t|-o|-e|"
        r"--(job-name|nodes|ntasks|ntasks-per-node|time|output|error))\b",
    ),
)
