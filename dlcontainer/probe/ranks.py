"""Which rank this process is, where its result goes, a barrier. Standard library, Python >= 3.6.

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
last (rank-N.err) and its exit code (rank-N.exit).
"""

import os
import time

# Python's `socket` would import half of what an import probe is to measure.
import _socket

_GREETING = 40  # bytes: 32 of the token, 8 of the rank's number
_GREETING_S = 10.0
_PAUSE_S = 0.005

# rank, size, local rank, local size. The first whose rank is set holds: inside a job of Slurm
# mpirun's ranks see Slurm's variables of the batch script too, so Slurm's own come late.
LAUNCHERS = (
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    (
        "JSM_NAMESPACE_RANK",
        "JSM_NAMESPACE_SIZE",
        "JSM_NAMESPACE_LOCAL_RANK",
        "JSM_NAMESPACE_LOCAL_SIZE",
    ),
    (
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_SIZE",
        "MV2_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_LOCAL_SIZE",
    ),
    ("PALS_RANKID", "PALS_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_TASKS_PER_NODE"),
    ("PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK", "PMIX_LOCAL_SIZE"),
)
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
    wanted = _number(environ, "DLC_RANKS") or 1
    node = os.uname().nodename
    for names in (OWN,) + LAUNCHERS:
        rank = _number(environ, names[0])
        if rank is None:
            continue
        size = _number(environ, names[1])
        size = wanted if size is None else size
        if size != wanted or not 0 <= rank < size:
            raise RanksError(
                "this is rank {} of {} by {}, and {} ranks were asked for".format(
                    rank, size, names[0], wanted
                )
            )
        local = _number(environ, names[2])
        if local is None:
            # PMI says no local rank; Slurm beneath it does.
            local = _number(environ, "SLURM_LOCALID")
        if local is None:
            # Block placement is all that can be supposed where nothing is said.
            local = rank % (_number(environ, "DLC_RANKS_PER_NODE") or wanted)
        return Place(rank, size, local, _number(environ, names[3]), node)
    if wanted > 1:
        raise RanksError("no variable of a launcher that is known says which rank this is")
    return Place(0, 1, 0, 1, node)


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


def _number(environ, name):
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


class Meeting(object):
    """A barrier: rank 0 waits for all others, then lets all go.

    Raises RanksError when a rank is gone or does not come in time.
    """

    def __init__(self, own, environ=os.environ):
        self.own, self.others, self.token = own, {}, environ.get("DLC_RANKS_TOKEN", "")
        host, _, port = environ.get("DLC_RANKS_MEET", "").rpartition(":")
        self.end = time.time() + (_number(environ, "DLC_RANKS_PATIENCE") or 600)
        try:
            if own.size > 1:
                self._gather(host, int(port)) if own.rank == 0 else self._join(host, int(port))
        except (OSError, ValueError) as problem:
            self.close()
            raise RanksError("waiting for the other ranks: {}".format(problem))

    def _gather(self, host, port):
        listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        try:
            listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
            # One node's ranks need no other's way in.
            listener.bind((host if host.startswith("127.") else "", port))
            listener.listen(self.own.size)
            while len(self.others) < self.own.size - 1:
                listener.settimeout(max(0.1, self.end - time.time()))
                self._welcome(listener._accept()[0])
        finally:
            listener.close()

    def _welcome(self, number):
        one = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM, 0, number)
        one.settimeout(_GREETING_S)
        try:
            said = _received(one, _GREETING)
        except OSError:
            said = b""
        rank = said[32:].strip()
        if said[:32] == self._word() and rank.isdigit() and 0 < int(rank) < self.own.size:
            one.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            self.others[int(rank)] = one
        else:
            one.close()

    def _join(self, host, port):
        while True:
            one = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
            one.settimeout(max(0.1, self.end - time.time()))
            try:
                one.connect((host, port))
                break
            except OSError:
                one.close()
                if time.time() > self.end:
                    raise
                time.sleep(_PAUSE_S)
        one.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        one.send(self._word() + "{:8d}".format(self.own.rank).encode())
        self.others[0] = one

    def _word(self):
        return self.token.ljust(32)[:32].encode()

    def wait(self):
        """Wait until every rank is here."""
        for rank in sorted(self.others):
            if self.own.rank:
                self._with(rank, self._send)
            if not self._with(rank, self._receive):
                self.close()
                raise RanksError("waiting for rank {}: it is gone".format(rank))
        if self.own.rank == 0:
            for rank in sorted(self.others):
                self._with(rank, self._send)

    def _with(self, rank, act):
        other = self.others[rank]
        try:
            other.settimeout(max(0.1, self.end - time.time()))
            return act(other)
        except OSError as problem:
            self.close()
            raise RanksError("waiting for rank {}: {}".format(rank, problem))

    def _send(self, other):
        other.send(b".")

    def _receive(self, other):
        return _received(other, 1)

    def close(self):
        """End it."""
        for other in self.others.values():
            other.close()


def _received(one, count):
    said = b""
    while len(said) < count:
        part = one.recv(count - len(said))
        if not part:
            return b""
        said += part
    return said
