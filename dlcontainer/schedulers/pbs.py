"""PBS Professional and OpenPBS, with HPE's PALS."""

from dlcontainer.schedulers.base import (
    BatchSystem,
    ReframeBackend,
    Resource,
    hosts_listed,
    hosts_named,
)
from dlcontainer.schedulers.mpi import APRUN

PBS = BatchSystem(
    submit="qsub",
    takes_words=False,
    variable_option="-v",
    node_count=hosts_listed("PBS_NODEFILE"),
    hosts=hosts_named("PBS_NODEFILE"),
    # A job's script runs on the first host of its list (PBS Professional, User's Guide).
    script_on_first='[ -n "${PBS_JOBID-}" ]',
    job_number="${PBS_JOBID-}",
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
    # Jobs start in the home folder.
    enter_folder='cd "${PBS_O_WORKDIR:-$PWD}"',
    job_variable="PBS_JOBID",
    variables=("PBS_*", "PALS_*"),
    # PBS started ranks on Cray's XC through ALPS.
    launchers={"aprun": APRUN},
    reframe=ReframeBackend(name="pbs", written_options=r"(-N|-o|-e|-l\s*(select|walltime|place)=)"),
)
