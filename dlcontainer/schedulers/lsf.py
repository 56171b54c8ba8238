"""IBM Spectrum LSF, with its jsrun and LLNL's lrun."""

from dlcontainer.schedulers.base import BatchSystem, Launcher, ReframeBackend, hosts_listed

LSF = BatchSystem(
    submit="bsub",
    # The list has the node that the script itself runs on too, whose name tells it apart at the
    # centres that document it (OLCF, LLNL).
    node_count=hosts_listed("LSB_DJOB_HOSTFILE", condition="!/^(batch|launch|login)/"),
    job_variable="LSB_JOBID",
    variables=("LSB_*", "LS_*", "LSF_*", "JSM_*"),
    launchers={
        "jsrun": Launcher(reframe="jsrun"),  # registered by the settings that we write
        "lrun": Launcher(reframe="lrun"),
    },
    reframe=ReframeBackend(
        name="lsf", written_options=r"-(J|o|e|W|n|nnodes)\b", script_on_compute_node=False
    ),
)
