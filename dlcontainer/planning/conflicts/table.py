"""The table of rules: what contradicts what, how severe it is, and where that is said.

A new rule is a function and a line here; its test is a line of the tests' own table, and
docs/centre/contradictions.md is made of this one. Checks of images read the same rules.
"""

import datetime
import functools
from collections.abc import Callable, Iterator
from typing import Any

from dlcontainer.config import SelectedDocument
from dlcontainer.planning.compatibility import (
    CPU_SOURCE,
    CUDA_SOURCE,
    FIRST_CUDA_SOURCE,
    FIRST_ROCM_SOURCE,
    MPI_SOURCE,
    NEWEST_GCC_SOURCE,
    ROCM_DRIVER_SOURCE,
    SPECTRUM_SOURCE,
    WHEEL_SOURCE,
)
from dlcontainer.planning.conflicts import (
    base_library,
    build_tools,
    compilers,
    epochs,
    glibc,
    gpu_models,
    image_paths,
    isa,
    mpi,
    node_limits,
    site_facts,
    toolkits,
)
from dlcontainer.planning.conflicts.model import FactConflict, Finding, Rule, UnknownFact
from dlcontainer.planning.device_code import GFX_SOURCE, SASS_SOURCE
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.recipes.stack import Stack
from dlcontainer.sites import binding, gpu_flags, scheduler_words
from dlcontainer.sites.site import Site

# Of a site alone; on a day, for what depends on it; of a recipe alone, settled for a site; of a
# recipe at a site; of a framework's build there, which decides which variant a site can run.
SiteCheck = Callable[[Site], Iterator[FactConflict]]
DatedCheck = Callable[[Site, datetime.date], Iterator[FactConflict]]
RecipeCheck = Callable[[Recipe], Iterator[FactConflict | UnknownFact]]
PairCheck = Callable[[Site, Recipe], Iterator[Finding]]
StackCheck = Callable[[Site, Stack], Iterator[Finding]]
# Raises: a site's file is refused as it is loaded, before it is a site.
LoadingCheck = Callable[[SelectedDocument[Site]], None]


_CODE_SOURCE = f"{SASS_SOURCE}; {GFX_SOURCE}"
_LAST_CUDA = "CUDA Release Notes; NVIDIA's container-images (ppc64le); llvm-project 0f49116"

# A site's file as it is loaded: these raise themselves.
LOADING: tuple[Rule[LoadingCheck], ...] = (
    Rule(
        id="site-gpu-flag",
        compares="jobs.flags, mpi.flags against accelerator.vendor, engine.runtime",
        source="Apptainer's User Guide, GPU Support; docs.nersc.gov, podman-hpc",
        check=gpu_flags.require_fit,
        exit_code=3,
    ),
    Rule(
        id="site-gpu-near",
        compares="scheduler.forms against accelerator.near, cpu.cores_per_domain",
        source="srun(1), --cpu-bind, --gpu-bind; argonne-lcf/user-guides@7d04a3f "
        "docs/aurora/running-jobs-aurora.md",
        check=binding.require_near,
        exit_code=3,
    ),
    Rule(
        id="site-scheduler-words",
        compares="scheduler.directives, launcher, forms, resources, jobs.warning, requeue, "
        "ports against scheduler.kind, accelerator",
        source="the manuals named in dlcontainer/schedulers/",
        check=scheduler_words.require_one_scheduler,
        exit_code=3,
    ),
)
SITE: tuple[Rule[SiteCheck], ...] = (
    Rule(
        id="site-epoch-order",
        compares="epochs.NAME.until against since",
        source=epochs.SOURCE,
        check=epochs.order,
        exit_code=3,
    ),
    Rule(
        id="site-epoch-overlap",
        compares="epochs.NAME.until against the since of the next",
        source=epochs.SOURCE,
        check=epochs.overlap,
        severity="note",
    ),
    Rule(
        id="site-cpu-arch",
        compares="cpu.target against arch",
        source=CPU_SOURCE,
        check=site_facts.processor,
    ),
    Rule(
        id="site-fast-memory",
        compares="memory.fast_gb against cpu.target",
        source="data sheets of Xeon Phi, Xeon Max and A64FX (remembered)",
        check=site_facts.fast_memory,
    ),
    Rule(
        id="site-gpu-vendor",
        compares="accelerator.target against vendor",
        source="names of targets: CUDA Programming Guide; LLVM, User Guide for AMDGPU",
        check=site_facts.gpu_vendor,
    ),
    Rule(
        id="site-gpu-model",
        compares="accelerator.target against model",
        source=f"{gpu_models.NVIDIA_SOURCE} (2026-11); {gpu_models.AMD_SOURCE}",
        check=gpu_models.model_target,
    ),
    Rule(
        id="site-gpu-maker",
        compares="accelerator.vendor against model",
        source="the vendor's name in the model itself",
        check=gpu_models.model_vendor,
    ),
    Rule(
        id="site-cuda-last",
        compares="accelerator.toolkit against target, arch",
        source=_LAST_CUDA,
        check=site_facts.toolkit,
    ),
    Rule(
        id="site-cuda-first",
        compares="accelerator.toolkit against target",
        source=FIRST_CUDA_SOURCE,
        check=gpu_models.toolkit_before_gpu,
    ),
    Rule(
        id="site-mpi-soname",
        compares="mpi.soname against mpi.family",
        source=MPI_SOURCE,
        check=mpi.soname,
    ),
    Rule(
        id="site-form-cpus",
        compares="scheduler.forms (ranks x CPUs) against cpu.cores, threads_per_core",
        source=node_limits.SOURCE,
        check=node_limits.rank_cpus,
    ),
    Rule(
        id="site-line-ranks",
        compares="scheduler.directives (tasks x CPUs) against cpu.cores, threads_per_core",
        source=node_limits.SOURCE,
        check=node_limits.line_ranks,
    ),
    Rule(
        id="site-line-counts",
        compares="scheduler.directives against cpu.cores, accelerator.per_node",
        source=node_limits.SOURCE,
        check=node_limits.line_counts,
    ),
    Rule(
        id="site-line-memory",
        compares="scheduler.directives against memory.gb",
        source=node_limits.SOURCE,
        check=node_limits.line_memory,
    ),
    Rule(
        id="site-form-gpus",
        compares="scheduler.forms.NAME.ranks_per_node against accelerator.per_node",
        source="NCCL's User Guide, ncclCommInitRank: one device for each rank",
        check=node_limits.ranks_of_gpus,
        severity="note",
    ),
    Rule(
        id="site-form-ranks",
        compares="scheduler.forms.NAME.ranks_per_node against cpu.cores, threads_per_core",
        source="srun(1), --overcommit",
        check=node_limits.ranks_of_cpus,
        severity="note",
    ),
    Rule(
        id="site-job-threads",
        compares="jobs.environment, jobs.inside (OMP_NUM_THREADS x ranks) against cpu.cores, "
        "threads_per_core",
        source=node_limits.THREADS_SOURCE,
        check=node_limits.job_threads,
        severity="note",
    ),
)
DATED: tuple[Rule[DatedCheck], ...] = (
    Rule(
        id="site-epoch-today",
        compares="epoch against today",
        source=epochs.SOURCE,
        check=epochs.today,
        severity="note",
    ),
)
# Of a recipe alone, settled for a site.
RECIPE: tuple[Rule[RecipeCheck], ...] = (
    Rule(
        id="recipe-cuda-gcc",
        compares="stack.gcc against stack.cuda",
        source=NEWEST_GCC_SOURCE,
        check=build_tools.gcc_for_cuda,
    ),
    Rule(
        id="recipe-cuda-targets",
        compares="stack.gpu_targets against stack.cuda",
        source=f"{FIRST_CUDA_SOURCE}; {_LAST_CUDA}",
        check=build_tools.cuda_targets,
    ),
    Rule(
        id="recipe-rocm-targets",
        compares="stack.gpu_targets against stack.rocm",
        source=FIRST_ROCM_SOURCE,
        check=build_tools.rocm_targets,
    ),
    Rule(
        id="recipe-target-vendor",
        compares="stack.gpu_targets against stack.cuda, stack.rocm",
        source="names of targets: CUDA Programming Guide; LLVM, User Guide for AMDGPU",
        check=build_tools.target_vendor,
    ),
    Rule(
        id="recipe-base-musl",
        compares="base against steps.python_packages",
        source=base_library.MUSL_SOURCE,
        check=base_library.musl,
    ),
    Rule(
        id="recipe-base-wheels",
        compares="the base's glibc against steps.python_packages",
        source=WHEEL_SOURCE,
        check=base_library.wheels_newer,
    ),
    Rule(
        id="recipe-python-home",
        compares="environment.PYTHONHOME against prefix",
        source=image_paths.SOURCE,
        check=image_paths.home_of_recipe,
    ),
    Rule(
        id="recipe-python-path",
        compares="environment.PYTHONPATH against prefix",
        source=image_paths.SOURCE,
        check=image_paths.path_of_recipe,
        severity="note",
    ),
)
# Of a framework's build alone: planning/candidates.py asks them of each variant too.
STACK: tuple[Rule[StackCheck], ...] = (
    Rule(
        id="toolkit-vendor",
        compares="stack.cuda, stack.rocm against accelerator.vendor",
        source="CUDA drives NVIDIA's GPUs, ROCm AMD's",
        check=toolkits.other_vendor,
    ),
    Rule(
        id="toolkit-driver",
        compares="stack.cuda, rocm, oneapi against accelerator.driver, toolkit",
        source=f"{CUDA_SOURCE}; {ROCM_DRIVER_SOURCE}",
        check=toolkits.newer_than_site,
    ),
    Rule(
        id="cuda-arch",
        compares="stack.cuda against arch",
        source=_LAST_CUDA,
        check=toolkits.newer_than_arch,
    ),
    Rule(
        id="cuda-gpu",
        compares="stack.cuda against accelerator.target",
        source=_LAST_CUDA,
        check=toolkits.newer_than_gpu,
    ),
    Rule(
        id="cuda-older-than-gpu",
        compares="stack.cuda against accelerator.target",
        source=FIRST_CUDA_SOURCE,
        check=toolkits.older_than_gpu,
        severity="note",
    ),
    Rule(
        id="gpu-code",
        compares="stack.gpu_targets against accelerator.target, toolkit",
        source=_CODE_SOURCE,
        check=isa.gpu_code,
    ),
)
PAIR: tuple[Rule[PairCheck], ...] = (
    Rule(
        id="cpu-code",
        compares="stack.cpu_target against cpu.target",
        source=CPU_SOURCE,
        check=isa.cpu_code,
    ),
    Rule(
        id="compiler-phi",
        compares="stack.gcc, stack.llvm, steps against cpu.target",
        source="Intel on GCC 15; llvm-project PR 92883",
        check=compilers.without_phi,
    ),
    Rule(
        id="mpi-family",
        compares="stack.mpi.family against mpi.family, mpi.mode",
        source=MPI_SOURCE,
        check=mpi.other_family,
    ),
    Rule(
        id="mpi-fabric",
        compares="stack.mpi.fabrics against network.kind",
        source="docs.openucx.org; ofiwg.github.io/libfabric (remembered)",
        check=mpi.other_fabric,
    ),
    Rule(
        id="mpi-spectrum",
        compares="stack.cuda, stack.gcc against mpi.family",
        source=SPECTRUM_SOURCE,
        check=mpi.spectrum_cuda,
    ),
    Rule(
        id="glibc-host",
        compares="the base's glibc against os.glibc",
        source="glibc manual, symbol versions",
        check=functools.partial(glibc.older_than_host, gpu_flags.flags),
    ),
    Rule(
        id="kernel-base",
        compares="the base's glibc against os.kernel",
        source="glibc's NEWS for 2.26",
        check=glibc.kernel_older_than_base,
    ),
    Rule(
        id="site-base-system",
        compares="base, recipes.NAME.base against steps",
        source="docs/image/bases.md: system is what nobody can look up while planning",
        check=base_library.unsaid_base,
        severity="note",
    ),
    Rule(
        id="site-image-paths",
        compares="environment, jobs.inside, mpi.inside against prefix",
        source=image_paths.SOURCE,
        check=image_paths.of_site,
    ),
    Rule(
        id="image-threads",
        compares="environment.OMP_NUM_THREADS x ranks against cpu.cores, threads_per_core",
        source=node_limits.THREADS_SOURCE,
        check=node_limits.image_threads,
        severity="note",
    ),
)
# Each has what is common to all; what a check takes differs by group.
ALL: tuple[Rule[Any], ...] = (*LOADING, *SITE, *DATED, *RECIPE, *STACK, *PAIR)
