"""IBM Spectrum LSF, with its jsrun and LLNL's lrun."""

from dlcontainer.schedulers.base import (
    BatchSystem,
    Launcher,
    RankVariables,
    ReframeBackend,
    Resource,
    hosts_listed,
    hosts_named,
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


def _limit(minutes: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02}"


LSF = BatchSystem(
    submit="bsub",
    node_count=hosts_listed("LSB_DJOB_HOSTFILE", condition=_COMPUTE),
    hosts=hosts_named("LSB_DJOB_HOSTFILE", condition=_COMPUTE),
    # Elements of an array share the first.
    job_number="${LSB_JOBID-}${LSB_JOBINDEX-}",
    directive="#BSUB",
    # Source: bsub(1). LLNL's accounts are groups: -G.
    resources={
        "account": Resource(written=r"-[PG] (?P<value>\S+)", line="-P {value}"),
        "partition": Resource(written=r"-q (?P<value>\S+)", line="-q {value}"),
        "time": Resource(written=r"-W (?P<value>\S+)", line="-W {value}"),
        "nodes": Resource(written=r"-nnodes (?P<value>\d+)", line="-nnodes {value}"),
    },
    time_limit=_limit,
    job_variable="LSB_JOBID",
    variables=("LSB_*", "LS_*", "LSF_*", "JSM_*"),
    launchers={
        # Registered by the settings that we write. Source of the words: Summit's guide (OLCF).
        "jsrun": Launcher(
            one_a_node=("-n", "{nodes}", "-r1", "-a1", "-c1"), devices=r"-g ?(\d+)", reframe="jsrun"
        ),
        "lrun": Launcher(one_a_node=("-N", "{nodes}", "-T1"), reframe="lrun"),
    },
    reframe=ReframeBackend(
        name="lsf", written_options=r"-(J|o|e|W|n|nnodes)\b", script_on_compute_node=False
    ),
)
