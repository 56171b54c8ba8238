"""Which rank this process is, and where its result goes. Standard library, Python >= 3.6.

The contract between who starts ranks (`dlcontainer bench --ranks`) and each of them, in variables:

DLC_RANKS          how many ranks were asked for; unset: a single process that prints its result
DLC_RANKS_RESULTS  the folder of this launch, as this process sees it (the arms bind it at /mnt)
DLC_RANKS_MEET     HOST:PORT where rank 0 listens for the barrier
DLC_RANKS_TOKEN    what a rank says there first, so that no stranger is taken for one
DLC_RANKS_START    storm: a barrier before the import; natural: none
DLC_RANKS_PER_NODE how many ranks a node has, where the launcher's variables don't say
DLC_RANKS_PATIENCE seconds that a rank waits for others
DLC_RANKS_BEGIN    when the launcher had started this rank, ns of CLOCK_REALTIME
MASTER_ADDR, MASTER_PORT  where a framework's process group meets (a port of its own)

A rank's number, size and place on its node come from DLC_RANK, DLC_LOCAL_RANK where they are set,
else from the launcher's own variables. Launchers mix what ranks print, so each rank writes one file
rank-NNNNN.json, which appears whole. A rank without one died; what started it kept what it said
last (rank-N.err) and its exit code (rank-N.exit), by which the others know that they need not wait.
"""

import os

from scheduler_names import CPUS_ASKED, LAUNCHERS  # noqa: F401

OWN = ("DLC_RANK", "DLC_RANKS", "DLC_LOCAL_RANK", "DLC_LOCAL_SIZE")


class RanksError(Exception):
    """The ranks are not those that were asked for, or one of them is gone."""


class Place(object):
    """This process among its ranks; `local_size` is None where the launcher does not say."""

    def __init__(self, rank, size, local_rank, local_size, node):
        self.rank, self.size, self.node = rank, size, node
        self.local_rank, self.local_size = local_rank, local_size

    def facts(self):
        """Give what is written into the result."""
        return {"rank": self.rank, "size": self.size, "local_rank": self.local_rank,
                "node": self.node}  # fmt: skip

    def export(self, environ):
        """Set what frameworks read with init_method env:// (MASTER_* are set by the launch)."""
        environ.update(
            RANK=str(self.rank), WORLD_SIZE=str(self.size), LOCAL_RANK=str(self.local_rank)
        )


def asked(environ=os.environ):
    """Tell whether this process is one of ranks that were asked for."""
    return bool(environ.get("DLC_RANKS"))


def place(environ=os.environ):
    """Find this process's place; raises RanksError where there are not the ranks asked for."""
    wanted = number(environ, "DLC_RANKS") or 1
    for names in (OWN,) + LAUNCHERS:
        rank = number(environ, names[0])
        if rank is None:
            continue
        size = number(environ, names[1])
        size = wanted if size is None else size
        if size != wanted or not 0 <= rank < size:
            raise RanksError(
                "this is rank {} of {} by {}, and {} ranks were asked for".format(
                    rank, size, names[0], wanted
                )
            )
        local = number(environ, names[2])
        if local is None:
            # PMI says no local rank; Slurm beneath it does.
            local = number(environ, "SLURM_LOCALID")
        if local is None:
            # Block placement is all that can be supposed where nothing is said.
            local = rank % (number(environ, "DLC_RANKS_PER_NODE") or wanted)
        return Place(rank, size, local, number(environ, names[3]), node(environ, rank, size))
    if wanted > 1:
        raise RanksError("no variable of a launcher that is known says which rank this is")
    return Place(0, 1, 0, 1, os.uname().nodename)


def node(environ, rank, size):
    """Name this rank's node: as Slurm does where srun started the rank, else as the kernel does.

    Slurm may run several nodes on one host. What another launcher hands on of the batch script's
    variables names the batch script's node for every rank; it has no step of as many tasks.
    """
    name = environ.get("SLURMD_NODENAME")
    step = number(environ, "SLURM_PROCID"), number(environ, "SLURM_STEP_NUM_TASKS")
    return name if name and step == (rank, size) else os.uname().nodename


def attests(environ=os.environ):
    """Tell whether this process says what its node and its stack are: one a node does."""
    try:
        return place(environ).local_rank == 0
    except RanksError:
        return False


def stamps(environ):
    """Take the stamps, ns, of those that started this process out of its environment."""
    found = {}
    for name, variable in (("launcher", "DLC_RANKS_BEGIN"), ("inside", "DLC_PROBE_INSIDE")):
        text = environ.pop(variable, "")
        found[name] = int(text) if text.isdigit() else None
    return found


def number(environ, name):
    text = environ.get(name, "")
    return int(text) if text.isdigit() else None


def write(folder, rank, text):
    """Write a rank's result so that it appears whole."""
    target = os.path.join(folder, "rank-{:05d}.json".format(rank))
    aside = "{}.{}.part".format(target, os.getpid())
    with open(aside, "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.rename(aside, target)


def aside(own, kind, environ=os.environ):
    """Give the path of a file that a rank may write beside its result."""
    return os.path.join(environ.get("DLC_RANKS_RESULTS", "."), "rank-{:05d}.{}".format(own.rank, kind))


def say(body, environ=os.environ):
    """Hand a result over: into the launch's folder, or printed by a single process.

    A rank that can't tell its number still says what is wrong, under its process's number.
    """
    import json

    if not asked(environ):
        print(json.dumps(body, sort_keys=True))
        return
    try:
        body["place"] = place(environ).facts()
        number = body["place"]["rank"]
    except RanksError as problem:
        body["error"] = body.get("error") or str(problem)
        number = 90000 + os.getpid() % 10000
    write(environ["DLC_RANKS_RESULTS"], number, json.dumps(body, sort_keys=True))
