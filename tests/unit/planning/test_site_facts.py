"""Facts of a site that contradict each other: refused with both places, before any recipe."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import MisfitError
from dlcontainer.planning import conflicts
from tests.misfits import refused, settle
from tests.values import folder_of, plan_of, shipped_site, shipped_sites, site_of

GPU = {"vendor": "nvidia", "model": "a GPU", "per_node": 4}
AMD = {**GPU, "vendor": "amd"}


def cpu(target: str) -> dict[str, Any]:
    return {"cpu": {"model": "a processor", "cores": 8, "target": target}}


def gpu(**facts: Any) -> dict[str, Any]:
    return {"accelerator": {**GPU, **facts}}


@pytest.mark.parametrize(
    ("site", "said"),
    [
        ({"arch": "aarch64", **cpu("znver3")}, "znver3 is a processor for x86_64"),
        ({"arch": "x86_64", **cpu("a64fx")}, "a64fx is a processor for aarch64"),
        ({"arch": "x86_64", **cpu("power9")}, "power9 is a processor for ppc64le"),
        ({"accelerator": {**AMD, "target": "sm_80"}}, "sm_80 is a GPU of nvidia"),
        (gpu(target="gfx90a"), "gfx90a is a GPU of amd, but the site's vendor is nvidia"),
        (gpu(vendor="intel", target="sm_90"), "sm_90 is a GPU of nvidia"),
        ({"arch": "ppc64le", **gpu(toolkit="12.8")}, "CUDA 12.8 does not support ppc64le"),
        (gpu(target="sm_70", toolkit="13.0"), "CUDA 13.0 does not support sm_70"),
        (gpu(target="sm_35", toolkit="12.0"), "CUDA 12.0 does not support sm_35"),
        (
            {"memory": {"gb": 512, "fast_gb": 16, "fast_mode": "cache"}, **cpu("znver3")},
            "znver3 has no fast memory of its own",
        ),
    ],
)
def test_what_no_machine_is_like(tmp_path: Path, site: dict[str, Any], said: str) -> None:
    facts = {
        key: {"sources": ["made-up"], **value} if key == "memory" else value
        for key, value in site.items()
    }
    text = refused(tmp_path, facts)
    assert said in text
    # Both places, and the next step.
    assert text.count("site.yaml:") == 2
    assert "next: correct one of the two; `dlcontainer site show`" in text


@pytest.mark.parametrize(
    "site",
    [
        {"arch": "aarch64", **cpu("a64fx"), "memory": {"gb": 32, "fast_gb": 32}},
        {"arch": "x86_64", **cpu("made-up")},
        {"arch": "x86_64", **cpu("knl"), "memory": {"gb": 96, "fast_gb": 16, "fast_mode": "flat"}},
        gpu(target="sm_70", toolkit="12.9.1"),
        gpu(target="sm_75", toolkit="13.0"),
        {"arch": "ppc64le", **gpu(target="sm_70", toolkit="12.4.1")},
        gpu(vendor="intel", target="pvc", toolkit="2025.1"),
        {"accelerator": {**AMD, "target": "gfx90a:xnack-", "toolkit": "6.4"}},
    ],
)
def test_what_machines_are_like(site: dict[str, Any]) -> None:
    conflicts.require_site(site_of(**site))


def test_several_are_said_at_once() -> None:
    site = site_of(**gpu(target="gfx90a"), **cpu("power9"))
    with pytest.raises(MisfitError) as caught:
        conflicts.require_site(site)
    assert caught.value.exit_code == 8
    assert "gfx90a is a GPU of amd" in str(caught.value)
    assert "power9 is a processor for ppc64le" in str(caught.value)


@pytest.mark.parametrize("name", ["summit", "lassen", "alps", "frontier", "aurora", "stampede2"])
def test_shipped_sites_are_real(name: str) -> None:
    conflicts.require_site(shipped_site(name))


@pytest.mark.parametrize(
    ("kernel", "fits"), [("2.6.32-754.el6", False), ("3.10.0", True), ("6.4.0-1", True)]
)
def test_a_kernel_that_the_base_does_not_start_on(tmp_path: Path, kernel: str, fits: bool) -> None:
    site = {"os": {"distribution": "centos", "release": "6", "kernel": kernel}}
    if fits:
        settle(tmp_path, site)
        return
    said = refused(tmp_path, site)
    assert "the base's glibc 2.36 needs Linux 3.2 or newer; the site's kernel is 2.6.32" in said
    assert "base.release contradicts site.yaml:" in said


@pytest.mark.parametrize(
    ("image", "fits"), [("armv8-a", True), ("neoverse-n1", True), ("neoverse-v2", False)]
)
def test_code_on_a64fx(tmp_path: Path, image: str, fits: bool) -> None:
    site = {"arch": "aarch64", **cpu("a64fx")}
    if fits:
        settle(tmp_path, site, stack={"cpu_target": image})
    else:
        said = refused(tmp_path, site, stack={"cpu_target": image})
        assert f"the image is built for {image}, but the site's processor is a64fx" in said


@pytest.mark.parametrize(
    ("arch", "target", "near"),
    [
        ("x86_64", "znver9", "did you mean 'znver"),
        ("x86_64", "zen4", "did you mean 'znver4'?"),
        ("x86_64", "skylake-avx", "did you mean 'skylake-avx512'?"),
        ("aarch64", "neoverse-v9", "did you mean 'neoverse-v"),
        ("ppc64le", "power99", "did you mean 'power9'?"),
        ("ppc64le", "something", "known: power10, power8, power9"),
    ],
)
def test_an_unknown_processor_is_noted(tmp_path: Path, arch: str, target: str, near: str) -> None:
    changes: dict[str, Any] = {"arch": arch, "cpu": {**cpu(target)["cpu"], "sources": ["made-up"]}}
    notes = plan_of(folder_of(tmp_path), site=site_of(**changes)).notes
    [told] = [note for note in notes if note.startswith("cpu.target: ")]
    assert f"dlcontainer does not know {target!r}; {near}" in told


def test_the_processors_of_all_shipped_sites_are_known() -> None:
    for name, site in shipped_sites():
        assert list(conflicts.unknown(site)) == [], name
    assert list(conflicts.unknown(site_of(**cpu("znver4")).value)) == []
