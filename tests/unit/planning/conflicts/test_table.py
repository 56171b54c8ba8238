"""Each rule of the table: a pair that it refuses or notes, and the nearest that it does not."""

import datetime
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import ConfigError, DlcontainerError, MisfitError
from dlcontainer.planning import conflicts, plan
from dlcontainer.planning.conflicts import table
from dlcontainer.planning.plan import PlanContext
from dlcontainer.sites import loading
from dlcontainer.sites.site import read_target
from tests import goldens
from tests.misfits import GPU, MPI
from tests.values import (
    HOST,
    ROOT,
    SITE,
    folder_of,
    read_recipe,
    shipped_site,
    shipped_sites,
    write_yaml,
)

DOCS = ROOT / "docs/centre/contradictions.md"
SOURCES = ROOT / "docs/measurements/rules.md"
DAY = datetime.date(2026, 11, 26)
GROUPS = ("os", "cpu", "memory", "accelerator", "network", "mpi", "jobs", "scheduler")
CPU = {"model": "a processor", "cores": 64, "threads_per_core": 2}
SPECTRUM = {"family": "spectrum", "mode": "compile", "name": "Spectrum MPI"}
OF_SPECTRUM = {"family": "spectrum", "name": "Spectrum MPI of the site"}
SLURM = {"kind": "slurm", "launcher": ["srun"]}
ALPINE = {"image": "docker://registry.example.org/base/alpine:3.22"}


def of_image(distribution: str, glibc: str | None = None) -> dict[str, Any]:
    """Give a base that is an image and says its system."""
    system = {"distribution": distribution, "release": "1", "source": "a test"}
    return {
        "image": "docker://registry.example.org/base/os:1",
        "system": {**system, **({"glibc": glibc} if glibc else {})},
    }


def wheels(*packages: str) -> list[dict[str, Any]]:
    return [
        {"name": "system", "os_packages": ["python3"]},
        {"name": "wheels", "python_packages": {"packages": list(packages)}},
    ]


def forms(*words: str, ranks: int = 4, **more: Any) -> dict[str, Any]:
    form = {"summary": "s", "launcher": ["srun", *words], "ranks_per_node": ranks, **more}
    return {**SLURM, "directives": ["#SBATCH -N 2"], "forms": {"one": form}}


def lines(*given: str, kind: str = "slurm") -> dict[str, Any]:
    mark = {"slurm": "#SBATCH", "pbs": "#PBS"}[kind]
    return {"kind": kind, "directives": [f"{mark} {line}" for line in given]}


def epochs(**given: Any) -> dict[str, Any]:
    """Give epochs, each (since, until); the first is the usual one."""
    written = {}
    for name, (since, until) in given.items():
        dates = {"since": since, "until": until}
        kept = {key: value for key, value in dates.items() if value}
        written[name] = {"summary": "s", **kept, "changes": {"status": "active"}}
    return {"epoch": next(iter(given)), "epochs": written}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A pair that a rule finds something in, and changes that make it the nearest that is fine."""

    says: str
    site: Mapping[str, Any] = field(default_factory=dict)
    recipe: Mapping[str, Any] = field(default_factory=dict)
    fine_site: Mapping[str, Any] | None = None
    fine_recipe: Mapping[str, Any] | None = None


def gpu(**facts: Any) -> dict[str, Any]:
    return {"accelerator": {**GPU, **facts}}


def mpi(**facts: Any) -> dict[str, Any]:
    return {"mpi": {"family": "mpich", "mode": "swap", "name": "an MPI", **facts}}


def stack(**facts: Any) -> dict[str, Any]:
    return {"stack": facts}


CUDA_SITE = gpu(driver="580.65.06", toolkit="13.0", target="sm_90")
CASES: dict[str, list[Case]] = {
    "site-gpu-flag": [
        Case(
            says="accelerator.vendor: nvidia",
            site={**gpu(), "jobs": {"flags": ["--rocm"]}},
            fine_site={**gpu(), "jobs": {"flags": ["--nv"]}},
        )
    ],
    "site-gpu-near": [
        Case(
            says="ranks run on NUMA domains 0 1 2 3",
            site={**gpu(near=[3, 2, 1, 0]), "scheduler": forms()},
            fine_site={
                **gpu(near=[3, 2, 1, 0]),
                "scheduler": forms("--cpu-bind=map_ldom:3,2,1,0"),
            },
        )
    ],
    "site-scheduler-words": [
        Case(
            says="is an option of pbs",
            site={"scheduler": {"kind": "slurm", "directives": ["#PBS -q debug"]}},
            fine_site={"scheduler": {"kind": "pbs", "directives": ["#PBS -q debug"]}},
        )
    ],
    "site-epoch-order": [
        Case(
            says="epoch a ends on 2024-01-31, before it begins on 2024-02-01",
            site=epochs(a=("2024-02-01", "2024-01-31")),
            fine_site=epochs(a=("2024-02-01", "2024-02-01")),
        )
    ],
    "site-epoch-overlap": [
        Case(
            says="software epochs overlap: b ends on 2024-03-02, a begins on 2024-03-01",
            site=epochs(a=("2024-03-01", None), b=("2024-01-01", "2024-03-02")),
            fine_site=epochs(a=("2024-03-01", None), b=("2024-01-01", "2024-03-01")),
        )
    ],
    "site-epoch-today": [
        Case(
            says="epoch a has ended on 2026-11-26, and no other is in force",
            site=epochs(a=("2024-03-01", "2026-11-25")),
            fine_site=epochs(a=("2024-03-01", "2026-11-26")),
        ),
        Case(
            says="epoch a has not begun on 2026-11-26 (",
            site=epochs(a=("2026-11-27", None), b=(None, "2027-01-01")),
            fine_site=epochs(a=("2026-11-26", None), b=(None, "2027-01-01")),
        ),
    ],
    "site-cpu-arch": [
        Case(
            says="power9 is a processor for ppc64le",
            site={"cpu": {**CPU, "target": "power9"}},
            fine_site={"cpu": {**CPU, "target": "znver3"}},
        )
    ],
    "site-fast-memory": [
        Case(
            says="znver3 has no fast memory",
            site={"cpu": {**CPU, "target": "znver3"}, "memory": {"gb": 96, "fast_gb": 16}},
            fine_site={"cpu": {**CPU, "target": "knl"}, "memory": {"gb": 96, "fast_gb": 16}},
        )
    ],
    "site-gpu-vendor": [
        Case(
            says="gfx90a is a GPU of amd",
            site=gpu(target="gfx90a"),
            fine_site=gpu(target="sm_90"),
        )
    ],
    "site-gpu-model": [
        Case(
            says=f"{model.split('|')[0]} is {right}, but accelerator.target is {wrong}",
            site=gpu(vendor=vendor, model=model.split("|")[-1], target=wrong),
            fine_site=gpu(vendor=vendor, model=model.split("|")[-1], target=right),
        )
        for vendor, model, right, wrong in (
            ("nvidia", "H100|NVIDIA H100 SXM5", "sm_90", "sm_80"),
            ("nvidia", "GH200|NVIDIA GH200 (H100 96 GB)", "sm_90", "sm_100"),
            ("nvidia", "GB200|NVIDIA GB200", "sm_100", "sm_90"),
            ("nvidia", "A100|NVIDIA A100-SXM4-40GB", "sm_80", "sm_90"),
            ("nvidia", "A40|NVIDIA A40", "sm_86", "sm_80"),
            ("nvidia", "V100|NVIDIA Tesla V100 SXM2", "sm_70", "sm_75"),
            ("nvidia", "RTX PRO 6000|NVIDIA RTX PRO 6000 Blackwell", "sm_120", "sm_100"),
            ("amd", "MI250X|AMD Instinct MI250X", "gfx90a", "gfx942"),
            ("amd", "MI300A|AMD Instinct MI300A", "gfx942", "gfx90a"),
            ("amd", "MI355X|AMD Instinct MI355X", "gfx950", "gfx942"),
        )
    ],
    "site-gpu-maker": [
        Case(
            says="the model names amd, but the vendor is nvidia",
            site=gpu(model="AMD Instinct"),
            fine_site=gpu(vendor="amd", model="AMD Instinct"),
        )
    ],
    "site-cuda-last": [
        Case(
            says="CUDA 13.0 does not support sm_70",
            site=gpu(target="sm_70", toolkit="13.0"),
            fine_site=gpu(target="sm_70", toolkit="12.9.1"),
        )
    ],
    "site-cuda-first": [
        Case(
            says="CUDA 11.7 does not support sm_90: 11.8 is the first release that does",
            site=gpu(target="sm_90", toolkit="11.7"),
            fine_site=gpu(target="sm_90", toolkit="11.8"),
        )
    ],
    "site-mpi-soname": [
        Case(
            says="libmpi.so.40 belongs to Open MPI",
            site=mpi(soname="libmpi.so.40"),
            fine_site=mpi(soname="libmpi.so.12"),
        ),
        Case(
            says="libmpi.so.12 belongs to MPICH",
            site=mpi(family="openmpi", soname="libmpi.so.12"),
            fine_site=mpi(family="openmpi", soname="libmpi.so.12", version="1.10.7"),
        ),
        Case(
            says="libmpi_ibm.so.3 belongs to IBM Spectrum MPI",
            site=mpi(family="openmpi", soname="libmpi_ibm.so.3"),
            fine_site=mpi(family="openmpi", soname="libmpi_abi.so.1"),
        ),
    ],
    "site-form-cpus": [
        Case(
            says="form one requests 132 CPUs of a node (4 x 33), which has 128",
            site={"cpu": CPU, "scheduler": forms("-c33")},
            fine_site={"cpu": CPU, "scheduler": forms("-c32")},
        ),
        Case(
            says="form one requests 132 CPUs of a node (1 x 132), which has 128",
            site={"cpu": CPU, "scheduler": forms("-c132", inside="torchrun")},
            # A core that -S holds back is none that a job can use, and counts for -c.
            fine_site={
                "cpu": {**CPU, "cores": 62},
                "scheduler": {
                    **forms("-c128", inside="torchrun"),
                    "directives": ["#SBATCH -S 2"],
                },
            },
        ),
    ],
    "site-line-ranks": [
        Case(
            says="the directives request 132 CPUs of a node (4 x 33)",
            site={
                "cpu": CPU,
                "scheduler": lines("--ntasks-per-node=4", "--cpus-per-task=33"),
            },
            fine_site={
                "cpu": CPU,
                "scheduler": lines("--ntasks-per-node=4", "--cpus-per-task=32"),
            },
        )
    ],
    "site-line-counts": [
        Case(
            says="the directives request 5 accelerators of a node, which has 4",
            site={**gpu(), "scheduler": lines("--gpus-per-node=a100:5")},
            fine_site={**gpu(), "scheduler": lines("--gpus-per-node=a100:4")},
        ),
        Case(
            says="the directives request 5 accelerators of a node",
            site={**gpu(), "scheduler": lines("--gres=gpu:5")},
            fine_site={**gpu(), "scheduler": lines("--gres=gpu:4")},
        ),
        Case(
            says="the directives request 129 CPUs of a node, which has 128",
            site={"cpu": CPU, "scheduler": lines("-l select=2:ncpus=129", kind="pbs")},
            fine_site={"cpu": CPU, "scheduler": lines("-l select=2:ncpus=128", kind="pbs")},
        ),
    ],
    "site-line-memory": [
        Case(
            says="the directives request 257 GB of memory of a node, which has 256 GB",
            site={"memory": {"gb": 256}, "scheduler": lines("--mem=257G")},
            fine_site={"memory": {"gb": 256}, "scheduler": lines("--mem=256G")},
        ),
        Case(
            says="the directives request 293 GB of memory",
            site={"memory": {"gb": 256}, "scheduler": lines("--mem=300000")},
            fine_site={"memory": {"gb": 256}, "scheduler": lines("--mem=0")},
        ),
        Case(
            says="the directives request 300 GB of memory",
            site={"memory": {"gb": 256}, "scheduler": lines("-l select=2:mem=300gb", kind="pbs")},
            # Of the whole job, which may be on two nodes.
            fine_site={"memory": {"gb": 256}, "scheduler": lines("-l mem=300gb", kind="pbs")},
        ),
    ],
    "site-form-gpus": [
        Case(
            says="form one starts 5 ranks per node, which has 4 accelerators",
            site={**gpu(), "scheduler": forms(ranks=5)},
            fine_site={**gpu(), "scheduler": forms(ranks=4)},
        )
    ],
    "site-form-ranks": [
        Case(
            says="form one starts 129 ranks per node, which has 128 CPUs",
            site={"cpu": CPU, "scheduler": forms(ranks=129)},
            fine_site={"cpu": CPU, "scheduler": forms(ranks=128)},
        )
    ],
    "site-job-threads": [
        Case(
            says="132 threads on a node (4 ranks x 33), which has 128 CPUs",
            site={
                "cpu": CPU,
                "scheduler": forms(),
                "jobs": {"environment": {"OMP_NUM_THREADS": "33"}},
            },
            fine_site={
                "cpu": CPU,
                "scheduler": forms(),
                "jobs": {"environment": {"OMP_NUM_THREADS": "32"}},
            },
        )
    ],
    "recipe-cuda-gcc": [
        Case(
            says=f"GCC {bad} is newer than {good}, the newest that CUDA {cuda} supports",
            site=CUDA_SITE,
            recipe=stack(cuda=cuda, gcc=bad),
            fine_recipe=stack(cuda=cuda, gcc=f"{good}.9"),
        )
        for cuda, bad, good in (
            ("9.1", "7", "6"),
            ("10.2", "9.1", "8"),
            ("11.0.3", "10", "9"),
            ("11.8", "12.2.0", "11"),
            ("12.3", "13", "12"),
            ("12.6", "14.2", "13"),
            ("12.9", "15.1", "14"),
            ("13.0", "16", "15"),
        )
    ],
    "recipe-cuda-targets": [
        Case(
            says=f"CUDA {bad} cannot compile for {target}: {edge} is the {which} release that can",
            site={},
            recipe=stack(cuda=bad, gpu_targets=[target]),
            fine_recipe=stack(cuda=f"{edge}.1", gpu_targets=[target]),
        )
        for target, bad, edge, which in (
            ("sm_100", "11.8", "12.8", "first"),
            ("sm_90", "11.7", "11.8", "first"),
            ("sm_90a", "11.8", "12.0", "first"),
            ("sm_100f", "12.8", "12.9", "first"),
            ("sm_80+PTX", "10.2", "11.0", "first"),
            ("compute_120", "12.6", "12.8", "first"),
            ("sm_35", "12.0", "11.8", "last"),
            ("sm_70", "13.0", "12.9", "last"),
            ("sm_101", "13.0", "12.9", "last"),
        )
    ],
    "recipe-rocm-targets": [
        Case(
            says="ROCm 5.6 cannot compile for gfx942: 5.7 is the first release that can",
            recipe=stack(rocm="5.6", gpu_targets=["gfx942"]),
            fine_recipe=stack(rocm="5.7", gpu_targets=["gfx942:xnack-"]),
        )
    ],
    "recipe-target-vendor": [
        Case(
            says="gfx90a is a GPU of amd, but the stack has cuda only",
            recipe=stack(cuda="12.6", gpu_targets=["sm_80", "gfx90a"]),
            fine_recipe=stack(cuda="12.6", rocm="6.4", gpu_targets=["sm_80", "gfx90a"]),
        ),
        Case(
            says="sm_80+PTX is a GPU of nvidia, but the stack has rocm only",
            recipe=stack(rocm="6.4", gpu_targets=["sm_80+PTX"]),
            fine_recipe=stack(rocm="6.4", gpu_targets=["gfx90a"]),
        ),
    ],
    "recipe-base-musl": [
        Case(
            says="the base's C library is musl, but the wheel of torch==2.13.0 needs glibc 2.28",
            recipe={"base": base, "steps": wheels("six==1.17.0", "torch==2.13.0")},
            # Its wheels may be musllinux ones: a doubt, not a refusal.
            fine_recipe={"base": base, "steps": wheels("six==1.17.0")},
        )
        for base in (ALPINE, of_image("alpine"), {"image": "docker://python:3.11-alpine3.22"})
    ],
    "recipe-base-wheels": [
        Case(
            says=f"is older than {needed}, which the wheels of {bad} need",
            recipe={"base": of_image("ubuntu", glibc), "steps": wheels(bad)},
            fine_recipe={"base": of_image("ubuntu", glibc), "steps": wheels(good)},
        )
        for glibc, needed, bad, good in (
            ("2.27", "2.28", "torch==2.7.1+cu126", "torch==2.6.0+cu126"),
            ("2.26", "2.27", "tensorflow_cpu==2.21.0", "tensorflow_cpu==2.20.0"),
            ("2.26", "2.27", "jaxlib==0.10.2", "jaxlib==0.7.0"),
        )
    ],
    "recipe-python-home": [
        Case(
            says="PYTHONHOME=/usr differs from the image's own Python at /opt/demo",
            recipe={"environment": {"PYTHONHOME": "/usr"}},
            fine_recipe={"environment": {"PYTHONHASHSEED": "0"}},
        )
    ],
    "recipe-python-path": [
        Case(
            says="PYTHONPATH=/opt/more comes before the image's packages",
            recipe={
                "steps": [
                    {
                        "name": "more",
                        "os_packages": ["python3"],
                        "environment": {"PYTHONPATH": "/opt/more"},
                    }
                ]
            },
            fine_recipe={"environment": {"PYTHONUNBUFFERED": "1"}},
        )
    ],
    "toolkit-vendor": [
        Case(
            says="the image is built with ROCm",
            site=gpu(),
            recipe=stack(rocm="6.4"),
            fine_recipe=stack(cuda="12.6"),
        )
    ],
    "toolkit-driver": [
        Case(
            says="CUDA 13.0 needs driver 580",
            site=gpu(driver="575.51"),
            recipe=stack(cuda="13.0"),
            fine_recipe=stack(cuda="12.9"),
        ),
        Case(
            says="ROCm 7.1 is newer than what driver 6.10.5 runs, 6.1 to 7.0",
            site=gpu(vendor="amd", target="gfx90a", driver="6.10.5"),
            recipe=stack(rocm="7.1"),
            fine_recipe=stack(rocm="7.0"),
        ),
    ],
    "cuda-arch": [
        Case(
            says="CUDA 12.5 does not support ppc64le",
            site={"arch": "ppc64le", **gpu(driver="580.65")},
            recipe=stack(cuda="12.5"),
            fine_recipe=stack(cuda="12.4"),
        )
    ],
    "cuda-gpu": [
        Case(
            says="CUDA 13.0 does not support sm_70",
            site=gpu(driver="580.65", target="sm_70"),
            recipe=stack(cuda="13.0"),
            fine_recipe=stack(cuda="12.9"),
        )
    ],
    "cuda-older-than-gpu": [
        Case(
            says="CUDA 12.6 is older than 12.8, the first release for sm_100",
            site=gpu(driver="580.65", target="sm_100"),
            recipe=stack(cuda="12.6"),
            fine_recipe=stack(cuda="12.8"),
        )
    ],
    "gpu-code": [
        Case(
            says="the build has device code for sm_80, but not for sm_90",
            site=gpu(driver="580.65", target="sm_90"),
            recipe=stack(cuda="12.6", gpu_targets=["sm_80"]),
            fine_recipe=stack(cuda="12.6", gpu_targets=["sm_90"]),
        )
    ],
    "cpu-code": [
        Case(
            says="the image is built for x86-64-v4, but the site's processor is znver3",
            site={"cpu": {**CPU, "target": "znver3"}},
            recipe=stack(cpu_target="x86-64-v4"),
            fine_recipe=stack(cpu_target="x86-64-v3"),
        )
    ],
    "compiler-phi": [
        Case(
            says="GCC 15.1 cannot compile for Xeon Phi",
            site={"cpu": {**CPU, "target": "knl"}},
            recipe=stack(gcc="15.1"),
            fine_recipe=stack(gcc="14.3"),
        )
    ],
    "mpi-family": [
        Case(
            says="belongs to the family openmpi, the site's",
            site=mpi(),
            recipe=stack(mpi=MPI),
            fine_site=mpi(family="openmpi"),
            fine_recipe=stack(mpi=MPI),
        )
    ],
    "mpi-fabric": [
        Case(
            says="is built for infiniband, but the site has slingshot",
            site={"network": {"kind": "slingshot", "model": "Slingshot-11"}},
            recipe=stack(mpi={**MPI, "fabrics": ["infiniband"]}),
            fine_recipe=stack(mpi={**MPI, "fabrics": ["infiniband", "slingshot"]}),
        )
    ],
    "mpi-spectrum": [
        Case(
            says="Spectrum MPI does not support CUDA 12.4",
            site={"mpi": SPECTRUM, **gpu(driver="580.65")},
            recipe=stack(cuda="12.4", mpi=OF_SPECTRUM),
            fine_recipe=stack(cuda="11.8", mpi=OF_SPECTRUM),
        ),
        Case(
            says="Spectrum MPI does not support GCC 12.1",
            site={"mpi": SPECTRUM, **gpu(driver="580.65")},
            recipe=stack(cuda="11.7", gcc="12.1", mpi=OF_SPECTRUM),
            # Nothing of it is linked to the site's MPI.
            fine_recipe=stack(cuda="12.4", gcc="12.1"),
        ),
    ],
    "glibc-host": [
        Case(
            says="the base's glibc 2.36 is older than the host's 2.38",
            site={**mpi(), "os": {"distribution": "sles", "release": "15.7", "glibc": "2.38"}},
            recipe=stack(mpi={"family": "mpich", "name": "MPICH 4.1"}),
            fine_site={**mpi(), "os": {"distribution": "d", "release": "r", "glibc": "2.36"}},
            fine_recipe=stack(mpi={"family": "mpich", "name": "MPICH 4.1"}),
        )
    ],
    "kernel-base": [
        Case(
            says="needs Linux 3.2 or newer",
            site={"os": {"distribution": "centos", "release": "6", "kernel": "2.6.32"}},
            fine_site={"os": {"distribution": "centos", "release": "7", "kernel": "3.10.0"}},
        )
    ],
    "site-base-system": [
        Case(
            says="and does not describe its system",
            site={"base": {"image": "docker://registry.example.org/base/os:1"}},
            fine_site={"base": of_image("ubuntu", "2.39")},
        ),
        Case(
            says="and does not describe its system",
            site={"recipes": {"demo": {"base": {"image": "docker://registry.example.org/os:1"}}}},
            fine_site={"recipes": {"demo": {"base": of_image("ubuntu", "2.39")}}},
        ),
    ],
    "site-image-paths": [
        Case(
            says=f"{name}=/sw/python hides the image's files at /opt/demo",
            site={key: {name: "/sw/python"}},
            fine_site={key: {"PYTHONHASHSEED": "0"}},
        )
        for key, name in (
            ("environment", "PYTHONPATH"),
            ("environment", "PYTHONHOME"),
            ("environment", "LD_LIBRARY_PATH"),
        )
    ]
    + [
        Case(
            says="PYTHONHOME=/sw/python hides the image's files at /opt/demo",
            site={"jobs": {"inside": {"PYTHONHOME": "/sw/python"}}},
            # Host libraries, and modules of the site's own, may be meant.
            fine_site={
                "jobs": {"inside": {"LD_LIBRARY_PATH": "/host/lib", "PYTHONPATH": "/sw/python"}}
            },
        )
    ],
    "image-threads": [
        Case(
            says="132 threads on a node (4 ranks x 33), which has 128 CPUs",
            site={"cpu": CPU, "scheduler": forms()},
            recipe={"environment": {"OMP_NUM_THREADS": "33"}},
            fine_recipe={"environment": {"OMP_NUM_THREADS": "32"}},
        )
    ],
}
RULES = {rule.id: rule for rule in table.ALL}
EACH = [(name, index) for name, cases in CASES.items() for index in range(len(cases))]


def settle(tmp_path: Path, site: Mapping[str, Any], recipe: Mapping[str, Any]) -> plan.Plan:
    """Settle a recipe at a site on a day, as the command line would; both stand in files."""
    facts = {
        key: {"sources": ["made-up"], **value} if key in GROUPS else value
        for key, value in site.items()
    }
    for form in facts.get("scheduler", {}).get("forms", {}).values():
        form["sources"] = ["made-up"]
    path = write_yaml(tmp_path / "site.yaml", {**SITE, "sources": {"made-up": "a test"}, **facts})
    loaded = loading.load(
        path,
        files=loading.SiteFiles(display=lambda path: path.name, find=path.with_name),
        overrides=None,
        host=HOST,
    )
    folder = folder_of(tmp_path, **recipe)
    has_code = any(key != "mpi" for key in recipe.get("stack", {}) if key in _DEVICE_KEYS)
    return plan.resolve(
        site=loaded,
        recipe=read_recipe(folder),
        changes=[],
        setting=PlanContext(host=HOST, trial=None, templates={}, today=DAY),
        cpu="accelerator" in site and not has_code,
    )


_DEVICE_KEYS = ("cuda", "rocm", "oneapi", "gpu_targets")


def said(tmp_path: Path, site: Mapping[str, Any], recipe: Mapping[str, Any]) -> Iterator[str]:
    """Give all that is said: the refusal, else the notes."""
    try:
        yield from settle(tmp_path, site, recipe).notes
    except DlcontainerError as error:
        yield str(error)


def test_each_rule_has_a_test() -> None:
    assert sorted(CASES) == sorted(RULES)
    assert len(RULES) == len(table.ALL), "two rules have one id"
    assert all(CASES.values())


@pytest.mark.parametrize(("rule", "index"), EACH)
def test_what_contradicts_is_said(tmp_path: Path, rule: str, index: int) -> None:
    case, entry = CASES[rule][index], RULES[rule]
    if entry.severity == "note":
        found = [
            note for note in settle(tmp_path, case.site, case.recipe).notes if case.says in note
        ]
        assert len(found) == 1
        if rule != "cuda-older-than-gpu":  # a doubt: one fact is not there
            place = r"(site|recipe)\.yaml:\d+:\d+: \S+"
            both = rf"^{place} contradicts {place}: "
            assert re.match(both, found[0]), found[0]
            assert "; " in found[0]
        return
    with pytest.raises(DlcontainerError) as caught:
        settle(tmp_path, case.site, case.recipe)
    text = str(caught.value)
    assert case.says in text
    assert caught.value.exit_code == entry.exit_code
    assert isinstance(caught.value, ConfigError if entry.exit_code == 3 else MisfitError)
    # Both places, the reason and the next step.
    assert len(re.findall(r"(?:site|recipe)\.yaml:\d+:\d+", text)) >= 2
    assert "\n  why: " in text
    assert "\n  next: " in text


@pytest.mark.parametrize(("rule", "index"), EACH)
def test_the_nearest_that_is_possible_is_not(tmp_path: Path, rule: str, index: int) -> None:
    case = CASES[rule][index]
    site = case.site if case.fine_site is None else case.fine_site
    recipe = case.recipe if case.fine_recipe is None else case.fine_recipe
    assert (site, recipe) != (case.site, case.recipe)
    found = list(settle(tmp_path, site, recipe).notes)
    assert [line for line in found if case.says in line] == []


@pytest.mark.parametrize(("rule", "index"), EACH)
def test_the_rule_itself_finds_it(
    tmp_path: Path, rule: str, index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the rule nothing says it: no other rule does its work."""
    group = next(
        name
        for name in ("SITE", "DATED", "RECIPE", "STACK", "PAIR", "LOADING")
        if any(one.id == rule for one in getattr(table, name))
    )
    if group == "LOADING":
        return  # it is asked by loading.load, which does not read the table
    case = CASES[rule][index]
    left = tuple(one for one in getattr(table, group) if one.id != rule)
    monkeypatch.setattr(table, group, left)
    assert [line for line in said(tmp_path, case.site, case.recipe) if case.says in line] == []


def test_shipped_sites_contradict_nothing() -> None:
    named = [name for name, _ in shipped_sites()]
    assert len(named) > 30
    for name in named:
        conflicts.require_site(shipped_site(*read_target(name)))


def test_shipped_recipes_contradict_nothing_at_any_shipped_site() -> None:
    plans = [entry.plan for entry in goldens.matrix() if entry.plan is not None]
    assert len(plans) > 100
    found = [
        (one.name, finding.what)
        for one in plans
        for rule in table.RECIPE
        for finding in rule.check(one.recipe)
        if isinstance(finding, conflicts.FactConflict)
    ]
    assert found == []


def between(page: Path, first: str, last: str, inside: str) -> str:
    """Give a page with other lines between two of its comments."""
    before, _, rest = page.read_text().partition(first)
    return f"{before}{first}{inside}{last}{rest.partition(last)[2]}"


def table_in_docs() -> str:
    """Give docs/centre/contradictions.md with the table as the code has it."""
    rows = ["| rule | compares | severity |\n", "|---|---|---|\n"]
    for rule in table.ALL:
        severity = f"refuse, {rule.exit_code}" if rule.severity == "refuse" else "note"
        rows.append(f"| {rule.id} | {rule.compares} | {severity} |\n")
    return between(DOCS, *_TABLE, "".join(rows))


def sources_in_docs() -> str:
    """Give docs/measurements/rules.md with the sources as the code has them."""
    named: dict[str, list[str]] = {}
    for rule in table.ALL:
        named.setdefault(rule.source, []).append(rule.id)
    lines = (f"- {', '.join(rules)}: {source}" for source, rules in named.items())
    filled = (
        textwrap.fill(line, 120, subsequent_indent="  ", break_on_hyphens=False) for line in lines
    )
    return between(SOURCES, *_LIST, "".join(f"{line}\n" for line in filled))


_TABLE = ("<!-- table: `make golden` writes it -->\n", "<!-- end of the table -->\n")
_LIST = ("<!-- list: `make golden` writes it -->\n", "<!-- end of the list -->\n")


@pytest.mark.parametrize(("page", "written"), [(DOCS, table_in_docs), (SOURCES, sources_in_docs)])
def test_the_docs_have_the_table(
    request: pytest.FixtureRequest, page: Path, written: Callable[[], str]
) -> None:
    if request.config.getoption("--update-golden"):
        page.write_text(written())
    assert page.read_text() == written(), "pytest THIS_FILE --update-golden"
