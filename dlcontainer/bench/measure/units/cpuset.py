"""The processors that all processes of a group are bound to: cores of one NUMA node."""

import os
from collections.abc import Collection
from pathlib import Path

_SYSTEM = Path("/sys/devices/system")


def choose(
    threads: int, *, allowed: Collection[int] | None = None, system: Path = _SYSTEM
) -> tuple[int, ...] | None:
    """Choose a core for each thread, all of one NUMA node; None where no node has so many.

    The last cores are taken: a kernel gives the first ones its own work.
    """
    usable = set(os.sched_getaffinity(0) if allowed is None else allowed)
    nodes = [_listed(path / "cpulist") & usable for path in sorted(system.glob("node/node[0-9]*"))]
    # A kernel without NUMA lists no nodes: all of it is one.
    for cpus in [node for node in nodes if node] or [usable]:
        cores = _cores(cpus, system)
        if len(cores) >= threads:
            return tuple(cores[-threads:])
    return None


def _cores(cpus: Collection[int], system: Path) -> list[int]:
    """Return one processor of each core."""
    taken: set[int] = set()
    cores = []
    for cpu in sorted(cpus):
        if cpu not in taken:
            cores.append(cpu)
            taken |= _listed(system / f"cpu/cpu{cpu}/topology/thread_siblings_list") | {cpu}
    return cores


def _listed(path: Path) -> set[int]:
    """Read a list like 0-3,8; empty where there is none."""
    try:
        text = path.read_text().strip()
    except OSError:
        return set()
    cpus: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus
