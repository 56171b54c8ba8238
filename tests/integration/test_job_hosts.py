"""Ranks of a job meet over the network of four hosts, as `lab slownet` makes them: no root.

Their names lead to the loopback, as Debian writes it for its own; only the site's way of naming
the first node leads to it. The job script is PBS's, on its first host; `mpiexec` is ours.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.formats import texts
from tests.integration.world import isolated, missing
from tests.jobs import BASH, MEET, plan_at, without_engine
from tests.skips import skip
from tests.values import TEMPLATES

HOSTS = 4
# The names lead to where the test says, in mounts of its own.
NAMED = 'mount --bind "$PWD/hosts" /etc/hosts && exec "$@"'
MPIEXEC = """\
#!/bin/bash
shift 4  # -n RANKS -ppn RANKS_PER_NODE
rank=0
for host in $(cat "$PBS_NODEFILE"); do
    for local in 0 1; do
        PALS_RANKID=$rank PALS_LOCAL_RANKID=$local dlc-on "$host" "$@" &
        rank=$((rank + 1))
    done
done
code=0
for child in $(jobs -p); do wait "$child" || code=$?; done
exit "$code"
"""


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    """Give the folder of a small cluster's files."""
    for program in ("ip", "tc", "nsenter", "unshare"):
        if shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
            missing(f"{program} (iproute2, util-linux)")
    made = subprocess.run(
        ["unshare", "--map-root-user", "--net", "true"], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        skip(f"no namespaces of one's own here: {made.stderr.strip()}", elsewhere="another kernel")
    folder = tmp_path / "ground"
    (folder / "bin").mkdir(parents=True)
    names = [f"n{number}" for number in range(1, 1 + HOSTS)]
    addresses = "".join(f"10.99.0.{name[1:]} {name}.hsn\n" for name in names)
    (folder / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {' '.join(names)}\n{addresses}")
    (folder / "nodes").write_text("".join(f"{name}\n" for name in names))
    (folder / "meet.py").write_text(MEET)
    (folder / "bin/mpiexec").write_text(MPIEXEC)
    (folder / "bin/mpiexec").chmod(0o755)
    return folder


OWN = "127.0.1.1 n1 n2 n3 n4\n"
ADDRESSES = "".join(f"10.99.0.{host} n{host}\n" for host in range(1, 1 + HOSTS))


def submit(
    ground: Path, tmp_path: Path, rendezvous: dict[str, Any], hosts: int = HOSTS
) -> "subprocess.CompletedProcess[str]":
    """Run a job of two ranks on each of some of the hosts."""
    form = {
        "summary": "two ranks a host",
        "launcher": ["mpiexec", "-n", "{ranks}", "-ppn", "{ranks_per_node}"],
        "ranks_per_node": 2,
    }
    scheduler = {"kind": "pbs", "forms": {"a": form}}
    plan = plan_at(tmp_path, scheduler=scheduler, jobs={"rendezvous": rendezvous})
    # Outside of an image: an engine would need namespaces within these.
    (ground / "job.sh").write_text(without_engine(texts.text(plan, "job", [TEMPLATES])))
    (ground / f"{plan.name}.sif").touch()
    (ground / "nodes").write_text("".join(f"n{host}\n" for host in range(1, 1 + hosts)))
    user = isolated(tmp_path / "user", tmp_path / "cache")
    words = ("lab", "slownet", "--by", "tbf", "--hosts", HOSTS)
    job = (BASH, "job.sh", "/usr/bin/python3", "meet.py")
    argv = (*words, "--", "unshare", "--mount", "/bin/sh", "-c", NAMED, "sh", *job)
    return subprocess.run(
        [*user.program, *map(str, argv)],
        cwd=ground,
        env={
            **user.environ,
            "PATH": f"{ground}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "PBS_JOBID": "77.server",
            "PBS_NODEFILE": str(ground / "nodes"),
            # The network names its first host to jobs without a scheduler; this one has one.
            "DLCONTAINER_MASTER_ADDR": "",
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def require_met(done: "subprocess.CompletedProcess[str]", hosts: int = HOSTS) -> None:
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith("met ")]
    met = json.loads(line.partition(" ")[2])
    assert [(one["rank"], one["local"], one["node"]) for one in met] == [
        (rank, rank % 2, f"n{1 + rank // 2}") for rank in range(2 * hosts)
    ]


@pytest.mark.parametrize("rendezvous", [{"suffix": ".hsn"}, {"interface": "eth0"}])
def test_ranks_on_four_hosts_meet(ground: Path, tmp_path: Path, rendezvous: dict[str, Any]) -> None:
    require_met(submit(ground, tmp_path, rendezvous))


@pytest.mark.parametrize(
    ("rendezvous", "own"),
    [
        ({}, OWN),
        ({"address": True}, OWN),
        ({}, "fe80::1 n1\n"),
        ({"interface": "not0"}, OWN),
    ],
)
def test_a_name_s_address_that_others_reach_is_taken(
    ground: Path, tmp_path: Path, rendezvous: dict[str, Any], own: str
) -> None:
    (ground / "hosts").write_text(own + ADDRESSES)
    done = submit(ground, tmp_path, rendezvous)
    require_met(done)
    assert ("not0 has no address on n1: its name's is taken" in done.stderr) == (
        "interface" in rendezvous
    )


# Each job waits for its ranks to give up; the answer is one rule's: two in the short set.
@pytest.mark.parametrize(
    ("own", "rendezvous"),
    [
        ("127.0.1.1", {}),
        ("fe80::1", {"address": True}),
        pytest.param("127.0.0.1", {}, marks=pytest.mark.long),
        pytest.param("::1", {}, marks=pytest.mark.long),
        pytest.param("fe80::1", {}, marks=pytest.mark.long),
        pytest.param("127.0.0.1", {"address": True}, marks=pytest.mark.long),
        pytest.param("127.0.1.1", {"address": True}, marks=pytest.mark.long),
        pytest.param("::1", {"address": True}, marks=pytest.mark.long),
    ],
)
def test_a_first_node_that_others_can_t_reach_ends_the_job(
    ground: Path, tmp_path: Path, rendezvous: dict[str, Any], own: str
) -> None:
    (ground / "hosts").write_text(f"{own} n1 n2 n3 n4\n")
    done = submit(ground, tmp_path, rendezvous)
    assert done.returncode == 3, done.stderr
    assert f"job: the other nodes can't reach n1: to n1 it is {own} " in done.stderr
    assert "next: qsub -v DLCONTAINER_MASTER_ADDR=ADDRESS job.sh (n1 has 10.99.0.1 at eth0" in (
        done.stderr
    )
    assert done.stdout == ""


@pytest.mark.parametrize("rendezvous", [{}, {"address": True}])
def test_on_one_node_the_loopback_serves(
    ground: Path, tmp_path: Path, rendezvous: dict[str, Any]
) -> None:
    (ground / "hosts").write_text(f"127.0.0.1 localhost\n{OWN}")
    require_met(submit(ground, tmp_path, rendezvous, hosts=1), hosts=1)
