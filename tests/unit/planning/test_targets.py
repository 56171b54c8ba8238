"""Which image a machine gets, device by device, of the shipped recipes: no CPU image in silence."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlcontainer import config
from dlcontainer.config import Document
from dlcontainer.errors import MisfitError
from dlcontainer.planning import candidates, variants
from dlcontainer.planning.choice import ChoiceRequest
from dlcontainer.planning.plan import Plan
from dlcontainer.recipes import recipe
from tests.unit.planning.test_device_code import DEVICES, EMBEDDED, taken
from tests.values import ROOT, SITE, plan_of, site_of

RECIPES = ("pytorch", "tensorflow", "horovod", "mxnet", "jax")
DRIVER, TOOLKIT = "580.65.06", "13.0"
# The last toolkit of GPUs that CUDA 13 does not know.
LAST = {"sm_35": "11.8", "sm_60": "12.9", "sm_61": "12.9", "sm_70": "12.9"}
MPI = {"nvidia": ("openmpi", "container"), "amd": ("mpich", "swap")}


@cache
def as_written(name: str) -> Document:
    return recipe.read(ROOT / "recipes" / name / "recipe.yaml", display=name)


def machine(arch: str, target: str, **facts: str) -> dict[str, Any]:
    vendor = "amd" if target.startswith("gfx") else "nvidia"
    newest = {"toolkit": "7.1"} if vendor == "amd" else {"driver": DRIVER}
    if vendor == "nvidia":
        newest["toolkit"] = LAST.get(target, TOOLKIT)
    gpu = {"vendor": vendor, "model": "GPU", "per_node": 4, "target": target, **newest, **facts}
    return {"arch": arch, "accelerator": {key: value for key, value in gpu.items() if value}}


def settle(name: str, site: dict[str, Any], **more: Any) -> Plan:
    family, mode = MPI[site["accelerator"]["vendor"]]
    mpi = {"family": family, "mode": mode, "name": "MPI", "root": "$MPI_ROOT"}
    parts = {"mpi": mpi, **site}
    site_value = site_of(SITE, **{key: value for key, value in parts.items() if value})
    return plan_of(ROOT / "recipes" / name, site=site_value, **more)


def refusal(name: str, site: dict[str, Any]) -> str:
    with pytest.raises(MisfitError) as caught:
        settle(name, site)
    return str(caught.value)


# Each target that the review of the sites swept, and a GPU of it. What gets an image names the
# variant; what is refused, `-` and the nearest.
#                       pytorch        tensorflow  horovod          mxnet           jax
TABLE = """
x86_64  sm_35   K40     -              -           -                -           -
x86_64  sm_60   P100    cuda-volta     cuda        cuda-openmpi     cuda        -cuda
x86_64  sm_61   P40     cuda-volta     cuda        cuda-openmpi     cuda        -cuda
x86_64  sm_70   V100    cuda           cuda        cuda-openmpi     cuda        -cuda
x86_64  sm_75   T4      cuda-13        cuda        cuda-openmpi     cuda        cuda-13
x86_64  sm_80   A100    cuda-13        cuda        cuda-openmpi     cuda        cuda-13
x86_64  sm_86   A40     cuda-13        cuda        cuda-openmpi     cuda        cuda-13
x86_64  sm_89   L40S    cuda-13        cuda        cuda-openmpi     cuda        cuda-13
x86_64  sm_90   H100    cuda-13        cuda        cuda-openmpi     -cuda       cuda-13
x86_64  sm_100  B200    cuda-13        cuda        -cuda-openmpi    -cuda       cuda-13
x86_64  sm_103  B300    cuda-13        cuda        -cuda-openmpi    -cuda       cuda-13
x86_64  sm_120  RTX5090 cuda-13        cuda        -cuda-openmpi    -cuda       cuda-13
x86_64  sm_87   none    -cuda          -cuda       -cuda-openmpi    -cuda       -cuda
aarch64 sm_87   Orin    -ngc           -ngc        -ngc             -cuda       -cuda
aarch64 sm_90   GH200   cuda-13-arm    ngc         ngc              -cuda       cuda-13
aarch64 sm_100  GB200   cuda-13-arm    -cuda       ngc              -cuda       cuda-13
aarch64 sm_110  Thor    cuda-13-arm    -cuda       -ngc             -cuda       cuda-13
x86_64  gfx906  MI50    rocm-7.1       rocm        rocm             -cuda       -rocm
x86_64  gfx908  MI100   rocm-7.1       rocm        rocm             -cuda       -rocm
x86_64  gfx90a  MI250X  rocm-7.1       rocm        rocm             -cuda       -rocm
x86_64  gfx942  MI300X  rocm-7.1       rocm        rocm             -cuda       -rocm
x86_64  gfx950  MI355X  rocm-7.1       -rocm       -rocm            -cuda       -rocm
x86_64  gfx1100 W7900   rocm-7.1       rocm        rocm             -cuda       -rocm
"""
CASES = [
    (arch, target, name, expected)
    for arch, target, _, *row in map(str.split, TABLE.strip().splitlines())
    for name, expected in zip(RECIPES, row, strict=True)
]


@pytest.mark.parametrize(("arch", "target", "name", "expected"), CASES)
def test_each_target(arch: str, target: str, name: str, expected: str) -> None:
    site = machine(arch, target)
    if not expected.startswith("-"):
        plan = settle(name, site)
        assert plan.choice is not None
        assert (plan.choice.name, plan.choice.usual) == (expected, True)
        assert plan.recipe.stack.has_device_code
        assert target in plan.choice.why
        return
    said = refusal(name, site)
    assert f"runs on the accelerators of site demo ({target} on {arch})" in said
    assert f"why: the nearest is {expected[1:]}" in said
    assert f"write a variant for {target} on {arch}" in said
    for_cpus = arch == "x86_64" or name in ("pytorch", "jax")
    assert ("add --cpu to use " in said) == for_cpus
    if for_cpus:
        assert not settle(name, site, cpu=True).recipe.stack.has_device_code


@pytest.mark.parametrize(
    ("target", "facts", "expected"),
    [
        (
            "sm_90",
            {"driver": "470.82"},
            "CUDA 12.8 needs driver 525 or newer, the site has 470",
        ),
        ("sm_103", {"driver": "570.1"}, "cuda"),  # 12.8 runs, though it does not know the GPU
        ("sm_75", {"driver": "", "toolkit": "12.4"}, "cuda-12.4"),
        ("sm_75", {"driver": "", "toolkit": "12.6"}, "cuda-volta"),
        ("gfx90a", {"toolkit": "6.2.4"}, "rocm-6.2"),
        ("gfx942", {"toolkit": "6.0.3"}, "rocm-6.0"),
        ("gfx942", {"toolkit": ""}, "or newer, the site's is not known"),
    ],
)
def test_drivers_and_toolkits_choose_too(target: str, facts: Any, expected: str) -> None:
    site = machine("x86_64", target, **facts)
    if " " in expected:
        assert expected in refusal("pytorch", site)
        return
    choice = settle("pytorch", site).choice
    assert choice is not None
    assert choice.name == expected


def test_horovod_where_the_mpi_is_not_written() -> None:
    said = refusal("horovod", {**machine("x86_64", "sm_80"), "mpi": None})
    assert "the site file does not write `mpi`" in said
    assert "write the site's `mpi` (docs/centre/add-a-site.md)" in said
    assert "add --cpu to use pytorch" in said


def test_libraries_that_are_older_than_the_gpu_are_in_doubt() -> None:
    notes = settle("pytorch", machine("x86_64", "sm_103", driver="570.1")).notes
    assert any("CUDA 12.8 is older than 12.9, the first release for sm_103" in one for one in notes)


def test_an_unknown_target_is_asked_for() -> None:
    said = refusal("pytorch", machine("x86_64", ""))
    assert "needs accelerator.target" in said
    assert "the site's is not known" in said


@settings(max_examples=60)
@given(
    name=st.sampled_from(RECIPES),
    arch=st.sampled_from(["x86_64", "aarch64", "ppc64le"]),
    device=st.sampled_from([*DEVICES, *EMBEDDED]),
    driver=st.sampled_from(["", "470.1", "535.1", "580.1"]),
    toolkit=st.sampled_from(["", "11.0", "11.7", "12.4", "12.9", "13.0"]),
    mpi=st.sampled_from([None, ("openmpi", "container"), ("spectrum", "compile")]),
)
def test_what_is_chosen_runs(
    name: str, arch: str, device: str, driver: str, toolkit: str, mpi: Any
) -> None:
    site = machine(arch, f"sm_{device}", driver=driver, toolkit=toolkit)
    if mpi:
        site["mpi"] = {"family": mpi[0], "mode": mpi[1], "name": "MPI"}
    written = as_written(name)
    try:
        choice = variants.choose(written, site_of(SITE, **site), ChoiceRequest(), candidates.judge)
    except MisfitError:
        return
    assert choice is not None
    codes = config.subtree(written, ("variants", choice.name, "changes", "stack"))
    assert codes is not None
    listed: Any = codes.data["gpu_targets"]
    assert {part for code in listed for part in spread(code)} & taken(device)


def spread(code: str) -> list[str]:
    bare, plus, _ = code.partition("+")
    return [bare, bare.replace("sm", "compute")] if plus else [bare]


def test_the_recipes_files_name_their_device_code_once() -> None:
    for path in sorted(Path(ROOT / "recipes").glob("*/variants/*.yaml")):
        text = path.read_text()
        assert not ("gpu_targets:" in text and "\n  gpu:" in text), path
