"""The processors of a group: whole cores of one NUMA node."""

from pathlib import Path

import pytest

from dlcontainer.bench.measure.units import cpuset


def machine(folder: Path, nodes: list[str], siblings: dict[int, str]) -> Path:
    for number, cpus in enumerate(nodes):
        (folder / f"node/node{number}").mkdir(parents=True)
        (folder / f"node/node{number}/cpulist").write_text(cpus + "\n")
    for cpu, listed in siblings.items():
        (folder / f"cpu/cpu{cpu}/topology").mkdir(parents=True)
        (folder / f"cpu/cpu{cpu}/topology/thread_siblings_list").write_text(listed + "\n")
    return folder


HYPERTHREADS = {0: "0,4", 1: "1,5", 2: "2,6", 3: "3,7", 4: "0,4", 5: "1,5", 6: "2,6", 7: "3,7"}


@pytest.mark.parametrize(
    ("nodes", "siblings", "allowed", "threads", "chosen"),
    [
        (["0-3"], {}, range(4), 1, (3,)),
        (["0-3"], {}, range(4), 4, (0, 1, 2, 3)),
        (["0-3"], {}, range(4), 5, None),
        # No core twice, and no second node.
        (["0-7"], HYPERTHREADS, range(8), 2, (2, 3)),
        (["0-7"], HYPERTHREADS, range(8), 5, None),
        (["0-1", "2-3"], {}, range(4), 2, (0, 1)),
        (["0-1", "2-3"], {}, range(4), 3, None),
        # A job's share of the machine, the first node's one core too few.
        (["0-3", "4-7"], {}, [3, 4, 5], 2, (4, 5)),
        (["0-7"], HYPERTHREADS, [4, 5], 2, (4, 5)),
        # A kernel without NUMA.
        ([], {}, [0, 1], 2, (0, 1)),
    ],
)
def test_the_cores_of_one_node(
    tmp_path: Path,
    nodes: list[str],
    siblings: dict[int, str],
    allowed: list[int],
    threads: int,
    chosen: tuple[int, ...] | None,
) -> None:
    system = machine(tmp_path, nodes, siblings)
    assert cpuset.choose(threads, allowed=allowed, system=system) == chosen
