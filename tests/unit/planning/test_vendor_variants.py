"""What vendors and centres publish: each variant renders for a site that can have it."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dlcontainer.formats import texts
from dlcontainer.formats.texts import Format
from dlcontainer.planning import variants
from dlcontainer.planning.plan import Plan
from dlcontainer.recipes import recipe
from tests.values import ROOT, SITE, TEMPLATES, plan_of, shipped_site, site_of

RECIPES = ("pytorch", "tensorflow", "horovod", "jax", "mxnet", "caffe")
FORMS: tuple[Format, ...] = ("apptainer", "dockerfile")

# Values, not sites: what decides which variant a site has, and no more.
MACHINES: dict[str, dict[str, Any]] = {
    "pascal": {"arch": "x86_64", "gpu": ("nvidia", "sm_60", "12.9")},
    "volta": {"arch": "x86_64", "gpu": ("nvidia", "sm_70", "12.9")},
    "turing": {"arch": "x86_64", "gpu": ("nvidia", "sm_75", "12.4")},
    "ampere-cray": {"arch": "x86_64", "gpu": ("nvidia", "sm_80", "13.0"), "mpi": ("mpich", "swap")},
    "ampere": {
        "arch": "x86_64",
        "gpu": ("nvidia", "sm_80", "12.9"),
        "mpi": ("openmpi", "container"),
    },
    "ultra": {"arch": "x86_64", "gpu": ("nvidia", "sm_103", "13.0")},
    "newest": {"arch": "x86_64", "gpu": ("nvidia", "sm_103", "13.5")},
    "thor": {"arch": "aarch64", "gpu": ("nvidia", "sm_110", "13.0")},
    "grace": {
        "arch": "aarch64",
        "gpu": ("nvidia", "sm_90", "12.9"),
        "mpi": ("openmpi", "container"),
    },
    "rocm-7.2": {"arch": "x86_64", "gpu": ("amd", "gfx942", "7.2")},
    "rocm-7.1": {"arch": "x86_64", "gpu": ("amd", "gfx950", "7.1")},
    "rocm-7.0": {"arch": "x86_64", "gpu": ("amd", "gfx90a", "7.0")},
    "rocm-6.4": {"arch": "x86_64", "gpu": ("amd", "gfx90a", "6.4.2"), "mpi": ("mpich", "swap")},
    "rocm-6.2": {"arch": "x86_64", "gpu": ("amd", "gfx90a", "6.2.4"), "mpi": ("mpich", "swap")},
    "rocm-6.0": {"arch": "x86_64", "gpu": ("amd", "gfx90a", "6.0.3"), "mpi": ("mpich", "swap")},
    "max": {"arch": "x86_64", "gpu": ("intel", None, "2025.3.1")},
    "power-2024": {
        "arch": "ppc64le",
        "gpu": ("nvidia", "sm_70", "11.7.1"),
        "mpi": ("spectrum", "compile"),
    },
    "power-2021": {
        "arch": "ppc64le",
        "gpu": ("nvidia", "sm_70", "11.0.3"),
        "mpi": ("spectrum", "compile"),
    },
    "knl-cray": {"arch": "x86_64", "cpu": "knl", "mpi": ("mpich", "swap")},
    "knl-opa": {"arch": "x86_64", "cpu": "knl", "mpi": ("mpich", "container")},
}
# (recipe, variant) -> the machine that it is for
FOR: dict[tuple[str, str], str] = {
    ("pytorch", "cuda"): "ampere",
    ("pytorch", "cuda-volta"): "pascal",
    ("pytorch", "cuda-13"): "ultra",
    ("pytorch", "cuda-13-arm"): "thor",
    ("pytorch", "rocm-7.1"): "rocm-7.1",
    ("pytorch", "rocm-7.0"): "rocm-7.0",
    ("pytorch", "cuda-12.4"): "turing",
    ("pytorch", "ngc"): "grace",
    ("pytorch", "rocm"): "rocm-6.4",
    ("pytorch", "rocm-6.2"): "rocm-6.2",
    ("pytorch", "rocm-6.0"): "rocm-6.0",
    ("pytorch", "xpu"): "max",
    ("pytorch", "open-ce"): "power-2024",
    ("pytorch", "open-ce-2021"): "power-2021",
    ("pytorch", "wml-ce"): "power-2021",
    ("pytorch", "knl"): "knl-cray",
    ("tensorflow", "cuda"): "ampere",
    ("tensorflow", "cuda-12.3"): "turing",
    ("tensorflow", "ngc"): "grace",
    ("tensorflow", "rocm"): "rocm-6.4",
    ("tensorflow", "xpu"): "max",
    ("tensorflow", "open-ce"): "power-2024",
    ("tensorflow", "open-ce-2021"): "power-2021",
    ("tensorflow", "wml-ce"): "power-2021",
    ("tensorflow", "knl"): "knl-opa",
    ("horovod", "cuda-mpich"): "ampere-cray",
    ("horovod", "cuda-openmpi"): "ampere",
    ("horovod", "ngc"): "grace",
    ("horovod", "rocm"): "rocm-6.4",
    ("horovod", "rocm-6.2"): "rocm-6.2",
    ("horovod", "open-ce-spectrum"): "power-2024",
    ("horovod", "open-ce-2021-spectrum"): "power-2021",
    ("horovod", "knl-mpich"): "knl-cray",
    ("horovod", "knl-impi"): "knl-opa",
    ("horovod", "knl-mvapich2"): "knl-opa",
    ("jax", "cuda"): "grace",
    ("jax", "cuda-13"): "newest",
    ("jax", "rocm"): "rocm-7.2",
    ("mxnet", "cuda"): "ampere",
    ("mxnet", "conda"): "power-2024",
    ("mxnet", "knl"): "knl-opa",
    ("caffe", "intel-knl"): "knl-opa",
    ("caffe", "nvidia"): "volta",
    ("caffe", "wml-ce"): "power-2024",
}
# Not the first that fits there, since what replaced it, or what else fits, stands before it.
SECOND = {("pytorch", "wml-ce"), ("tensorflow", "wml-ce"), ("horovod", "knl-impi")}
# No device code, at a machine with GPUs: taken where it is asked for.
FOR_CPUS = {("mxnet", "conda")}

# No other tag was found.
LATEST = {("horovod", "knl-impi")}


def settle(name: str, variant: str | None, machine: str) -> Plan:
    facts = MACHINES[machine]
    parts: dict[str, Any] = {"arch": facts["arch"], "os": {"distribution": "x", "release": "1"}}
    parts["cpu"] = {"model": "CPU", "cores": 68, "target": facts.get("cpu")}
    if "gpu" in facts:
        vendor, target, toolkit = facts["gpu"]
        gpu = {"vendor": vendor, "model": "GPU", "per_node": 4, "toolkit": toolkit}
        parts["accelerator"] = gpu | ({"target": target} if target else {})
    if "mpi" in facts:
        family, mode = facts["mpi"]
        parts["mpi"] = {"family": family, "mode": mode, "name": "MPI", "root": "$MPI_ROOT"}
    return plan_of(ROOT / "recipes" / name, site=site_of(SITE, **parts), asked=variant)


@pytest.mark.parametrize(("name", "variant"), FOR)
def test_each_renders_for_a_machine_that_can_have_it(name: str, variant: str) -> None:
    plan = settle(name, variant, FOR[name, variant])
    assert plan.choice is not None
    usual = (name, variant) not in SECOND | FOR_CPUS
    assert plan.choice.usual == usual, plan.choice.passed_over
    for form in FORMS:
        text = texts.text(plan, form, [TEMPLATES])
        assert "{{" not in text
    tag = plan.recipe.base.reference.tag if plan.recipe.base.reference else None
    assert (tag == "latest") == ((name, variant) in LATEST)
    stack = plan.recipe.stack
    assert stack.cpu_target, "what the build asks of a processor is unsaid"
    vendor = plan.site.accelerator.vendor if plan.site.accelerator else None
    if vendor and variant != "conda":
        toolkits = {"nvidia": stack.cuda, "amd": stack.rocm, "intel": stack.oneapi}
        assert toolkits[vendor], "whose toolkit's version is unsaid"
    assert (name == "horovod") == (stack.mpi is not None)


def test_none_is_forgotten() -> None:
    shipped = {
        (name, variant)
        for name in RECIPES
        for variant in variants.names(
            recipe.read(ROOT / "recipes" / name / "recipe.yaml", display=name), "vendor"
        )
    }
    assert shipped == set(FOR)


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*/variants/*.yaml")), ids=str)
def test_each_file_says_where_it_is_from_and_that_it_was_not_run(path: Path) -> None:
    text = path.read_text()
    head = text[: text.index("kind: ")]
    assert head.startswith("# ")
    assert re.search(r"source|from memory", text, re.IGNORECASE)
    if "kind: vendor" in text:
        assert re.search(r"never (?:built or )?run", head)


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*/variants/*.yaml")), ids=str)
def test_what_was_not_built_or_pinned_is_said_in_the_model_too(path: Path) -> None:
    written: Any = yaml.safe_load(path.read_text())
    head = path.read_text().partition("\nkind: ")[0].replace("\n# ", " ")
    assert ("never built" in head) == (written.get("status") == "never built")
    base = written["changes"].get("base", {})
    if base.get("image") and not base.get("digest"):
        assert written.get("lock") == "by the site", "a tag alone: who pins its digest?"


def test_summits_two_stacks_take_two_releases() -> None:
    old, new = (settle("pytorch", None, machine) for machine in ("power-2021", "power-2024"))
    assert (old.recipe.versions["torch"], old.recipe.stack.cuda) == ("1.9.0", "11.0")
    assert (new.recipe.versions["torch"], new.recipe.stack.cuda) == ("1.13.0", "11.4")


def test_what_a_swap_needs() -> None:
    # Debian's and Ubuntu's is called libmpich.so.12: what is linked to it asks for no libmpi.so.12.
    for machine in ("ampere-cray", "knl-cray"):
        plan = settle("horovod", None, machine)
        packages = {name for step in plan.recipe.steps for name in step.os_packages}
        assert not {"mpich", "libmpich-dev"} & packages
        text = texts.text(plan, "dockerfile", [TEMPLATES])
        assert "libmpi.so.12" in text
    script = (ROOT / "recipes/horovod/build/mpich.sh").read_text()
    assert "--disable-wrapper-rpath" in script


def test_spectrum_is_compiled_against_not_carried() -> None:
    text = texts.text(settle("horovod", None, "power-2024"), "dockerfile", [TEMPLATES])
    assert "\nARG MPI_ROOT\n" in text
    assert "MPI_ROOT=/" not in text
    assert "libmpi_ibm.so.3" in text
    assert " horovod=" not in text


def test_a_documented_build_says_where_spectrum_is() -> None:
    folder = ROOT / "recipes" / "horovod"
    route = texts.text(plan_of(folder, site=shipped_site("summit")), "route", [TEMPLATES])
    assert ' -v "${MPI_ROOT}":"${MPI_ROOT}" --build-arg MPI_ROOT="${MPI_ROOT}" ' in route
    plain = plan_of(folder, site=shipped_site("lassen"))
    text = texts.text(plain, "dockerfile", [TEMPLATES])
    assert "MPI_ROOT=/opt/ibm/spectrum_mpi\\n" in text
    assert "\nARG MPI" not in text


@pytest.mark.parametrize(("cores", "threads"), [(64, "62"), (68, "66")])
def test_threads_of_a_knl_leave_two_cores_free(cores: int, threads: str) -> None:
    site = site_of(cpu={"model": "KNL", "cores": cores, "target": "knl"})
    plan = plan_of(ROOT / "recipes" / "pytorch", site=site)
    assert plan.recipe.variant == "knl"
    assert plan.environment["OMP_NUM_THREADS"] == threads
    assert plan.environment["ATEN_CPU_CAPABILITY"] == "avx2"
