"""Ranks' cores beside their GPUs: what a form's words say, against the site's own facts."""

from typing import Any

import pytest

from dlcontainer.errors import ConfigError
from dlcontainer.sites import binding
from dlcontainer.sites.site import SiteTarget
from tests.unit.sites.test_shipped_today import each_variant, load
from tests.values import site_of

GPU = {"vendor": "nvidia", "model": "A100", "per_node": 4, "near": [3, 2, 1, 0]}


def check(words: list[str], gpu: dict[str, Any] = GPU, **changes: Any) -> None:
    form = {"summary": "f", "launcher": words, "ranks_per_node": 4, **changes.pop("form", {})}
    scheduler = {"kind": "slurm", "forms": {"a": form}}
    binding.require_near(site_of(accelerator=gpu, scheduler=scheduler, **changes))


@pytest.mark.parametrize(
    "words",
    [
        ["srun"],
        ["srun", "-c32", "--cpu-bind=cores"],
        ["srun", "--cpu-bind=verbose,cores"],
        ["srun", "--cpu_bind=v,ldoms"],
        ["srun", "--cpu-bind=map_ldom:0,1,2,3"],
        ["srun", "--cpu-bind=quiet,map_ldom:3"],
    ],
)
def test_ranks_far_from_their_gpu_are_refused(words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        check(words)
    assert "but their GPUs are near 3 2 1 0" in str(caught.value)
    assert "write cpu_bind: near" in str(caught.value)
    assert "or use --gpu-bind=closest with --gpus-per-task=1" in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        ["srun", "--cpu-bind=map_ldom:3,2,1,0"],
        ["srun", "--cpu-bind=v,map_ldom:0x3,2,1,0"],
        # Which domain those cores are in is not known here.
        ["srun", "--cpu-bind=mask_cpu:f000,f00,f0,f"],
        ["srun", "--cpu-bind=none"],
        # srun's own business.
        ["srun", "--cpu-bind=map_ldom:3*2,x"],
        ["srun", "--gpus-per-task=1", "--gpu-bind=closest"],
        ["srun", "--gpus-per-task=1", "--gpu-bind=verbose,closest"],
        ["mpiexec", "-n", "{ranks}"],
    ],
)
def test_others_are_taken(words: list[str]) -> None:
    check(words)


def test_what_the_file_does_not_say_is_not_judged() -> None:
    check(["srun"], {**GPU, "near": []})
    check(["srun"], {**GPU, "near": [0, 1, 2, 3]})
    check(["srun"], form={"inside": "torchrun"})
    check(["srun"], form={"ranks_per_node": 1})
    # Another order of devices.
    check(["srun"], jobs={"environment": {"CUDA_VISIBLE_DEVICES": "3,2,1,0"}})


def test_each_device_has_its_domain() -> None:
    with pytest.raises(ConfigError, match="'near' has 2 domains, but 'per_node' is 4"):
        check(["srun"], {**GPU, "near": [0, 1]})


@pytest.mark.parametrize("node_type", ["a100x4", "a40x4", "a100x8", "h200x8"])
def test_delta_s_ranks_are_beside_their_gpus(node_type: str) -> None:
    site = load("delta", SiteTarget(node_type=node_type))
    assert site.accelerator is not None
    listed = ",".join(map(str, site.accelerator.near))
    for form in site.scheduler.forms.values():
        if form.inside:
            continue  # torchrun places its ranks itself
        assert f"--cpu-bind=map_ldom:{listed}" in form.launcher


def test_perlmutter_s_ranks_are_beside_their_gpus_on_whole_nodes() -> None:
    site = load("perlmutter")
    assert "--cpu-bind=map_ldom:3,2,1,0" in site.scheduler.forms["gpu"].launcher
    # srun(1): not supported unless the entire node is allocated to the job.
    assert "#SBATCH --exclusive" in site.scheduler.directives


@each_variant
def test_a_form_that_binds_by_domain_says_where_the_gpus_are(name: str, target: SiteTarget) -> None:
    site = load(name, target)
    words = [word for form in site.scheduler.forms.values() for word in form.launcher]
    if any("map_ldom" in word for word in words):
        assert site.accelerator is not None
        assert site.accelerator.near


def test_lumi_sets_nothing_that_its_centre_withdrew() -> None:
    # lumi-ai-factory/laifs-container-recipes#30: jobs on several nodes hang with PHB and SYS.
    jobs = load("lumi").jobs
    assert "NCCL_NET_GDR_LEVEL" not in {*jobs.inside, *jobs.environment}
