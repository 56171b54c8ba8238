"""PBS Professional and OpenPBS, with HPE's PALS."""

from dlcontainer.schedulers.base import BatchSystem, ReframeBackend, hosts_listed

PBS = BatchSystem(
    submit="qsub",
    takes_words=False,
    variable_option="-v",
    node_count=hosts_listed("PBS_NODEFILE"),
    # Jobs start in the home folder.
    enter_folder='cd "${PBS_O_WORKDIR:-$PWD}"',
    job_variable="PBS_JOBID",
    variables=("PBS_*", "PALS_*"),
    reframe=ReframeBackend(name="pbs", written_options=r"(-N|-o|-e|-l\s*(select|walltime|place)=)"),
)
