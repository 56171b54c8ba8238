"""Facts of GPUs alone make a job that asks for them, and starts a rank for each."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.formats import texts
from dlcontainer.sites import gpu_jobs
from dlcontainer.sites.site import Site
from tests.unit.sites.test_loading import load
from tests.values import (
    SITE,
    TEMPLATES,
    folder_of,
    plan_of,
    shipped_site,
    shipped_sites,
    site_of,
    write_yaml,
)

GPU = {"vendor": "nvidia", "model": "H100", "per_node": 4}
CPU = {"model": "EPYC", "cores": 64}
SRUN = ("srun", "--nodes={nodes}", "--ntasks={ranks}", "--ntasks-per-node={ranks_per_node}")
FORM = {"summary": "own", "launcher": ["srun"], "ranks_per_node": 4}


def settled(kind: str = "slurm", *lines: str, **more: Any) -> Site:
    launcher = more.pop("launcher", ["srun"] if kind == "slurm" else ["mpiexec"])
    forms, whole = more.pop("forms", {}), more.pop("whole_nodes", False)
    scheduler = {"kind": kind, "launcher": launcher, "directives": lines, "forms": forms}
    site = site_of(accelerator=GPU, scheduler={**scheduler, "whole_nodes": whole}, **more).value
    return gpu_jobs.settle(site)


def test_the_request_and_a_rank_for_each_are_derived() -> None:
    site = settled("slurm", "#SBATCH -p gpu", cpu=CPU)
    assert site.scheduler.directives == (
        "#SBATCH -p gpu",
        "#SBATCH --gres=gpu:4",
        "#SBATCH --ntasks-per-node=4",
        "#SBATCH --cpus-per-task=16",
    )
    form = site.scheduler.forms["gpu"]
    assert (form.launcher, form.ranks_per_node) == ((*SRUN, "--cpus-per-task=16"), 4)
    assert gpu_jobs.notes(site) == [
        "jobs ask for 4 GPUs a node and a rank for each GPU, as `accelerator` says"
    ]
    # Once.
    assert gpu_jobs.settle(site) == site


def test_what_is_not_known_of_the_processor_is_said() -> None:
    site = settled()
    assert site.scheduler.forms["gpu"].launcher == SRUN
    assert "CPUs of a rank: the scheduler's default, as `cpu.cores` is not written" in (
        gpu_jobs.notes(site)
    )
    own = settled("slurm", "#SBATCH -c 8", cpu=CPU)
    assert own.scheduler.directives[0] == "#SBATCH -c 8"
    assert not any("cpus-per-task" in line for line in own.scheduler.directives)
    assert len(gpu_jobs.notes(own)) == 1


@pytest.mark.parametrize(
    "line",
    [
        *("-G 8", "--gpus=8", "--gpus-per-node=4", "--gpus-per-task=1", "--gpus-per-socket=2"),
        *(
            "--gres=gpu:4",
            "--gres gpu:a100:4",
            "--gres=shard:1,gpu:4",
            "--tres-per-node=gres/gpu:4",
        ),
    ],
)
def test_a_site_that_asks_itself_is_left_alone(line: str) -> None:
    written = f"#SBATCH {line}"
    assert settled("slurm", written, forms={"a": FORM}).scheduler.directives == (written,)
    launched = {"a": {**FORM, "launcher": ["srun", *line.split()]}}
    assert settled(forms=launched).scheduler.directives == ()


@pytest.mark.parametrize("line", ["--gres=nvme:1", "--gres=tmp", "-C gpu", "-p gpus", "-J gpu-G"])
def test_other_words_ask_for_no_gpu(line: str) -> None:
    asked = settled("slurm", f"#SBATCH {line}", forms={"a": FORM}).scheduler.directives
    assert asked == (f"#SBATCH {line}", "#SBATCH --gres=gpu:4")


def test_whole_nodes_are_asked_for_nothing() -> None:
    site = settled(whole_nodes=True, cpu=CPU)
    assert not any("gpu" in line for line in site.scheduler.directives)
    assert site.scheduler.forms["gpu"].ranks_per_node == 4
    assert gpu_jobs.notes(site) == ["jobs ask for a rank for each GPU, as `accelerator` says"]


@pytest.mark.parametrize("line", ["-n 8", "-n8", "--ntasks=8", "--ntasks-per-node=2"])
def test_a_site_that_counts_ranks_places_them(line: str) -> None:
    site = settled("slurm", f"#SBATCH {line}", cpu=CPU)
    assert site.scheduler.forms == {}
    assert site.scheduler.directives == (f"#SBATCH {line}", "#SBATCH --gres=gpu:4")
    assert gpu_jobs.notes(site) == []
    assert settled(launcher=["srun", "-n", "8"]).scheduler.forms == {}


@pytest.mark.parametrize(
    ("kind", "launcher", "example"),
    [
        ("pbs", "mpiexec", ", as #PBS -l select=1:ngpus=4"),
        ("lsf", "lrun", ', as #BSUB -gpu "num=4"'),
        ("gridengine", "mpirun", ", as #$ -l gpu=4"),
        ("cobalt", "aprun", ""),
    ],
)
def test_what_can_t_be_derived_is_a_note(kind: str, launcher: str, example: str) -> None:
    site = settled(kind, launcher=[launcher])
    assert (site.scheduler.directives, site.scheduler.forms) == ((), {})
    asked, placed = gpu_jobs.notes(site)
    assert asked.startswith(f"jobs ask for no GPU: {kind} is told by a line of the site's own")
    assert f"(scheduler.directives{example});" in asked
    assert placed.startswith("jobs start no rank for each of a node's 4 GPUs: ")
    # An own line, an own form; or whole nodes.
    line = example.removeprefix(", as ")
    if line:
        assert gpu_jobs.notes(settled(kind, line, launcher=[launcher], forms={"a": FORM})) == []
    whole = settled(kind, launcher=[launcher], forms={"a": FORM}, whole_nodes=True)
    assert gpu_jobs.notes(whole) == []


def test_a_launcher_of_the_site_s_own_and_intel_s_tiles() -> None:
    site = settled(launcher=["ibrun"])
    assert site.scheduler.directives == ("#SBATCH --gres=gpu:4",)
    (placed,) = gpu_jobs.notes(site)
    assert "ibrun is told by scheduler.forms how many" in placed
    intel = {**GPU, "vendor": "intel"}
    tiles = site_of(accelerator=intel, scheduler={"kind": "slurm", "forms": {"a": FORM}}).value
    assert gpu_jobs.settle(tiles) == tiles
    assert gpu_jobs.notes(tiles)[0].startswith("jobs ask for no GPU: ")


def test_sites_without_gpus_or_without_a_scheduler_are_as_written() -> None:
    for changes in ({"scheduler": {"kind": "slurm", "launcher": ["srun"]}}, {"accelerator": GPU}):
        site = site_of(**changes).value
        assert gpu_jobs.settle(site) == site
        assert gpu_jobs.notes(site) == []


def test_shipped_sites_say_it_themselves() -> None:
    said = {name: gpu_jobs.notes(site) for name, site in shipped_sites()}
    [without_flag] = said.pop("lumi@2026-01")
    assert without_flag.startswith("images start without the runtime's flag for GPUs: ")
    assert {name: notes for name, notes in said.items() if notes} == {}


def test_vista_s_scheduler_takes_no_request() -> None:
    # TACC: no --gres, no --gpus-per-task.
    vista = shipped_site("vista").value
    assert vista.scheduler.whole_nodes
    assert not any("gpu" in line or "gres" in line for line in vista.scheduler.directives)


def test_the_newcomer_s_cluster(tmp_path: Path) -> None:
    """Four GPUs written after a file without accelerator: site file to job script."""
    gpu = {**GPU, "target": "sm_90", "driver": "550.1", "remembered": [*GPU, "target", "driver"]}
    scheduler = {
        "kind": "slurm",
        "launcher": ["srun"],
        "resources": {"account": "me", "partition": "gpu", "time": "0:30:00", "nodes": 2},
        "remembered": ["kind", "launcher", "resources"],
    }
    path = write_yaml(tmp_path / "k.yaml", {**SITE, "accelerator": gpu, "scheduler": scheduler})
    plan = plan_of(folder_of(tmp_path, stack={"cuda": "12.8"}), site=load(path))
    assert any(note.startswith("jobs ask for 4 GPUs a node") for note in plan.notes)
    lines = texts.text(plan, "job", [TEMPLATES]).splitlines()
    assert "#SBATCH --gres=gpu:4" in lines
    assert "#SBATCH --ntasks-per-node=4" in lines
    assert any(line.endswith(" dlc_gpus=4:4") for line in lines)
    assert any(line.startswith("# note: jobs ask for 4 GPUs") for line in lines)
    pbs = {**scheduler, "kind": "pbs", "launcher": ["mpiexec"]}
    path = write_yaml(tmp_path / "p.yaml", {**SITE, "accelerator": gpu, "scheduler": pbs})
    plan = plan_of(folder_of(tmp_path, stack={"cuda": "12.8"}), site=load(path))
    head = texts.text(plan, "job", [TEMPLATES])
    assert "# note: jobs ask for no GPU: pbs is told by a line" in head
    assert any(note.startswith("jobs ask for no GPU") for note in plan.notes)
