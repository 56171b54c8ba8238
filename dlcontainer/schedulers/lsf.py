"""IBM Spectrum LSF, with its jsrun and LLNL's lrun."""

import re

from dlcontainer.schedulers import time_limits
from dlcontainer.schedulers.scheduler import (
    BatchQueue,
    BatchSystem,
    JobVariables,
    Launcher,
    MemoryWords,
    QueuedJob,
    RankVariables,
    ReframeBackend,
    RequeueWords,
    Resource,
    SchedulerEnding,
    SchedulerSigns,
    WarningWords,
    hosts_listed,
    hosts_named,
    listed_lines,
)

# Source: Lightning-AI/pytorch-lightning, LSFEnvironment, used at OLCF.
JSM = RankVariables(
    rank="JSM_NAMESPACE_RANK",
    size="JSM_NAMESPACE_SIZE",
    local_rank="JSM_NAMESPACE_LOCAL_RANK",
    local_size="JSM_NAMESPACE_LOCAL_SIZE",
)
# The list has the node that the script itself runs on too, whose name tells it apart at the
# centres that document it (OLCF, LLNL).
_COMPUTE = "!/^(batch|launch|login)/"


# Source: IBM Spectrum LSF 10.1, Administering, "Termination reasons displayed by bacct, bhist, and
# bjobs": preemption, load, a run window, a host that is reclaimed, removed or crashed, and LSF's
# own failures. A host that crashes gives TERM_ZOMBIE (Platform LSF 7.3, Configuration Reference,
# "Example output of bacct and bhist").
_OUTSIDE = frozenset(
    f"TERM_{word}"
    for word in (
        *("PREEMPT", "LOAD", "WINDOW", "RC", "REQUEUE_RC", "RC_RECLAIM", "REMOVE_HUNG_JOB"),
        *("ZOMBIE", "CSM_ALLOC", "RMS", "SLURM", "PRE_EXEC_FAIL", "MC_RECALL"),
    )
)


def _limit(seconds: int) -> str:
    whole = int(time_limits.minutes(seconds))
    return f"{whole // 60}:{whole % 60:02}"


def listed(text: str, name: str) -> tuple[QueuedJob, ...]:
    """Read the jobs that have not ended: a killed one whose host is away is a zombie."""
    return tuple(job for job in listed_lines(text, name) if job.state != "ZOMBI")


def unreachable(text: str, name: str) -> tuple[QueuedJob, ...]:
    """Read the jobs of whose host nobody hears."""
    return tuple(job for job in listed_lines(text, name) if job.state == "UNKWN")


def ending(text: str) -> SchedulerEnding | None:
    """Read STAT|EXIT_CODE|EXIT_REASON, the reason a keyword with a sentence, or "-"."""
    match = re.search(r"(?m)^(?P<stat>[A-Z_]+) *\|(?P<code>[^|]*)\|(?P<reason>.*)$", text)
    if match is None:
        return None
    stat, code, reason = (match[name].strip() for name in ("stat", "code", "reason"))
    if stat == "DONE":
        return SchedulerEnding(state=stat, cause="none")
    if stat not in ("EXIT", "UNKWN", "ZOMBI"):
        return None
    keyword = reason.partition(":")[0]
    words = [
        stat,
        *([f"exit code {code}"] if code.isdigit() else []),
        *filter("-".__ne__, [reason]),
    ]
    state = ", ".join(filter(None, words))
    if keyword == "TERM_RUNLIMIT":
        return SchedulerEnding(state=state, cause="limit")
    # The host's daemon does not answer, and nobody knows of the job.
    lost = stat in ("UNKWN", "ZOMBI") or keyword in _OUTSIDE
    return SchedulerEnding(state=state, cause="outside" if lost else "job")


LSF = BatchSystem(
    submit="bsub",
    node_count=hosts_listed("LSB_DJOB_HOSTFILE", condition=_COMPUTE),
    hosts=hosts_named("LSB_DJOB_HOSTFILE", condition=_COMPUTE),
    directive="#BSUB",
    # Source: bsub(1). LLNL's accounts are groups: -G.
    resources={
        "account": Resource(written=r"-[PG] (?P<value>\S+)", line="-P {value}"),
        "partition": Resource(written=r"-q (?P<value>\S+)", line="-q {value}"),
        "time": Resource(written=r"-W (?P<value>\S+)", line="-W {value}"),
        "nodes": Resource(written=r"-nnodes (?P<value>\d+)", line="-nnodes {value}"),
    },
    read_time=time_limits.lsf,
    # Source: bsub(1), -gpu: of each host. With jsrun the launcher's words ask for them.
    gpu_example='#BSUB -gpu "num={count}"',
    gpu_words=r"-gpu\b|\S*ngpus",
    time_limit=_limit,
    # In what unit a plain number is, lsf.conf says (LSF_UNIT_FOR_LIMITS); whether the limit is a
    # process's or the job's, LSB_JOB_MEMLIMIT. Source: bsub -M of the Command Reference.
    memory=(
        MemoryWords(
            written=r"-M ?(?P<value>\S+)",
            of="a process, or the job: lsf.conf says which",
            units={
                "": "in the unit of lsf.conf's LSF_UNIT_FOR_LIMITS, else KB",
                **{f"{letter}{b}": f"{letter}B" for letter in "KMGTPE" for b in ("", "B")},
            },
        ),
    ),
    # Set to Y after the failure of a host; brequeue sets nothing that is known. Source: LSF
    # Batch User's Guide, "Environment Variables".
    restarts="${LSB_RESTART:+1}",
    # Elements of an array share the number. jsrun ends a launch's processes with it, and names it
    # by PMIx.
    job=JobVariables(
        number="LSB_JOBID", element="LSB_JOBINDEX", step="PMIX_NAMESPACE", restart="LSB_RESTART"
    ),
    running="bjobs -noheader -o jobid -r",
    # Source: IBM Spectrum LSF 10.1, Command Reference: bsub -wa, -wt. Which of a job's processes
    # get it is not said there; that jsrun hands it on, neither (jskill signals ranks). Never run
    # by us.
    warning=WarningWords(
        words="-wa {signal} -wt {minutes}", written=r"(?<!\S)-w[at]\b", signals=("USR1", "USR2")
    ),
    # What a job writes to -o is appended. Source: the same, bsub -r, -rn, -o; brequeue, for jobs of
    # one's own. Never run by us.
    requeue=RequeueWords(
        allowed=("-r",),
        forbidden=("-rn",),
        written=r"(?<!\S)-rn?(?!\S)",
        # An element of an array shares its job's number; elsewhere its own is 0.
        again='brequeue "$LSB_JOBID$([ "${LSB_JOBINDEX:-0}" = 0 ] || echo "[$LSB_JOBINDEX]")"',
    ),
    variables=("LSB_*", "LS_*", "LSF_*", "JSM_*"),
    launchers={
        # Registered by the settings that we write. Source of the words: Summit's guide (OLCF).
        "jsrun": Launcher(
            one_a_node=("-n", "{nodes}", "-r1", "-a1", "-c1"), devices=r"-g ?(\d+)", reframe="jsrun"
        ),
        "lrun": Launcher(one_a_node=("-N", "{nodes}", "-T1"), reframe="lrun"),
    },
    # Source: IBM Spectrum LSF 10.1, Command Reference: bsub (-rn: not run again; standard input),
    # bjobs (-a, -J, -o, -noheader), bkill (0 with -J: all jobs of that name); lsf.conf,
    # LSB_BJOBS_CONSISTENT_EXIT_CODE (where there is no job); "LSF terms and concepts" (UNKWN,
    # ZOMBI). Remembered: the sentence of bsub, %J and %I in a file's name. Never run by us.
    queue=BatchQueue(
        submit=("bsub", "-J", "{name}", "-rn", "-o", "{log}", "-e", "{log}"),
        script_on_stdin=True,
        number=r"Job <(?P<job>\d+)> is submitted",
        unfit_in_log="%",
        listing=("bjobs", "-noheader", "-J", "{name}", "-o", "jobid stat"),
        read=listed,
        none_listed=r"is not found|No unfinished job found|No matching job found",
        away=("bjobs", "-noheader", "-J", "{name}", "-o", "jobid stat"),
        read_away=unreachable,
        cancel=("bkill", "-J", "{name}", "0"),
        ended=(
            *("bjobs", "-a", "-noheader"),
            *("-o", "stat exit_code exit_reason delimiter='|'", "{job}"),
        ),
        ending=ending,
    ),
    # Source: bsub(1), "-V", bqueues(1); the words of a version: remembered.
    signs=SchedulerSigns(
        version_command="bsub -V",
        version=r"LSF\D* (?P<version>\d+\.\d[^,\s]*),",
        partitions_command="bqueues -w",
        head=1,
    ),
    reframe=ReframeBackend(
        name="lsf", written_options=r"-(J|o|e|W|n|nnodes)\b", script_on_compute_node=False
    ),
)
