"""Grid Engine: Son of Grid Engine, Univa's and Altair's.

A job asks for slots of a parallel environment, and nodes follow from the slots that each gives.
"""

from dlcontainer.schedulers.base import BatchSystem, ReframeBackend, Resource, hosts_named

# Source: qsub(1), "ENVIRONMENTAL VARIABLES", sge_pe(5) of gridengine 8.1.9.
GRID_ENGINE = BatchSystem(
    submit="qsub",
    variable_option="-v",
    node_count="${NHOSTS-}",
    # HOST SLOTS QUEUE PROCESSORS; without a parallel environment there is no such file.
    hosts=hosts_named("PE_HOSTFILE"),
    # A job's script runs on the first host of its list.
    script_on_first='[ -n "${JOB_ID-}" ]',
    # "undefined" but in an array of tasks.
    job_number="${JOB_ID-}${SGE_TASK_ID-}",
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
    # Jobs start in the home folder, unless they ask for -cwd.
    enter_folder='cd "${SGE_O_WORKDIR:-$PWD}"',
    job_variable="JOB_ID",
    variables=("SGE_*",),
    reframe=ReframeBackend(name="sge", written_options=r"(-N|-o|-e|-wd|-l\s*h_rt=)"),
)
