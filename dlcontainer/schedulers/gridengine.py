"""Grid Engine: Son of Grid Engine, Univa's and Altair's.

A job asks for slots of a parallel environment, and nodes follow from the slots that each gives.
"""

import re

from dlcontainer.schedulers import time_limits
from dlcontainer.schedulers.scheduler import (
    BatchQueue,
    BatchSystem,
    Cause,
    JobVariables,
    MemoryWords,
    QueuedJob,
    ReframeBackend,
    RequeueWords,
    Resource,
    SchedulerEnding,
    SchedulerSigns,
    WarningWords,
    hosts_named,
)

# qstat's list is of all jobs of the user.
_LISTED = re.compile(
    r"<JB_job_number>(?P<number>\d+)</JB_job_number>"
    r"(?:(?!</job_list>).)*?<JB_name>(?P<name>[^<]*)</JB_name>"
    r"(?:(?!</job_list>).)*?<state>(?P<state>[^<]*)</state>",
    re.DOTALL,
)
# Source: sge_status(5), "Failed states": the node, a daemon or a script of the site failed, before
# the job or after it. 100 is the job's: "killed by a signal" comes first among its causes.
_OUTSIDE = frozenset({1, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 36, 38})
_LIMIT = 37


def listed(text: str, name: str) -> tuple[QueuedJob, ...]:
    """Read the jobs of a name in what `qstat -xml` prints."""
    matches = (match for match in _LISTED.finditer(text) if match["name"] == name)
    return tuple(QueuedJob(number=match["number"], state=match["state"]) for match in matches)


def ending(text: str) -> SchedulerEnding | None:
    """Read the last record of a job in what `qacct -j` prints."""
    record = text.rpartition("=====\n")[2]
    failed = re.search(r"(?m)^failed +(?P<code>\d+) *(?:: *(?P<words>.*\S))?", record)
    exited = re.search(r"(?m)^exit_status +(?P<code>\d+)", record)
    if failed is None or exited is None:
        return None
    code, state = int(failed["code"]), f"exit_status {exited['code']}"
    if code == 0:
        return SchedulerEnding(state=state, cause="none" if exited["code"] == "0" else "job")
    outside: Cause = "outside" if code in _OUTSIDE else "job"
    words = f"failed {code}: {failed['words']}" if failed["words"] else f"failed {code}"
    return SchedulerEnding(state=f"{words}, {state}", cause="limit" if code == _LIMIT else outside)


# Source: qsub(1), "ENVIRONMENTAL VARIABLES", sge_pe(5) of gridengine 8.1.9.
GRID_ENGINE = BatchSystem(
    submit="qsub",
    variable_option="-v",
    # A complex of the site's own, by custom called so.
    gpu_example="#$ -l gpu={count}",
    gpu_words=r"\S*gpus?=",
    node_count="${NHOSTS-}",
    # HOST SLOTS QUEUE PROCESSORS; without a parallel environment there is no such file.
    hosts=hosts_named("PE_HOSTFILE"),
    # A job's script runs on the first host of its list.
    script_on_first='[ -n "${JOB_ID-}" ]',
    directive="#$",
    # A queue may say another shell, csh at first, whatever the script's first line is.
    needed=("#$ -S /bin/bash",),
    parallel="-pe {name} {slots}",
    # -P is a project; which of both is charged is the site's own. h_rt is the hard limit.
    resources={
        "account": Resource(written=r"-[AP] (?P<value>\S+)", line="-A {value}"),
        "partition": Resource(written=r"-q (?P<value>\S+)", line="-q {value}"),
        "time": Resource(written=r"-l (?:\S+,)?h_rt=(?P<value>[^,\s]+)", line="-l h_rt={value}"),
    },
    read_time=time_limits.grid_engine,
    # Source: sge_types(5), "memory_specifier"; consumables are asked for each slot (complex(5)).
    memory=(
        MemoryWords(
            written=r"-l \S*?\b(?P<name>[hs]_(?:vmem|rss|data)|mem_free)=(?P<value>[^,\s]+)",
            of="a slot",
            units={
                "": "bytes",
                **{letter: f"{letter}iB" for letter in "KMGT"},
                **{letter: f"{letter.upper()}B of 1000" for letter in "kmgt"},
            },
        ),
    ),
    # SIGUSR2 before SIGKILL, as long before as `notify` of the queue says; SIGUSR1 before
    # SIGSTOP. Source: qsub(1), "-notify"; queue_conf(5), "notify". Never run by us.
    warning=WarningWords(
        words="-notify", written=r"(?<!\S)-notify\b", signals=("USR2",), timed=False
    ),
    # 99 begins again, unless the cell forbids it. Source: qsub(1), "-r"; sge_conf(5),
    # "FORBID_RESCHEDULE".
    requeue=RequeueWords(
        allowed=("-r yes",), forbidden=("-r no",), written=r"(?<!\S)-r\b", again="dlc_code=99"
    ),
    # Jobs start in the home folder, unless they ask for -cwd.
    enter_folder='cd "${SGE_O_WORKDIR:-$PWD}"',
    # Other programs call a number of theirs JOB_ID too. The element is "undefined" but in an array;
    # RESTARTED is 1 after a crash, 2 from a checkpoint, else 0. Source: qsub(1).
    job=JobVariables(
        number="JOB_ID", sign="SGE_TASK_ID", element="SGE_TASK_ID", restart="RESTARTED"
    ),
    variables=("SGE_*",),
    # Source: qsub(1) (-r n: not run again), qstat(1), qdel(1), qacct(1), sge_status(5); run by us
    # with 8.1.9.
    queue=BatchQueue(
        submit=(
            *("qsub", "-terse", "-r", "n", "-N", "{name}"),
            *("-j", "y", "-o", "{log}"),
        ),
        number=r"(?m)^(?P<job>\d+)$",
        # [HOST:]PATH,... with variables. Source: qsub(1), "-e".
        unfit_in_log=":,$",
        # qstat itself puts the user's name for $user.
        listing=("qstat", "-xml", "-u", "$user"),
        read=listed,
        stuck=frozenset({"Eqw", "Ehqw", "EhRqw"}),
        explain=("qstat", "-j", "{job}"),
        reason=r"(?m)^error reason.*",
        # In queues that are unknown; a job there runs on until the node is back, its limit too.
        away=("qstat", "-xml", "-u", "$user", "-s", "r", "-qs", "u"),
        read_away=listed,
        cancel=("qdel", "{name}"),
        ended=("qacct", "-j", "{job}"),
        ending=ending,
        # The accounting file is written every 15 s; sge_conf(5), "flush_time".
        told_within_s=60.0,
    ),
    # Source: qstat(1), qconf(1); the words of 8.1.9: run by us, of others: remembered.
    signs=SchedulerSigns(
        version_command="qstat -help",
        version=r"^(?:SGE|GE|UGE|OGS/GE|AGE|OCS) (?P<version>\d\S*)",
        partitions_command="qconf -sql",
    ),
    reframe=ReframeBackend(name="sge", written_options=r"(-N|-o|-e|-wd|-l\s*h_rt=)"),
)
