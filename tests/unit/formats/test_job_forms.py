"""The form that a recipe asks for its jobs: where it comes from, and what the script holds."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import ConfigError
from dlcontainer.formats import job_forms, texts
from dlcontainer.planning.plan import Plan
from tests.jobs import plan_at
from tests.values import TEMPLATES, shipped_plan

RAY = {"exposes": ["python", "ray"], "job": {"form": "ray"}}
FORM = {"summary": "f", "launcher": ["srun"], "ranks_per_node": 4}
INSIDE = {"summary": "t", "launcher": ["srun", "--one", "-N{nodes}"], "ranks_per_node": 4}


def job(plan: Plan, launch: str | None = None) -> str:
    return texts.text(plan, "job", [TEMPLATES], launch)


def at(folder: Path, kind: str = "slurm", recipe: Any = RAY, **scheduler: Any) -> Plan:
    return plan_at(folder, recipe=recipe, scheduler={"kind": kind, **scheduler})


def launcher(text: str, form: str) -> str:
    """Return the words that a form of a script starts its processes with."""
    block = text.partition(f"    {form})  # ")[2].partition(";;")[0]
    return block.partition("dlc_launcher=(")[2].partition(")\n")[0]


@pytest.mark.parametrize(
    ("scheduler", "words"),
    [
        # A site's own way to one process a node comes first.
        (
            {"forms": {"gpu": FORM, "one": {**INSIDE, "inside": "torchrun"}}},
            'srun --one -N"$dlc_nodes"',
        ),
        (
            {"forms": {"gpu": FORM}},
            'srun --nodes="$dlc_nodes" --ntasks="$dlc_nodes" --ntasks-per-node=1 --cpu-bind=none',
        ),
        ({"kind": "pbs", "launcher": ["mpiexec"]}, 'mpiexec -n "$dlc_nodes" -ppn 1'),
        ({"kind": "cobalt", "launcher": ["aprun"]}, 'aprun -n "$dlc_nodes" -N 1 -cc none'),
        (
            {"kind": "gridengine", "launcher": ["mpirun"]},
            'mpirun -n "$dlc_ranks" --map-by ppr:"$dlc_ranks_per_node":node',
        ),
    ],
)
def test_one_process_a_node(tmp_path: Path, scheduler: dict[str, Any], words: str) -> None:
    text = job(at(tmp_path, **scheduler))
    assert " ".join(launcher(text, "ray").replace("\\\n", " ").split()) == words
    assert "dlc_form=${DLCONTAINER_FORM:-ray}" in text
    assert "dlc_ranks_per_node=1 dlc_ranks=$((dlc_nodes * 1))" in text


def test_a_site_has_words_of_its_own(tmp_path: Path) -> None:
    forms = {"gpu": FORM, "both": {**INSIDE, "inside": "ray"}}
    plan = at(tmp_path, forms=forms)
    assert list(job_forms.of_image(plan)) == ["both", "gpu"]
    assert "dlc_form=${DLCONTAINER_FORM:-both}" in job(plan)


@pytest.mark.parametrize("recipe", [{"exposes": ["python"]}, {"exposes": ["python", "ray"]}])
def test_other_recipes_have_no_such_form(tmp_path: Path, recipe: Any) -> None:
    text = job(at(tmp_path, recipe=recipe, launcher=["srun"]))
    assert "RAY_AUTH_TOKEN" not in text
    assert "dlc_node" not in text.replace("dlc_nodes", "")


def test_a_proof_is_of_ranks(tmp_path: Path) -> None:
    for at_site, ranks in (({"launcher": ["srun"]}, "ranks"), ({"forms": {"gpu": FORM}}, "gpu")):
        text = job(at(tmp_path, **at_site))
        assert f"DLCONTAINER_FORM=${{DLCONTAINER_FORM:-{ranks}}}" in text
        assert f'has not" DLCONTAINER_FORM={ranks} ;;' in text


def test_the_request_is_that_of_the_sites_ranks(tmp_path: Path) -> None:
    lines = ["#SBATCH -N 2 -n 2", "#SBATCH -c 16"]
    asked = job(at(tmp_path, directives=lines, forms={"gpu": FORM})).splitlines()
    assert asked[1:3] == ["#SBATCH -N 2 -n 8", "#SBATCH -c 16"]
    # One CPU of a task is none of a node's Ray.
    [line] = [line for line in asked if "SRUN_CPUS_PER_TASK" in line]
    assert line.startswith('    [ "$dlc_starter" = ray ] || ')


def test_without_a_launcher_the_form_is_this_node(tmp_path: Path) -> None:
    text = job(plan_at(tmp_path, recipe=RAY))
    assert '[ -n "$dlc_proof" ] || dlc_command=(' in text
    assert '-I -c "$dlc_node" "$dlc_wait" "${dlc_command[@]}")' in text


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        ({"forms": {"tacc": {**FORM, "launcher": ["ibrun"]}}}, "no words of ibrun are known"),
        ({"launcher": ["/opt/own/start"]}, "no words of /opt/own/start are known"),
        ({"forms": {"ray": FORM}}, "its form 'ray' places ranks"),
    ],
)
def test_sites_without_a_way(tmp_path: Path, scheduler: dict[str, Any], message: str) -> None:
    plan = at(tmp_path, **scheduler)
    with pytest.raises(ConfigError, match=message) as caught:
        job(plan)
    assert caught.value.where
    assert caught.value.next_step
    assert "job" not in texts.formats_of(plan)


def test_a_form_needs_its_program(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'exposes' does not list 'ray'"):
        at(tmp_path, recipe={"exposes": ["python"], "job": {"form": "ray"}}, launcher=["srun"])


def test_the_form_is_none_of_the_image(tmp_path: Path) -> None:
    plain = at(tmp_path, recipe={"exposes": ["python", "ray"]}, launcher=["srun"])
    assert at(tmp_path, launcher=["srun"]).digest == plain.digest


def test_measurements_are_of_ranks(tmp_path: Path) -> None:
    plan = at(tmp_path, launcher=["srun"])
    assert list(job_forms.of_image(job_forms.of_ranks(plan))) == []
    assert job_forms.usual(job_forms.of_ranks(plan), None) == ""


@pytest.mark.parametrize(
    ("site", "variant"),
    [
        ("local", "wheels"),
        ("example-slurm", "wheels"),
        ("leonardo", "cuda"),
        ("perlmutter", "cuda-13"),
        ("alps", "cuda-13-arm"),
        ("lumi", "rocm"),
        ("frontier", "rocm"),
    ],
)
def test_ray_at_shipped_sites(site: str, variant: str) -> None:
    plan = shipped_plan(site, "ray")
    assert plan.choice is not None
    assert (plan.choice.name, plan.recipe.version) == (variant, "2.60.0")
    assert "RAY_AUTH_TOKEN" in job(plan)
    # Ray goes on as it finds PyTorch: no pin below is another.
    assert not [note for note in plan.notes if "changed by this recipe" in note]


def test_vllm_only_where_its_torch_is() -> None:
    plan = shipped_plan("leonardo", "vllm")
    assert plan.choice is not None
    assert plan.choice.name == "cuda"
    torches = [pin for step in plan.recipe.steps for pin in pins(step) if pin.startswith("torch==")]
    assert torches == ["torch==2.9.1+cu128"]
    with pytest.raises(Exception, match="no variant of recipe vllm"):
        shipped_plan("alps", "vllm")


def pins(step: Any) -> tuple[str, ...]:
    return tuple(step.python_packages.packages) if step.python_packages else ()
