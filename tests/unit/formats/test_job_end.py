"""What a job says of its end to its scheduler, and which ports its ranks use."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.formats import job_end, job_forms, texts
from tests.jobs import plan_at
from tests.values import TEMPLATES

FORM = {"summary": "f", "launcher": ["mpirun"], "ranks_per_node": 4}
USR1 = {"signal": "USR1", "seconds": 290}


def job(folder: Path, kind: str, *launchers: str, recipe: Any = None, **jobs: Any) -> str:
    forms = {f"f{at}": {**FORM, "launcher": [name]} for at, name in enumerate(launchers)}
    scheduler = {"kind": kind, "forms": forms}
    return texts.text(
        plan_at(folder, scheduler=scheduler, jobs=jobs, recipe=recipe), "job", [TEMPLATES]
    )


@pytest.mark.parametrize(
    ("kind", "jobs", "lines"),
    [
        ("slurm", {"warning": USR1}, ["#SBATCH --signal=B:USR1@290"]),
        ("slurm", {"requeue": True}, ["#SBATCH --requeue", "#SBATCH --open-mode=append"]),
        ("slurm", {"requeue": False}, ["#SBATCH --no-requeue"]),
        ("lsf", {"warning": USR1, "requeue": True}, ["#BSUB -wa USR1 -wt 5", "#BSUB -r"]),
        ("lsf", {"requeue": False}, ["#BSUB -rn"]),
        ("pbs", {"requeue": True}, ["#PBS -r y"]),
        ("pbs", {"requeue": False}, ["#PBS -r n"]),
        (
            "gridengine",
            {"warning": {"signal": "USR2"}, "requeue": True},
            ["#$ -S /bin/bash", "#$ -notify", "#$ -r yes"],
        ),
        ("gridengine", {"requeue": False}, ["#$ -S /bin/bash", "#$ -r no"]),
        ("slurm", {}, []),
    ],
)
def test_the_lines_of_the_head(
    tmp_path: Path, kind: str, jobs: dict[str, Any], lines: list[str]
) -> None:
    text = job(tmp_path, kind, "mpirun", **jobs)
    head = text.partition("\n# demo ")[0].splitlines()
    assert head == ["#!/bin/bash", *lines]
    assert ("dlc_warn()" in text) == ("warning" in jobs)


def test_who_signals_the_ranks(tmp_path: Path) -> None:
    slurm = job(tmp_path / "a", "slurm", "srun", "mpirun", warning=USR1)
    assert '        srun) scancel --signal=USR1 "$SLURM_JOB_ID" ;;\n' in slurm
    assert '        *) kill -s USR1 "$dlc_pid" ;;\n' in slurm
    lsf = job(tmp_path / "b", "lsf", "jsrun", warning=USR1)
    assert "scancel" not in lsf
    assert 'dlc_hand_on() {\n    kill -s USR1 "$dlc_pid"\n}\n' in lsf


def test_a_launcher_of_which_nobody_wrote_it_is_named(tmp_path: Path) -> None:
    text = job(tmp_path / "a", "slurm", "srun", "mpirun", "ibrun", "own", warning=USR1)
    notes = [line for line in text.splitlines() if line.startswith("# note: whether")]
    assert notes == [
        f"# note: whether {name} hands USR1 on to its ranks is not known"
        for name in ("ibrun", "own")
    ]
    assert "# note: whether" not in job(tmp_path / "b", "slurm", "ibrun")


def test_a_runtime_of_which_nobody_wrote_it_is_named(tmp_path: Path) -> None:
    site: dict[str, Any] = {
        "scheduler": {"kind": "slurm", "launcher": ["srun"]},
        "jobs": {"warning": USR1},
    }
    for runtime in ("apptainer", "podman-hpc"):
        plan = plan_at(tmp_path / runtime, engine={"runtime": runtime}, **site)
        note = f"# note: whether {runtime} hands USR1 on to the command is not known\n"
        assert (note in texts.text(plan, "job", [TEMPLATES])) == (runtime == "podman-hpc")


def test_a_job_begins_again_only_where_it_may(tmp_path: Path) -> None:
    asks = "scontrol requeue"
    assert asks in job(tmp_path / "a", "slurm", "srun", warning=USR1)
    assert asks in job(tmp_path / "b", "slurm", "srun", warning=USR1, requeue=True)
    assert asks not in job(tmp_path / "c", "slurm", "srun", warning=USR1, requeue=False)
    assert asks not in job(tmp_path / "d", "slurm", "srun", requeue=True)


def test_torchrun_hands_it_on_by_a_program_of_ours(tmp_path: Path) -> None:
    form = {**FORM, "launcher": ["srun"], "inside": "torchrun"}
    site: dict[str, Any] = {"scheduler": {"kind": "slurm", "forms": {"a": form}}}
    recipe = {"exposes": ["python", "torchrun"]}
    plain = texts.text(plan_at(tmp_path / "a", recipe=recipe, **site), "job", [TEMPLATES])
    assert "-m torch.distributed.run --no_python" in plain
    plan = plan_at(tmp_path / "b", recipe=recipe, jobs={"warning": USR1}, **site)
    warned = texts.text(plan, "job", [TEMPLATES])
    assert '-c "$dlc_torchrun" --no_python' in warned
    assert "signal.signal(signal.SIGUSR1, tell)\n" in warned


def test_what_measures_jobs_is_not_warned(tmp_path: Path) -> None:
    plan = plan_at(tmp_path, scheduler={"kind": "slurm"}, jobs={"warning": USR1})
    assert job_end.warning(plan.site) is not None
    assert job_end.warning(job_forms.of_ranks(plan).site) is None


@pytest.mark.parametrize(
    ("rendezvous", "port", "workers"),
    [
        ({}, "10000 + 10#0$dlc_number % 10000", "20000 + 10#0$dlc_number % (10000 / N) * N"),
        (
            {"ports": "20000-29999"},
            "20000 + 10#0$dlc_number % 5000",
            "25000 + 10#0$dlc_number % (5000 / N) * N",
        ),
        (
            {"ports": "20000-20004"},
            "20000 + 10#0$dlc_number % 1",
            "20001 + 10#0$dlc_number % (4 / N) * N",
        ),
        ({"port": 29500}, None, "20000 + 10#0$dlc_number % (10000 / N) * N"),
    ],
)
def test_ports_of_tensorflow_s_workers_lie_behind_that_of_all(
    tmp_path: Path, rendezvous: dict[str, Any], port: str | None, workers: str
) -> None:
    recipe = {"exposes": ["python", "saved_model_cli"]}
    text = job(tmp_path, "slurm", "srun", recipe=recipe, rendezvous=rendezvous)
    meeting = f"$(({port}))" if port else "29500"
    assert f"MASTER_PORT=${{DLCONTAINER_MASTER_PORT:-{meeting}}}\n" in text
    assert f"dlc_port=$(({workers.replace('N', 'dlc_ranks_per_node')}))" in text


def test_without_tensorflow_all_of_a_sites_ports_are_for_meeting(tmp_path: Path) -> None:
    text = job(tmp_path, "slurm", "srun", rendezvous={"ports": "20000-20004"})
    assert "MASTER_PORT=${DLCONTAINER_MASTER_PORT:-$((20000 + 10#0$dlc_number % 5))}\n" in text
