"""NUMA nodes: which processors they have, a process on one of them, and where memory lies.

Standard library, Python >= 3.6. Linux gives a page to the node of the processor that touches it
first (Documentation/admin-guide/mm/numa_memory_policy.rst), so memory is placed by who fills it.
Where it came to lie is asked by move_pages(2), which moves nothing when it is given no nodes.
"""

import ctypes
import glob
import os
import platform

FOLDER = "/sys/devices/system/node"
# The number of move_pages, by machine (arch/*/syscalls*.tbl, include/uapi/asm-generic/unistd.h).
_MOVE_PAGES = {"x86_64": 279, "aarch64": 239, "ppc64le": 301, "riscv64": 239}


def known(folder=FOLDER):
    """List the numbers of this machine's nodes; empty where Linux names none."""
    names = [os.path.basename(path)[4:] for path in glob.glob(folder + "/node[0-9]*")]
    return sorted(int(name) for name in names if name.isdigit())


def processors(node, folder=FOLDER):
    """Give the processors of a node."""
    with open("{}/node{}/cpulist".format(folder, node)) as file:
        return listed(file.read())


def listed(text):
    """Read a list as Linux writes it: 0-3,8."""
    found = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            found.update(range(int(first), int(last or first) + 1))
    return found


def bind(cpus):
    """Put all threads of this process on these processors; those to come inherit it."""
    for thread in os.listdir("/proc/self/task"):
        try:
            os.sched_setaffinity(int(thread), cpus)
        except ProcessLookupError:  # it has ended meanwhile
            pass


def of(address, size):
    """Give the nodes of the first, the middle and the last page; None where nobody says.

    A container's filter may refuse the call, and kernels without NUMA do not have it.
    """
    number, page = _MOVE_PAGES.get(platform.machine()), os.sysconf("SC_PAGE_SIZE")
    if number is None:
        return None
    places = sorted({(address + at) // page * page for at in (0, size // 2, size - 1)})
    pages = (ctypes.c_void_p * len(places))(*places)
    status = (ctypes.c_int * len(places))(*([-1] * len(places)))
    words = [ctypes.c_long(number), ctypes.c_long(0), ctypes.c_ulong(len(places)), pages]
    words += [ctypes.c_void_p(None), status, ctypes.c_long(0)]
    if ctypes.CDLL(None, use_errno=True).syscall(*words) or min(status) < 0:
        return None
    return sorted(set(status))
