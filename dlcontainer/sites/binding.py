"""Ranks' cores against their GPUs: a form that binds each rank far from its own is refused."""

import re
from collections.abc import Sequence

from dlcontainer.config import SelectedDocument
from dlcontainer.errors import ConfigError
from dlcontainer.sites.facts import LaunchForm
from dlcontainer.sites.site import Site

# Source: srun(1), --cpu-bind: how it is told of comes before the way; --gpu-bind=closest gives each
# rank the device beside its cores, whatever their order.
_CPU_BIND = re.compile(r"--cpu[-_]bind=(?:(?:v(?:erbose)?|q(?:uiet)?),)?(.*)")
_CLOSEST = re.compile(r"--gpu-bind=(?:v(?:erbose)?,)?closest")
# Lists of cores: which domain they are in is not known here.
_OF_CORES = ("map_cpu:", "mask_cpu:", "mask_ldom:", "none", "no")
# A site that gives devices another order or each rank its own says so by one of these.
_ORDERED = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def require_near(site: SelectedDocument[Site]) -> None:
    """Refuse a form of srun whose ranks run beside another GPU than the one of their number."""
    gpu, jobs = site.value.accelerator, site.value.jobs
    if gpu is None or not gpu.near or {*jobs.environment, *jobs.inside} & set(_ORDERED):
        return
    for name, form in site.value.scheduler.forms.items():
        if form.launcher[0] != "srun" or form.inside or form.ranks_per_node != gpu.per_node:
            continue
        domains = _domains(form, gpu.near)
        if domains is not None and domains != gpu.near:
            place = site.document.origin(("accelerator", "near")).where
            listed = ",".join(map(str, gpu.near))
            raise ConfigError(
                f"form {name}: ranks run on NUMA domains {_said(domains)}, but their GPUs "
                f"are near {_said(gpu.near)}",
                where=site.document.origin(("scheduler", "forms", name, "launcher")).where,
                why="each rank uses the GPU of its local number, and accelerator.near "
                f"({place}) names the GPUs' domains",
                next_step=f"use --cpu-bind=map_ldom:{listed} (in jobs with whole nodes), or "
                "--gpu-bind=closest with --gpus-per-task=1",
            )


def _domains(form: LaunchForm, near: Sequence[int]) -> tuple[int, ...] | None:
    """Return the domain of each rank of a node; None where the words don't say it."""
    if any(_CLOSEST.fullmatch(word) for word in form.launcher):
        return None
    bindings = [match[1] for word in form.launcher if (match := _CPU_BIND.fullmatch(word))]
    binding = bindings[-1] if bindings else ""
    if binding.startswith(_OF_CORES):
        return None
    if binding.startswith("map_ldom:"):
        listed = _numbers(binding.partition(":")[2])
        return listed and tuple(listed[rank % len(listed)] for rank in range(len(near)))
    # Slurm gives cores in their order.
    return tuple(sorted(near))


def _numbers(text: str) -> tuple[int, ...] | None:
    try:
        return tuple(int(number, 0) for number in text.split(","))
    except ValueError:
        return None  # srun's own business


def _said(domains: Sequence[int]) -> str:
    return " ".join(map(str, domains))
