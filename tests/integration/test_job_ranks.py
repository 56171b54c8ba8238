"""What each rank of a job script is told, run with the shell that stands in the script."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.jobs import Machine, Ran, plan_at

FORM = {"summary": "a", "launcher": ["srun", "-n{ranks}"], "ranks_per_node": 4}
TORCHRUN = {"summary": "b", "launcher": ["srun", "-n{nodes}"], "ranks_per_node": 4}
PLACE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine.made(tmp_path / "a machine")


def site(launcher: str = "srun", kind: str = "slurm", **jobs: Any) -> dict[str, Any]:
    form = {**FORM, "launcher": [launcher, "-n{ranks}"]}
    return {"scheduler": {"kind": kind, "forms": {"a": form}}, "jobs": jobs}


def told(ran: Ran, **environ: str) -> dict[str, str]:
    """Run a rank's shell as its launcher would; give the rank's environment."""
    done = subprocess.run(
        [*ran.rank, "env", "-0"], env=environ, capture_output=True, text=True, check=True
    )
    return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)


@pytest.mark.parametrize(
    ("launcher", "environ", "place"),
    [
        (
            "srun",
            {
                "SLURM_PROCID": "5",
                "SLURM_NTASKS": "8",
                "SLURM_LOCALID": "1",
                "SLURM_TASKS_PER_NODE": "4(x2)",
                "PMI_RANK": "0",  # of an mpirun around the job
            },
            "5 8 1 4",
        ),
        (
            "srun",
            {
                "SLURM_PROCID": "5",
                "SLURM_NTASKS": "6",
                "SLURM_LOCALID": "1",
                "SLURM_TASKS_PER_NODE": "4,2",
            },
            "5 6 1 4",
        ),
        (
            "mpiexec",
            {
                "SLURM_PROCID": "0",
                "SLURM_NTASKS": "1",
                "OMPI_COMM_WORLD_RANK": "3",
                "OMPI_COMM_WORLD_SIZE": "8",
                "OMPI_COMM_WORLD_LOCAL_RANK": "3",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
            },
            "3 8 3 4",
        ),
        ("mpiexec", {"PALS_RANKID": "6", "PALS_LOCAL_RANKID": "2"}, "6 8 2 4"),
        ("mpiexec", {"PMI_RANK": "6", "PMI_SIZE": "8"}, "6 8 2 4"),
        (
            "jsrun",
            {
                "JSM_NAMESPACE_RANK": "7",
                "JSM_NAMESPACE_SIZE": "8",
                "JSM_NAMESPACE_LOCAL_RANK": "3",
            },
            "7 8 3 4",
        ),
        ("ibrun", {"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2"}, "1 2 1 4"),
        ("aprun", {"PMI_RANK": "7"}, "7 8 3 4"),
    ],
)
def test_a_rank_takes_its_numbers_from_its_launcher(
    machine: Machine, tmp_path: Path, launcher: str, environ: dict[str, str], place: str
) -> None:
    kind = {"jsrun": "lsf", "aprun": "pbs"}.get(launcher, "slurm")
    plan = plan_at(tmp_path, **site(launcher, kind))
    machine.image(plan)
    hosts = machine.folder / "hosts"
    hosts.write_text("batch1\nn1\nn2\n" if kind == "lsf" else "n1\nn2\n")
    names = {"LSB_DJOB_HOSTFILE": str(hosts), "PBS_NODEFILE": str(hosts), "SLURM_NNODES": "2"}
    seen = told(machine.job(plan, **names), **environ)
    assert " ".join(seen[name] for name in PLACE) == place
    assert seen["MASTER_ADDR"]
    assert "TF_CONFIG" not in seen


def test_a_launcher_that_tells_nothing_is_named(machine: Machine, tmp_path: Path) -> None:
    plan = plan_at(tmp_path, **site())
    machine.image(plan)
    ran = machine.job(plan, SLURM_NNODES="1")
    done = subprocess.run([*ran.rank, "true"], env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "job: srun does not say which rank this is\n")


@pytest.mark.parametrize(
    ("rendezvous", "address"),
    [
        ({}, "x1001.cluster"),
        ({"suffix": "i"}, "x1001i"),
        ({"suffix": ".hsn.cm.example.org"}, "x1001.hsn.cm.example.org"),
        ({"address": True}, "10.1.2.3"),
        ({"interface": "hsn0"}, "10.9.8.7"),
    ],
)
def test_ranks_meet_in_the_sites_own_way(
    machine: Machine, tmp_path: Path, rendezvous: dict[str, Any], address: str
) -> None:
    says = {
        "uname": "x1001.cluster",
        "getent": "10.1.2.3        STREAM x1001.cluster\\n10.1.2.4        DGRAM",
        "ip": "3: hsn0    inet 10.9.8.7/16 brd 10.9.255.255 scope global hsn0",
    }
    for name, text in says.items():
        (machine.folder / "bin" / name).write_text(f"#!/bin/sh\nprintf '{text}\\n'\n")
        (machine.folder / "bin" / name).chmod(0o755)
    plan = plan_at(tmp_path, **site(rendezvous=rendezvous))
    machine.image(plan)
    ran = machine.job(plan, SLURM_NNODES="2", SLURM_JOB_ID="4711")
    seen = told(ran, SLURM_PROCID="0")
    assert (seen["MASTER_ADDR"], seen["MASTER_PORT"]) == (address, "14711")
    own = {"DLCONTAINER_MASTER_ADDR": "mine", "DLCONTAINER_MASTER_PORT": "9999"}
    seen = told(machine.job(plan, SLURM_NNODES="2", **own), SLURM_PROCID="0")
    assert (seen["MASTER_ADDR"], seen["MASTER_PORT"]) == ("mine", "9999")


def fake(machine: Machine, **programs: str) -> None:
    for name, text in programs.items():
        (machine.folder / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (machine.folder / "bin" / name).chmod(0o755)


@pytest.mark.parametrize(
    ("rendezvous", "known", "address"),
    [
        ({}, "127.0.1.1 STREAM n1\\n10.1.2.3 STREAM", "10.1.2.3"),
        ({}, "fe80::1%eth0 STREAM n1\\n2001:db8::1 STREAM", "2001:db8::1"),
        ({}, "::1 STREAM n1\\n2001:db8::1 STREAM\\n10.1.2.3 STREAM", "10.1.2.3"),
        ({"ipv6": True}, "::1 STREAM n1\\n10.1.2.3 STREAM\\n2001:db8::1 STREAM", "2001:db8::1"),
        ({"address": True}, "2001:db8::1 STREAM n1\\n10.1.2.3 STREAM", "10.1.2.3"),
        ({"address": True}, "::ffff:10.1.2.3 STREAM n1", "10.1.2.3"),
        # Its name leads to nothing that is near: others may know it, too.
        ({}, "2001:db8::1 STREAM n1\\n10.1.2.3 STREAM", "n1"),
        ({}, "", "n1"),
        ({"suffix": "i"}, "127.0.0.1 STREAM n1i\\n10.1.2.3 STREAM", "10.1.2.3"),
    ],
)
def test_the_first_node_is_named_as_others_reach_it(
    machine: Machine, tmp_path: Path, rendezvous: dict[str, Any], known: str, address: str
) -> None:
    fake(machine, uname="echo n1", scontrol="printf 'n1\\nn2\\n'", getent=f"printf '{known}\\n'")
    plan = plan_at(tmp_path, **site(rendezvous=rendezvous))
    machine.image(plan)
    seen = told(machine.job(plan, SLURM_NNODES="2"), SLURM_PROCID="0")
    assert seen["MASTER_ADDR"] == address


@pytest.mark.parametrize("near", ["127.0.0.1", "127.0.1.1", "::1", "fe80::1", "169.254.1.2"])
def test_a_first_node_that_no_other_reaches_ends_the_job(
    machine: Machine, tmp_path: Path, near: str
) -> None:
    asks = f'case $1 in -s) exit 2 ;; *) echo "{near} STREAM n1" ;; esac'
    one = "2: hsn0 inet 10.9.8.7/16 brd 10.9.255.255"
    two = f"printf '1: lo inet 127.0.0.1/8\\n{one}\\n'"
    fake(machine, uname="echo n1", scontrol="printf 'n1\\nn2\\n'", getent=asks, ip=two)
    plan = plan_at(tmp_path, **site())
    machine.image(plan)
    ran = machine.job(plan, SLURM_NNODES="2")
    assert (ran.code, ran.calls) == (3, [])
    assert f"job: the other nodes can't reach n1: to n1 it is {near} " in ran.err
    assert "next: DLCONTAINER_MASTER_ADDR=ADDRESS sbatch job.sh (n1 has 10.9.8.7 at hsn0; " in (
        ran.err
    )
    # What DNS tells the others; the user's own word; one node alone.
    fake(machine, getent=asks.replace("exit 2", "echo 10.1.2.3 STREAM"))
    assert told(machine.job(plan, SLURM_NNODES="2"), SLURM_PROCID="0")["MASTER_ADDR"] == "10.1.2.3"
    fake(machine, getent=asks)
    own = machine.job(plan, SLURM_NNODES="2", DLCONTAINER_MASTER_ADDR="10.9.8.7")
    assert told(own, SLURM_PROCID="0")["MASTER_ADDR"] == "10.9.8.7"
    fake(machine, scontrol="echo n1")
    assert told(machine.job(plan, SLURM_NNODES="1"), SLURM_PROCID="0")["MASTER_ADDR"] == "n1"


def test_outside_of_a_job_ranks_meet_nowhere(machine: Machine, tmp_path: Path) -> None:
    plan = plan_at(tmp_path, **site())
    machine.image(plan)
    ran = machine.job(plan, SLURM_NNODES="2", SLURM_NODEID="")
    assert (ran.code, ran.calls) == (3, [])
    assert "can't tell where the ranks of this job meet\n  next: run this in a job, or" in ran.err


@pytest.mark.parametrize(
    ("kind", "launcher", "environ", "port"),
    [
        ("slurm", "srun", {"SLURM_JOB_ID": "98765432"}, "15432"),
        ("slurm", "srun", {"SLURM_JOB_ID": "09"}, "10009"),
        ("pbs", "mpiexec", {"PBS_JOBID": "123[4].polaris-pbs-01"}, "11234"),
        ("lsf", "jsrun", {"LSB_JOBID": "77", "LSB_JOBINDEX": "12"}, "17712"),
    ],
)
def test_the_port_follows_from_the_jobs_number(
    machine: Machine, tmp_path: Path, kind: str, launcher: str, environ: dict[str, str], port: str
) -> None:
    plan = plan_at(tmp_path, **site(launcher, kind))
    machine.image(plan)
    hosts = machine.folder / "hosts"
    hosts.write_text("n1\n")
    names = {"LSB_DJOB_HOSTFILE": str(hosts), "PBS_NODEFILE": str(hosts), "SLURM_NNODES": "1"}
    ran = machine.job(plan, **names, **environ)
    assert ran.rank[5] == port


def test_tensorflow_is_told_its_workers(machine: Machine, tmp_path: Path) -> None:
    recipe = {"exposes": ["python", "saved_model_cli"]}
    form = {**FORM, "launcher": ["mpiexec"], "ranks_per_node": 2}
    scheduler = {"kind": "pbs", "forms": {"a": form}}
    jobs = {"rendezvous": {"suffix": ".hsn"}}
    plan = plan_at(tmp_path, recipe=recipe, scheduler=scheduler, jobs=jobs)
    machine.image(plan)
    hosts = machine.folder / "hosts"
    hosts.write_text("n1.x\nn1.x\nn2.x\n")
    ran = machine.job(plan, PBS_NODEFILE=str(hosts), PBS_JOBID="10.x")
    seen = json.loads(told(ran, PALS_RANKID="3")["TF_CONFIG"])
    assert seen == {
        "cluster": {"worker": [f"n{n}.hsn:{port}" for n in (1, 2) for port in (20020, 20021)]},
        "task": {"type": "worker", "index": 3},
    }


def test_one_torchrun_a_node(machine: Machine, tmp_path: Path) -> None:
    forms = {"gpu": FORM, "torchrun": {**TORCHRUN, "inside": "torchrun"}}
    scheduler = {"kind": "slurm", "forms": forms}
    recipe = {"exposes": ["python", "torchrun"]}
    plan = plan_at(tmp_path, recipe=recipe, scheduler=scheduler)
    image = machine.image(plan)
    ran = machine.job(plan, "python", "a b.py", SLURM_NNODES="2", DLCONTAINER_FORM="torchrun")
    address, port = ran.rank[4:6]
    assert ran.launched == [
        *("srun", "-n2", "apptainer", "exec", image),
        *("/opt/demo/bin/python", "-m", "torch.distributed.run", "--no_python", "--nnodes=2"),
        *("--nproc_per_node=4", f"--master_addr={address}", f"--master_port={port}"),
        *("python", "a b.py"),
    ]
    seen = told(ran, SLURM_PROCID="1", SLURM_NTASKS="2", SLURM_LOCALID="0")
    assert seen["PET_NODE_RANK"] == "1"
    assert not set(PLACE) & set(seen)


def test_a_form_whose_program_the_image_has_not_is_left_out(
    machine: Machine, tmp_path: Path
) -> None:
    forms = {"torchrun": {**TORCHRUN, "inside": "torchrun"}, "gpu": FORM}
    plan = plan_at(tmp_path, scheduler={"kind": "slurm", "forms": forms})
    machine.image(plan)
    ran = machine.job(plan, SLURM_NNODES="2", SLURM_JOB_ID="1")
    assert ran.launched[:2] == ["srun", "-n8"]
    with pytest.raises(Exception, match="form 'torchrun': demo has no torchrun"):
        machine.job(plan, launch="torchrun")


def test_without_a_launcher_there_is_one_rank(machine: Machine, tmp_path: Path) -> None:
    plan = plan_at(tmp_path)
    machine.image(plan)
    seen = machine.job(plan).environment
    assert [seen[name] for name in PLACE] == ["0", "1", "0", "1"]
    assert seen["MASTER_ADDR"]
    assert 10000 <= int(seen["MASTER_PORT"]) < 20000


def test_grid_engine_names_its_hosts_in_a_file(machine: Machine, tmp_path: Path) -> None:
    slots = {"parallel_environment": {"name": "mpi-4", "slots_per_node": 4}}
    scheduler = {**site("mpiexec", "gridengine")["scheduler"], **slots}
    plan = plan_at(tmp_path / "r", scheduler=scheduler)
    machine.image(plan)
    hosts = tmp_path / "pe_hostfile"
    hosts.write_text("n1 4 all.q@n1 UNDEFINED\nn2 4 all.q@n2 UNDEFINED\n")
    elsewhere = tmp_path / "submitted"
    elsewhere.mkdir()
    (elsewhere / f"{plan.name}.sif").touch()
    job = {"JOB_ID": "77", "SGE_TASK_ID": "undefined", "NHOSTS": "2", "PE_HOSTFILE": str(hosts)}
    ran = machine.job(plan, "mine", SGE_O_WORKDIR=str(elsewhere), **job)
    assert ran.launched[:3] == ["mpiexec", "-n8", "apptainer"]
    assert ran.launched[4] == f"{elsewhere}/{plan.name}.sif"
    # The script runs on the first host, which knows its own name best.
    assert ran.environment["MASTER_ADDR"] == os.uname().nodename
    assert ran.environment["MASTER_PORT"] == "10077"
    array = machine.job(
        plan, SGE_O_WORKDIR=str(elsewhere), **{**job, "SGE_TASK_ID": "3", "PBS_JOBID": ""}
    )
    assert array.environment["MASTER_PORT"] == "10773"
    assert (elsewhere / "proof-77").is_dir()
