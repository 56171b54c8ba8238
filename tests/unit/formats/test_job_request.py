"""What a job asks for, in full: each line as its scheduler reads it."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.formats import job_request
from tests import goldens
from tests.jobs import plan_at
from tests.values import ROOT


def shown(folder: Path, scheduler: dict[str, Any]) -> list[str]:
    found = job_request.asked(plan_at(folder, scheduler=scheduler))
    return [f"{one.name} {one.meant}" for one in found]


@pytest.mark.parametrize(
    ("kind", "line", "says"),
    [
        ("slurm", "#SBATCH -t 30:00", "time 0:30:00"),
        ("slurm", "#SBATCH --time=1-12", "time 36:00:00"),
        ("slurm", "#SBATCH --time=UNLIMITED", "time not read by us: UNLIMITED is not a time limit"),
        ("lsf", "#BSUB -W 30:00", "time 30:00:00"),
        ("pbs", "#PBS -l select=2,walltime=30:00", "time 0:30:00"),
        ("gridengine", "#$ -l gpu=1,h_rt=1800", "time 0:30:00"),
        ("cobalt", "#COBALT -t 30", "time 0:30:00"),
        ("slurm", "#SBATCH --mem=494000", "memory 494000 MB for a node"),
        ("slurm", "#SBATCH --mem=0", "memory all that there is for a node"),
        ("slurm", "#SBATCH --mem 12g", "memory 12 GB for a node"),
        ("slurm", "#SBATCH --mem-per-cpu=2G", "memory 2 GB for a CPU"),
        ("slurm", "#SBATCH --mem=2X", "memory 2 X, a unit that we do not know here for a node"),
        (
            "lsf",
            "#BSUB -M 100",
            "memory 100 in the unit of lsf.conf's LSF_UNIT_FOR_LIMITS, else KB",
        ),
        ("lsf", "#BSUB -M 100MB!", "memory 100 MB for a process"),
        ("pbs", "#PBS -l select=2:ncpus=8:mem=4gb", "memory 4 GB for a chunk"),
        ("pbs", "#PBS -l pmem=400", "memory 400 bytes for a chunk"),
        ("gridengine", "#$ -l h_vmem=4G", "memory 4 GiB for a slot"),
        ("gridengine", "#$ -l gpu=1,h_vmem=4g", "memory 4 GB of 1000 for a slot"),
    ],
)
def test_a_line_in_full(tmp_path: Path, kind: str, line: str, says: str) -> None:
    [found] = shown(tmp_path, {"kind": kind, "directives": [line]})
    assert found.startswith(says)


def test_what_is_asked_for_takes_the_place_of_a_line(tmp_path: Path) -> None:
    scheduler = {
        "kind": "slurm",
        "directives": ["#SBATCH -t 10", "# -t 20", "#SBATCH --mem=1G"],
        "resources": {"time": "30:00"},
    }
    plan = plan_at(tmp_path, scheduler=scheduler)
    time, memory = job_request.asked(plan)
    assert (time.meant, time.written) == ("0:30:00", "time: 30:00")
    assert (memory.meant, memory.written) == ("1 GB for a node", "#SBATCH --mem=1G")


def test_each_is_said_with_its_place() -> None:
    found = job_request.asked(goldens.plans()["pytorch-2.13.0-leonardo-dcgp"])
    assert found
    for one in found:
        path, line, _ = one.where.split(":")
        assert one.written in (ROOT / path).read_text().splitlines()[int(line) - 1]


def test_a_site_that_asks_for_nothing(tmp_path: Path) -> None:
    assert shown(tmp_path, {"kind": "slurm", "directives": ["#SBATCH -N 2"]}) == []
    assert shown(tmp_path, {"kind": "none"}) == []
