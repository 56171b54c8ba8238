"""What a job's lines ask for a task, against what each form's launcher asks for."""

import re
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.formats import job_forms, texts
from dlcontainer.planning.plan import Plan
from dlcontainer.sites import rank_requests
from dlcontainer.sites.site import Site
from tests import goldens
from tests.jobs import plan_at
from tests.values import TEMPLATES, shipped_sites

LINES = ("--ntasks-per-node=4", "--cpus-per-task=16")


def site(folder: Path, lines: tuple[str, ...], launcher: list[str], **form: Any) -> Site:
    given = {"summary": "f", "launcher": launcher, "ranks_per_node": 4, **form}
    scheduler = {
        "kind": "slurm",
        "directives": [f"#SBATCH {line}" for line in lines],
        "forms": {"a": given},
    }
    return plan_at(folder, scheduler=scheduler).site


@pytest.mark.parametrize(
    ("lines", "launcher", "form"),
    [
        (LINES, ["srun"], {}),
        (LINES, ["srun", "-c16"], {}),
        (LINES, ["srun", "-c", "16"], {}),
        (LINES, ["/opt/slurm/bin/srun", "--cpus-per-task", "16"], {}),
        (("--tasks-per-node=4 -c 16  # a node's",), ["srun", "--cpus-per-task=16"], {}),
        (LINES, ["srun", "-N{nodes}", "--ntasks-per-node={ranks_per_node}"], {}),
        (LINES, ["srun", "--ntasks-per-node=1", "-c64"], {"inside": "torchrun"}),
        ((), ["srun", "-c7"], {}),
        # Another launcher's words are its own.
        (LINES, ["ibrun", "-c", "1"], {}),
        # It starts its own number of ranks, whatever the lines say of a node.
        (("--ntasks-per-node=1",), ["srun", "-N{nodes}", "-n{ranks}"], {}),
        (("-c 8",), ["srun", "-c8"], {}),
    ],
)
def test_what_agrees(
    tmp_path: Path, lines: tuple[str, ...], launcher: list[str], form: dict[str, Any]
) -> None:
    assert rank_requests.disagreements(site(tmp_path, lines, launcher, **form)) == ()


@pytest.mark.parametrize(
    ("lines", "launcher", "form", "says"),
    [
        (
            LINES,
            ["srun", "-c8"],
            {},
            "form a: the lines ask for 64 CPUs on a node (4 x 16), its launcher for 32 (4 x 8)",
        ),
        (
            LINES,
            ["srun", "--ntasks-per-node=1"],
            {"inside": "torchrun"},
            (
                "form a: its 1 process a node gets 16 of the 64 CPUs that the lines ask for: add "
                "--cpus-per-task=64 to its launcher"
            ),
        ),
        (
            ("--ntasks-per-node=1",),
            ["srun", "--ntasks-per-node={ranks_per_node}"],
            {},
            "form a: the lines have 1 tasks a node, its launcher starts 4",
        ),
        (
            ("--ntasks-per-node=1",),
            ["srun", "--mpi=pmix"],
            {},
            (
                "form a: its launcher says no number and starts the 1 tasks a node of the lines, "
                "where the form has 4: add --ntasks-per-node=4"
            ),
        ),
        (
            ("--gpus-per-task=a100:2",),
            ["srun", "--gpus-per-task=1"],
            {},
            "form a: the lines ask for 8 GPUs on a node (4 x 2), its launcher for 4 (4 x 1)",
        ),
        (
            ("--threads-per-core=2",),
            ["srun", "--threads-per-core=1"],
            {},
            "form a: the lines say --threads-per-core=2, its launcher 1",
        ),
    ],
)
def test_what_does_not_is_said(
    tmp_path: Path, lines: tuple[str, ...], launcher: list[str], form: dict[str, Any], says: str
) -> None:
    assert rank_requests.disagreements(site(tmp_path, lines, launcher, **form)) == (says,)


def test_a_plan_says_it(tmp_path: Path) -> None:
    form = {"summary": "f", "launcher": ["srun", "-c8"], "ranks_per_node": 1}
    scheduler = {"kind": "slurm", "directives": ["#SBATCH -c 4"], "forms": {"a": form}}
    notes = plan_at(tmp_path, scheduler=scheduler).notes
    assert [note for note in notes if note.startswith("form a: the lines ask for 4 CPUs")]


def test_no_shipped_site_disagrees_with_itself() -> None:
    said = {name: rank_requests.disagreements(one) for name, one in shipped_sites()}
    assert {name: notes for name, notes in said.items() if notes} == {}
    asking = [name for name, one in shipped_sites() if "--cpus-per-task" in lines_of(one)]
    assert len(asking) > 6


def lines_of(one: Site) -> str:
    return "\n".join(one.scheduler.directives)


def plans() -> list[Plan]:
    """Give a plan, with a way to its job, for each shipped target whose scheduler is Slurm."""
    found = {
        plan.site.target: plan
        for plan in goldens.plans().values()
        if plan.site.scheduler.kind == "slurm" and job_forms.has_way(plan)
    }
    return list(found.values())


def test_a_rank_of_every_shipped_slurm_site_gets_what_the_lines_ask_for() -> None:
    """Each launcher says the number of the lines, or the script hands it on to all of them."""
    seen = 0
    for plan in plans():
        text = texts.text(plan, "job", [TEMPLATES])
        handed = '[ -z "${SLURM_CPUS_PER_TASK-}" ] || export SRUN_CPUS_PER_TASK=' in text
        srun = [form for form in plan.site.scheduler.forms.values() if form.launcher[0] == "srun"]
        # Where another launcher starts ranks, nothing of srun's is said.
        assert handed == (bool(srun) or plan.site.scheduler.launcher[:1] == ("srun",))
        asked = re.search(r"(?m)^#SBATCH (?:--cpus-per-task=|-c ?)(\d+)", text)
        tasks = re.search(r"(?m)^#SBATCH --ntasks-per-node=(\d+)", text)
        for name, form in plan.site.scheduler.forms.items():
            gets = rank_requests.cpus(plan.site, name) if form.launcher[0] == "srun" else None
            started = 1 if form.inside else form.ranks_per_node
            if asked:
                seen += 1
                assert tasks
                assert gets is not None
                assert gets * started == int(asked[1]) * int(tasks[1]), f"{plan.name}: {name}"
    assert seen > 10
