"""Of variants that run equally well the newest, where the site's facts say that it runs."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import jinja2
import pytest

from dlcontainer import config
from dlcontainer.errors import MisfitError
from dlcontainer.formats import texts
from dlcontainer.planning import newness
from dlcontainer.planning.plan import Plan
from dlcontainer.sites.site import SiteTarget
from tests.values import RECIPE, ROOT, SITE, folder_of, plan_of, shipped_site, site_of, write_yaml

NEEDS = {"accelerator": ["nvidia"]}
GPU = {"vendor": "nvidia", "model": "A100", "per_node": 4, "target": "sm_80"}
CODE = {"gpu_targets": ["sm_80"]}


def variant(tool: str, cuda: str, **more: Any) -> dict[str, Any]:
    changes = {"versions": {"tool": tool}, "stack": {"cuda": cuda, **deepcopy(CODE), **more}}
    return {"kind": "vendor", "summary": "s", "needs": deepcopy(NEEDS), "changes": changes}


CPU = {"kind": "distro", "summary": "s", "changes": {"versions": {"tool": "3.0+cpu"}}}
OLD, NEW = variant("2.8.0+a", "12.6"), variant("2.10.0+b", "12.8")


def settle(tmp_path: Path, variants: dict[str, Any], **gpu: Any) -> Plan:
    folder = folder_of(tmp_path, version="{{ releases.tool }}", variants=variants)
    return plan_of(folder, site=site_of(SITE, accelerator={**GPU, **gpu}))


def chosen(plan: Plan) -> str:
    assert plan.choice is not None
    return plan.choice.name


@pytest.mark.parametrize("facts", [{"driver": "570.1"}, {"toolkit": "12.9"}])
@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")])
def test_the_newest_that_runs(tmp_path: Path, order: tuple[str, str], facts: Any) -> None:
    known = {"old": OLD, "new": NEW}
    plan = settle(tmp_path, {name: known[name] for name in order}, **facts)
    assert (chosen(plan), plan.recipe.version) == ("new", "2.10.0")
    assert plan.choice is not None
    assert plan.choice.usual
    assert plan.choice.passed_over == {"old": "older: 2.8.0, toolkit 12.6"}


def test_one_that_the_site_can_t_run_is_not_taken(tmp_path: Path) -> None:
    plan = settle(tmp_path, {"old": OLD, "next": variant("9.0", "13.0")}, driver="570.1")
    assert chosen(plan) == "old"


def test_better_code_comes_before_a_newer_version(tmp_path: Path) -> None:
    compiled = variant("9.0", "12.8", gpu_targets=["compute_80"])
    assert chosen(settle(tmp_path, {"old": OLD, "ptx": compiled}, driver="570.1")) == "old"


def test_without_a_driver_and_a_toolkit_nobody_knows_that_the_newest_runs(tmp_path: Path) -> None:
    plan = settle(tmp_path, {"old": OLD, "new": NEW})
    assert chosen(plan) == "old"
    assert plan.choice is not None
    assert plan.choice.passed_over == {"new": "not the first that fits"}


def test_of_one_version_the_newer_toolkit_and_of_equals_the_first(tmp_path: Path) -> None:
    same = {"a": variant("2.0", "12.4"), "b": variant("2.0", "12.6"), "c": variant("2.0", "12.6")}
    assert chosen(settle(tmp_path, same, driver="570.1")) == "b"


def test_a_version_that_can_t_be_read_is_older(tmp_path: Path) -> None:
    odd = {"a": variant("weird", "12.8"), "b": variant("1.0", "12.6")}
    folder = folder_of(tmp_path, version="1", variants=odd)
    plan = plan_of(folder, site=site_of(SITE, accelerator={**GPU, "driver": "570.1"}))
    assert chosen(plan) == "a"
    wrong = {"a": variant("1.0", "12.8"), "b": variant("1.0", "12.6")}
    wrong["b"]["changes"]["version"] = "{{ site.name }}"
    folder = folder_of(tmp_path / "2", version="1", variants=wrong)
    plan = plan_of(folder, site=site_of(SITE, accelerator={**GPU, "driver": "570.1"}))
    assert chosen(plan) == "a"


def test_of_variants_for_processors_the_recipe_s_order(tmp_path: Path) -> None:
    newer = {**CPU, "changes": {"versions": {"tool": "4.0"}}}
    folder = folder_of(tmp_path, variants={"own": CPU, "newer": newer})
    assert chosen(plan_of(folder)) == "own"


def test_a_plan_says_which_version_a_site_gets(tmp_path: Path) -> None:
    plan = settle(tmp_path, {"new": NEW, "cpu": CPU}, driver="570.1")
    assert (
        "version: 2.10.0 here (variant new); without accelerators 3.0 (variant cpu)" in plan.notes
    )
    folder = folder_of(tmp_path / "2", version="{{ releases.tool }}", variants={"cpu": CPU})
    assert not any(note.startswith("version:") for note in plan_of(folder).notes)
    same = settle(tmp_path / "3", {"new": variant("3.0", "12.8"), "cpu": CPU}, driver="570.1")
    assert not any(note.startswith("version:") for note in same.notes)


@pytest.mark.parametrize(
    ("name", "epoch", "variant", "version"),
    [
        # Of the driver, whatever module the host has.
        ("frontier", "cpe-25.09", "rocm-7.1", "2.10.0"),
        ("frontier", "cpe-24.11", "rocm-7.1", "2.10.0"),
        ("lumi", "2026-01", "rocm-7.0", "2.10.0"),
        # Of the module: that driver is not known.
        ("lumi", "2024-09", "rocm-6.0", "2.3.1"),
    ],
)
def test_the_newest_torch_that_an_amd_site_s_driver_runs(
    name: str, epoch: str, variant: str, version: str
) -> None:
    site = shipped_site(name, SiteTarget(epoch=epoch))
    plan = plan_of(ROOT / "recipes" / "pytorch", site=site)
    assert (chosen(plan), plan.recipe.version) == (variant, version)


def test_with_the_host_s_gpu_aware_mpi_its_rocm_decides() -> None:
    recipe = ROOT / "recipes" / "horovod"
    for epoch, variant in (("cpe-25.09", "rocm"), ("cpe-24.11", "rocm-6.2")):
        plan = plan_of(recipe, site=shipped_site("frontier", SiteTarget(epoch=epoch)))
        assert chosen(plan) == variant
    with pytest.raises(MisfitError, match="GPU-aware MPI wants the HIP of ROCm 7"):
        plan_of(recipe, site=shipped_site("frontier", SiteTarget(epoch="cpe-26.03")))


# A recipe without variants.
def test_no_image_without_device_code_unless_it_is_asked_for(tmp_path: Path) -> None:
    site, folder = site_of(SITE, accelerator=GPU), folder_of(tmp_path)
    with pytest.raises(MisfitError) as caught:
        plan_of(folder, site=site)
    said = str(caught.value)
    assert "recipe demo declares no device code, but site demo has A100" in said
    assert "next: add --cpu if you want" in said
    assert "stack.cuda, stack.rocm, stack.oneapi, stack.gpu_targets" in said
    assert caught.value.exit_code == 8
    assert plan_of(folder, site=site, cpu=True).choice is None
    # Where there is no accelerator nothing is asked for.
    assert plan_of(folder).digest == plan_of(folder, cpu=True).digest


def test_a_recipe_with_device_code_is_none_for_processors(tmp_path: Path) -> None:
    site = site_of(SITE, accelerator={**GPU, "driver": "570.1"})
    folder = folder_of(tmp_path, stack={"cuda": "12.8", **CODE})
    assert plan_of(folder, site=site).choice is None
    with pytest.raises(
        MisfitError, match="recipe demo has device code, but --cpu asks for an image without"
    ):
        plan_of(folder, site=site, cpu=True)


def test_a_stack_that_says_nothing_of_devices_is_none(tmp_path: Path) -> None:
    write_yaml(tmp_path / "r" / "recipe.yaml", {**RECIPE, "stack": {"gcc": "12"}})
    (tmp_path / "r" / "verify.py").touch()
    with pytest.raises(MisfitError, match="declares no device code"):
        plan_of(tmp_path / "r", site=site_of(SITE, accelerator=GPU))


def test_a_version_is_read_as_it_is_written() -> None:
    # 1, 1.0 and true are equal in Python, and one is not remembered as the other.
    for written, text in ((1, "1"), (1.0, "1.0"), (True, "True"), (1, "1")):
        data = {"version": "{{ versions.it }}", "versions": {"it": written}}
        assert newness.version(config.from_data(data, layer="test")) == text
    data = {"version": "{{ versions.it }}", "versions": {"it": [1]}}
    assert newness.version(config.from_data(data, layer="test")) == "[1]"


def test_a_further_plan_and_text_compile_no_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [ROOT / "templates"]
    first = texts.text(settle(tmp_path, {"new": NEW, "old": OLD}), "apptainer", folders)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(jinja2.Environment, "compile", refuse)
    again = tmp_path / "again"
    again.mkdir()
    assert texts.text(settle(again, {"new": NEW, "old": OLD}), "apptainer", folders) == first
