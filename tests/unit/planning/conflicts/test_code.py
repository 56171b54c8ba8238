"""Code against processors, and the compilers that make it."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.recipes.distributions import DISTRIBUTIONS
from tests.misfits import GPU, doubted, refused, settle


def gpu(target: str | None, **facts: Any) -> dict[str, Any]:
    named: dict[str, Any] = {"target": target} if target else {}
    if target and not target.startswith("sm_"):
        named["vendor"] = "amd" if target.startswith("gfx") else "intel"
    # The host's glibc is written, as its GPU libraries come into the image.
    system = {"distribution": "debian", "release": "bookworm", "glibc": "2.36"}
    return {"os": system, "accelerator": {**GPU, "driver": "580.65.06", **named, **facts}}


def cpu(target: str | None, **site: Any) -> dict[str, Any]:
    families = {"power": "ppc64le", "neoverse": "aarch64"}
    arch = [arch for family, arch in families.items() if (target or "").startswith(family)]
    machine = {"arch": arch[0]} if arch else {}
    return machine | {"cpu": {"model": "a processor", "cores": 8, "target": target}, **site}


@pytest.mark.parametrize(
    ("target", "codes"),
    [
        ("sm_70", ["sm_75", "sm_80"]),  # a lower minor runs no code of a higher one
        ("sm_70", ["sm_60"]),  # nor one major another's
        ("sm_90", ["sm_80", "sm_86"]),
        ("sm_103", ["sm_100a"]),  # `a`: for this very one
        ("sm_80", ["sm_90", "compute_90"]),  # PTX runs on the same and newer ones
        ("sm_87", ["sm_80"]),  # embedded parts take only their own
        ("gfx90a", ["gfx942", "gfx1030"]),
        ("gfx90a", ["sm_80"]),
        ("sm_80", ["gfx90a"]),
        ("pvc", ["dg2"]),
    ],
)
def test_no_code_for_the_gpu(tmp_path: Path, target: str, codes: list[str]) -> None:
    said = refused(tmp_path, gpu(target), stack={"gpu_targets": codes})
    assert f"the build has device code for {', '.join(codes)}, but not for {target}" in said
    assert "accelerator.target" in said
    assert "stack.gpu_targets" in said


@pytest.mark.parametrize(
    ("target", "codes"),
    [
        ("sm_70", ["sm_60", "sm_70"]),
        ("sm_75", ["sm_70"]),
        ("sm_86", ["sm_80"]),
        ("sm_90", ["sm_90a"]),
        ("sm_103", ["sm_100f"]),
        ("sm_120", ["sm_120"]),
        ("gfx90a", ["gfx908", "gfx90a:xnack-"]),
        ("gfx942", ["gfx9-4-generic"]),
        ("pvc", ["spir64"]),
    ],
)
def test_code_for_the_gpu(tmp_path: Path, target: str, codes: list[str]) -> None:
    assert doubted(tmp_path, gpu(target), stack={"gpu_targets": codes}) == []


@pytest.mark.parametrize(
    ("toolkit", "cuda", "doubts"), [("12.4", "12.4", 0), ("12.4", "12.6", None), (None, "12.6", 1)]
)
def test_ptx_needs_a_driver_that_knows_the_toolkit(
    tmp_path: Path, toolkit: str | None, cuda: str, doubts: int | None
) -> None:
    site = gpu("sm_90", **({"toolkit": toolkit} if toolkit else {}))
    stack = {"cuda": cuda, "gpu_targets": ["sm_80", "compute_80"]}
    if doubts is None:
        said = refused(tmp_path, site, stack=stack)
        assert (
            "for sm_90 the build has only PTX of CUDA 12.6, but the site's toolkit is 12.4"
        ) in said
    else:
        assert len(doubted(tmp_path, site, stack=stack)) == doubts


def test_an_unknown_gpu_is_in_doubt(tmp_path: Path) -> None:
    (only,) = doubted(tmp_path, gpu(None), stack={"gpu_targets": ["sm_80"]})
    assert only.startswith("the site's GPU target is unknown: cannot guarantee")
    assert doubted(tmp_path, {}, stack={"gpu_targets": ["sm_80"]}) == []


@pytest.mark.parametrize(
    ("image", "site", "general"),
    [
        ("skylake-avx512", "knl", "x86-64-v3"),
        ("x86-64-v4", "knl", "x86-64-v3"),
        ("knl", "skylake-avx512", "x86-64-v4"),
        ("knl", "icelake-server", "x86-64-v4"),
        ("icelake-server", "skylake-avx512", "x86-64-v4"),
        ("haswell", "ivybridge", "x86-64-v2"),
        ("x86-64-v4", "znver3", "x86-64-v3"),
        ("znver3", "icelake-server", "x86-64-v4"),
        ("power10", "power9", "power8"),
        ("haswell", "power9", "power8"),
        ("neoverse-v2", "neoverse-v1", "armv8-a"),
    ],
)
def test_a_processor_that_lacks_instructions(
    tmp_path: Path, image: str, site: str, general: str
) -> None:
    said = refused(tmp_path, cpu(site), stack={"cpu_target": image})
    assert f"the image is built for {image}, but the site's processor is {site}" in said
    assert f"next: use a variant for {site} or {general}, or another node type" in said


@pytest.mark.parametrize(
    ("image", "site"),
    [
        ("x86-64-v3", "knl"),
        ("haswell", "knl"),
        ("core-avx2", "znver1"),
        ("x86-64-v3", "znver5"),
        ("haswell", "skylake-avx512"),
        ("skylake-avx512", "icelake-server"),
        ("skylake-avx512", "znver4"),
        ("x86-64-v4", "sapphirerapids"),
        ("knl", "knm"),
        ("knl", "knl"),
        ("power8", "power9"),
        ("armv8-a", "neoverse-v2"),
        ("made-up", "made-up"),
    ],
)
def test_a_processor_that_runs_it(tmp_path: Path, image: str, site: str) -> None:
    assert doubted(tmp_path, cpu(site), stack={"cpu_target": image}) == []


@pytest.mark.parametrize(("image", "site"), [("made-up", "knl"), ("knl", "made-up"), ("knl", None)])
def test_an_unknown_processor_is_in_doubt(tmp_path: Path, image: str, site: str | None) -> None:
    (only,) = doubted(tmp_path, cpu(site), stack={"cpu_target": image})
    assert "cannot guarantee that the image runs" in only


@pytest.mark.parametrize(
    ("key", "bad", "fine"),
    [("gcc", "15", "14.2.0"), ("gcc", "15.1.0", "12"), ("llvm", "19.1.0", "18.1.8")],
)
def test_compilers_without_xeon_phi(tmp_path: Path, key: str, bad: str, fine: str) -> None:
    said = refused(tmp_path, cpu("knl"), stack={key: bad})
    assert f"{key.upper()} {bad} cannot compile for Xeon Phi" in said
    assert f"stack.{key}" in said
    assert "cpu.target" in said
    assert doubted(tmp_path, cpu("knl"), stack={key: fine}) == []
    assert doubted(tmp_path, cpu("skylake-avx512"), stack={key: bad}) == []
    # Code for a general target runs on Phi, whoever compiled it.
    assert doubted(tmp_path, cpu("knl"), stack={key: bad, "cpu_target": "x86-64-v3"}) == []


@pytest.mark.parametrize("package", ["g++", "gcc", "build-essential", "gfortran:amd64"])
def test_the_base_s_own_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    steps = [{"name": "compilers", "os_packages": ["python3", package]}]
    assert doubted(tmp_path, cpu("knl"), steps=steps) == []
    known = DISTRIBUTIONS["debian", "bookworm"]
    newer = type(known)(**{**{k: getattr(known, k) for k in known.__slots__}, "gcc": "15"})
    monkeypatch.setitem(DISTRIBUTIONS, ("debian", "bookworm"), newer)
    said = refused(tmp_path, cpu("knl"), steps=steps)
    assert "base.release contradicts site.yaml:" in said
    assert "GCC 15 cannot compile for Xeon Phi: 14 is the last release that can" in said
    assert settle(tmp_path, cpu("knl"))  # nothing is compiled


@pytest.mark.parametrize(
    ("package", "refusal"),
    [
        ("g++-15", "GCC 15"),
        ("gcc=4:15.1.0-1", "GCC 15.1.0-1"),
        ("clang-19", "LLVM 19"),
        ("g++-14", None),
        ("clang-18", None),
        ("libgcc-s1", None),
    ],
)
def test_compilers_that_are_installed(tmp_path: Path, package: str, refusal: str | None) -> None:
    steps = [{"name": "system", "os_packages": ["python3"]}]
    steps.append({"name": "compilers", "os_packages": [package]})
    if refusal is None:
        assert doubted(tmp_path, cpu("knl"), steps=steps) == []
    else:
        said = refused(tmp_path, cpu("knl"), steps=steps)
        assert "steps[1].os_packages contradicts site.yaml:" in said
        assert f"{refusal} cannot compile for Xeon Phi" in said


def test_a_compiler_that_does_not_stay_makes_code_too(tmp_path: Path) -> None:
    step = {"name": "compile", "shell": "true\n", "build_packages": ["g++-15"]}
    said = refused(tmp_path, cpu("knl"), steps=[step])
    assert "steps[0].build_packages contradicts site.yaml:" in said


def test_compilers_of_unknown_version_are_in_doubt(tmp_path: Path) -> None:
    (only,) = doubted(tmp_path, cpu("knm"), steps=[{"name": "compilers", "os_packages": ["clang"]}])
    assert "the version of LLVM in the base's clang is unknown" in only
    (only,) = doubted(tmp_path, cpu("knl"), stack={"gcc": "weird"})
    assert only == "GCC 'weird' was not checked: its version cannot be compared"
