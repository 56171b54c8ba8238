"""Where ranks meet at a site without a scheduler, by a real mpirun: its second host is this one.

Open MPI starts a daemon of its own for that host, by an agent in place of ssh.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.formats import texts
from tests.integration.world import missing
from tests.jobs import MEET, Machine, Ran, plan_at, without_engine
from tests.values import TEMPLATES

AGENT = '#!/bin/sh\nshift  # the host\nexec /bin/sh -c "$*"\n'
HERE = os.uname().nodename
ONE_HOST, TWO_HOSTS = (HERE,), (HERE, "other")
OPEN_MPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
LOCAL = ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine.made(tmp_path / "a machine")
    agent = machine.folder / "bin/agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    return machine


def scheduler(*launcher: str, kind: str = "none") -> dict[str, Any]:
    form = {"summary": "f", "launcher": launcher, "ranks_per_node": 2}
    return {"kind": kind, "forms": {"a": form}}


def by_mpirun(machine: Machine, folder: Path, hosts: tuple[str, ...], **environ: str) -> Ran:
    """Run a job of two ranks on each host, which meet and tell it; no engine starts."""
    if shutil.which("mpirun") is None:
        missing("openmpi-bin")
    (machine.folder / "meet.py").write_text(MEET)
    argv = ("mpirun", "--host", ",".join(f"{host}:2" for host in hosts), "-n", f"{2 * len(hosts)}")
    plan = plan_at(folder, scheduler=scheduler(*argv))
    machine.image(plan)
    return machine.run(
        without_engine(texts.text(plan, "job", [TEMPLATES])),
        *("/usr/bin/python3", str(machine.folder / "meet.py")),
        OMPI_MCA_plm="rsh",
        OMPI_MCA_plm_rsh_agent="agent",  # of PATH
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        **environ,
    )


def met(ran: Ran) -> list[tuple[int, int]]:
    """Give the local number of each rank that met, and of how many there."""
    assert ran.code == 0, ran.err
    [line] = [line for line in ran.out.splitlines() if line.startswith("met ")]
    return [(rank["local"], rank["there"]) for rank in json.loads(line.partition(" ")[2])]


def test_ranks_of_two_hosts_do_not_wait_at_the_loopback(machine: Machine, tmp_path: Path) -> None:
    ran = by_mpirun(machine, tmp_path, TWO_HOSTS)
    assert ran.code == 3, ran.err
    assert f"job: {HERE} has 2 of 4 ranks, and all are to meet at 127.0.0.1\n" in ran.err
    assert "  why: each host has a loopback of its own, and no scheduler names the first" in ran.err
    assert "  next: submit with DLCONTAINER_MASTER_ADDR=NAME, the first host's name\n" in ran.err
    assert ran.out == ""


def test_at_the_first_host_s_name_they_meet(machine: Machine, tmp_path: Path) -> None:
    ran = by_mpirun(machine, tmp_path, TWO_HOSTS, DLCONTAINER_MASTER_ADDR=HERE)
    assert met(ran) == [(0, 2), (1, 2)] * 2


def test_on_one_host_the_loopback_serves(machine: Machine, tmp_path: Path) -> None:
    assert met(by_mpirun(machine, tmp_path, ONE_HOST)) == [(0, 2), (1, 2)]


@pytest.mark.parametrize(
    ("numbers", "address", "kind", "code"),
    [
        ("1 4 1 2", "", "none", 3),
        ("1 4 1 2", "localhost", "none", 3),
        ("1 4 1 2", "127.0.1.1", "none", 3),
        ("1 4 1 2", "::1", "none", 3),
        ("1 4 1 2", "n1", "none", 0),
        ("1 4 1 4", "", "none", 0),
        # Nothing tells that there is another host.
        ("1 4 1", "", "none", 0),
        ("1", "", "none", 0),
        # A scheduler's hosts are known, and looked at before any rank starts: the user's own word.
        ("1 4 1 2", "127.0.0.1", "slurm", 0),
    ],
)
def test_only_what_a_launcher_tells_ends_a_rank(
    machine: Machine, tmp_path: Path, numbers: str, address: str, kind: str, code: int
) -> None:
    plan = plan_at(tmp_path, scheduler=scheduler("mpiexec", "-n", "{ranks}", kind=kind))
    machine.image(plan)
    ran = machine.job(plan, DLCONTAINER_MASTER_ADDR=address, SLURM_NNODES="2")
    done = ran.as_rank("env", **dict(zip((*OPEN_MPI, *LOCAL), numbers.split(), strict=False)))
    assert done.returncode == code, done.stderr
    assert ("has 2 of 4 ranks" in done.stderr) == bool(code)
    assert ("RANK=1" in done.stdout.splitlines()) != bool(code)


@pytest.mark.parametrize(("on_nodes", "code"), [("2(x2)", 3), ("3,1", 3), ("4", 0)])
def test_tasks_by_node_as_slurm_lists_them(
    machine: Machine, tmp_path: Path, on_nodes: str, code: int
) -> None:
    plan = plan_at(tmp_path, scheduler=scheduler("srun", "-n", "{ranks}"))
    machine.image(plan)
    told = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_TASKS_PER_NODE": on_nodes}
    assert machine.job(plan).as_rank("true", **told).returncode == code
