"""Who a rank of a proof is, and where ranks find each other. Standard library, Python >= 3.6.

A job script starts the ranks, not `dlcontainer bench`: the number and the size are torchrun's
(RANK, WORLD_SIZE) or the launcher's. They meet at an address that rank 0 writes into the proof's
folder, which therefore all ranks must see; DLC_RANKS_MEET says another one.
"""

import errno
import hashlib
import json
import os
import socket
import time

import barrier
import ranks
import scheduler_names

_PAUSE_S = 0.1
TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
# What tells one launch from another, for the name of the file.
_JOBS = scheduler_names.JOBS + (
    "PALS_APID",
    "PMIX_NAMESPACE",
    "OMPI_MCA_ess_base_jobid",
    "JSM_NAMESPACE_ID",
    "MASTER_ADDR",
    "MASTER_PORT",
)


def place(environ=os.environ):
    """Find this process's place among the ranks that its launcher says there are."""
    if ranks.asked(environ):
        return ranks.place(environ)
    rank, size, local, local_size = (ranks.number(environ, name) for name in TORCHRUN)
    if rank is not None and size is not None:
        if rank >= size:
            raise ranks.RanksError("RANK={} and WORLD_SIZE={}".format(rank, size))
        node = ranks.node(environ, rank, size)
        return ranks.Place(rank, size, local or 0, local_size, node)
    for names in ranks.LAUNCHERS:
        size = ranks.number(environ, names[1])
        if ranks.number(environ, names[0]) is not None and size:
            return ranks.place(dict(environ, DLC_RANKS=str(size)))
    return ranks.Place(0, 1, 0, 1, os.uname().nodename)


def cpus(environ=os.environ):
    """Say how many CPUs this process may use, and how many the job asked for it where that is told.

    To be asked early: a framework may bind its own threads.
    """
    told = [environ.get(name, "") for name in ranks.CPUS_ASKED]
    asked = [int(text) for text in told if text.isdigit()]
    return {"cpus": len(os.sched_getaffinity(0)), "cpus_asked": asked[0] if asked else None}


def meeting(own, folder, patience, environ=os.environ):
    """Give the ranks' barrier; raises RanksError where they don't all come."""
    around = dict(environ, DLC_RANKS_PATIENCE=str(int(patience)))
    path = None
    if own.size > 1 and not environ.get("DLC_RANKS_MEET"):
        path = os.path.join(folder, "meet-{}.json".format(_launch(environ)))
        around.update(
            _offer(own, path, environ) if own.rank == 0 else _awaited(own, path, patience)
        )
    try:
        return barrier.Meeting(own, around)
    finally:
        if path and own.rank == 0:
            os.unlink(path)


def _launch(environ):
    words = ["{}={}".format(name, environ[name]) for name in _JOBS if environ.get(name)]
    return hashlib.sha256(os.fsencode("\n".join(words))).hexdigest()[:12]


def _offer(own, path, environ):
    free = socket.socket()
    try:
        free.bind(("", 0))
        port = free.getsockname()[1]
    finally:
        free.close()
    alone = own.local_size == own.size
    host = "127.0.0.1" if alone else environ.get("MASTER_ADDR") or os.uname().nodename
    found = {
        "DLC_RANKS_MEET": "{}:{}".format(host, port),
        "DLC_RANKS_TOKEN": hashlib.sha256(os.urandom(32)).hexdigest()[:32],
    }
    write(path, json.dumps(found))
    return found


def _awaited(own, path, patience):
    end = time.time() + patience
    while time.time() < end:
        try:
            with open(path) as file:
                return json.load(file)
        except (OSError, ValueError):
            time.sleep(_PAUSE_S)
    raise ranks.RanksError(
        "rank {} of {} waited {:.0f} s for {}, which rank 0 writes: either rank 0 never began, or "
        "this folder is not the same for all ranks; name one on a file system that all nodes "
        "share".format(own.rank, own.size, patience, path)
    )


def write(path, text):
    """Write a file so that it appears whole."""
    aside = "{}.{}.part".format(path, os.getpid())
    try:
        with open(aside, "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        if os.path.exists(aside):
            os.unlink(aside)


def write_once(path, text):
    """Write a file that must not be there yet, nor be written by another process just now."""
    claim = path + ".claim"
    os.close(os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        if os.path.exists(path):
            raise OSError(errno.EEXIST, "it is there already", path)
        write(path, text)
    finally:
        os.unlink(claim)


def mount(path):
    """Name the mount that a file is on: its device number and the kind of its file system."""
    number = os.stat(path).st_dev
    device = "{}:{}".format(os.major(number), os.minor(number))
    try:
        with open("/proc/self/mountinfo", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        lines = []
    for line in lines:
        fields, _, rest = line.partition(" - ")
        if fields.split(" ")[2] == device:
            return {"device": device, "kind": rest.split(" ")[0]}
    return {"device": device, "kind": None}


def present():
    """Count the accelerators that the node's kernel drivers show, whoever may use them."""
    try:
        return len(os.listdir("/proc/driver/nvidia/gpus"))
    except OSError:
        pass
    nodes, found = "/sys/class/kfd/kfd/topology/nodes", 0
    try:
        for name in os.listdir(nodes):
            with open(os.path.join(nodes, name, "gpu_id")) as file:
                found += file.read().strip() not in ("", "0")
    except OSError:
        return None
    return found
