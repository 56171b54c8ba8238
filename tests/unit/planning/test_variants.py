"""Variants: the first that fits, the one asked for, and what is not available with the reason."""

import re
from pathlib import Path
from typing import Any

import pytest

from dlcontainer import config as document
from dlcontainer.errors import ConfigError, Mark, MisfitError
from dlcontainer.planning.plan import Plan
from dlcontainer.recipes import recipe
from tests.values import IMAGE_BASE, SITE, folder_of, plan_of, site_of, write_yaml

VARIANTS: dict[str, Any] = {
    "cuda": {
        "kind": "vendor",
        "summary": "for GPUs",
        "needs": {"accelerator": ["nvidia"], "arch": ["x86_64", "aarch64"]},
        "changes": {"versions": {"tool": "2.0+cuda"}, "stack": {"cuda": "12.6"}},
    },
    "wheels": {
        "kind": "distro",
        "summary": "for CPUs",
        "needs": {"arch": ["x86_64"]},
        "changes": {"versions": {"tool": "2.0+cpu"}, "environment": {"CPU": "{{ variant }}"}},
    },
    "anywhere": {"kind": "distro", "summary": "anywhere", "changes": {"version": "0.9"}},
}
POWER = {**SITE, "arch": "ppc64le"}
GPU = {**SITE, "accelerator": {"vendor": "nvidia", "model": "a GPU", "per_node": 4}}


def settle(tmp_path: Path, asked: str | None = None, **parts: Any) -> Plan:
    site = site_of(parts.pop("site", SITE), **parts.pop("of_site", {}))
    cpu = parts.pop("cpu", False)
    changes = [document.from_data(one, layer="user") for one in parts.pop("changes", [])]
    folder = folder_of(tmp_path, variants=VARIANTS, **parts)
    return plan_of(folder, site=site, changes=changes, asked=asked, cpu=cpu)


@pytest.mark.parametrize(
    ("site", "name", "version"),
    [(SITE, "wheels", "1.0"), (POWER, "anywhere", "0.9")],
)
def test_the_first_that_fits(tmp_path: Path, site: Any, name: str, version: str) -> None:
    plan = settle(tmp_path, site=site)
    assert plan.choice is not None
    assert (plan.choice.name, plan.choice.usual, plan.recipe.variant) == (name, True, name)
    assert plan.name == f"demo-{version}-demo"
    assert plan.choice.why.startswith("the first that fits")


def test_at_a_site_with_accelerators_one_with_device_code(tmp_path: Path) -> None:
    plan = settle(tmp_path, site=GPU)
    assert plan.choice is not None
    assert (plan.choice.name, plan.choice.usual, plan.name) == ("cuda", True, "demo-1.0-demo")
    assert plan.choice.passed_over == dict.fromkeys(
        ("wheels", "anywhere"), "has no device code (--cpu takes such a variant)"
    )


def test_cpu_takes_one_without_device_code(tmp_path: Path) -> None:
    plan = settle(tmp_path, site=GPU, cpu=True)
    assert plan.choice is not None
    assert (plan.choice.name, plan.choice.usual) == ("wheels", False)
    assert plan.choice.why.startswith("without device code, as asked for")
    assert plan.name == "demo-1.0-demo-wheels"
    assert any(note.startswith("the image has no device code") for note in plan.notes)
    # Where there is no accelerator it asks for nothing new.
    assert settle(tmp_path, cpu=True).name == "demo-1.0-demo"
    with pytest.raises(MisfitError, match="'cuda' of recipe demo has device code, but --cpu asks"):
        settle(tmp_path, "cuda", site=GPU, cpu=True)
    with pytest.raises(MisfitError, match="no vendor variant of recipe demo fits"):
        settle(tmp_path, "vendor", site=GPU, cpu=True)


AMD = {**SITE, "accelerator": {"vendor": "amd", "model": "MI300A", "per_node": 4}}


@pytest.mark.parametrize(
    ("site", "asked", "said"),
    [
        (AMD, None, "the nearest is cuda (recipe.yaml:"),
        (AMD, None, "needs accelerator nvidia, the site's is amd"),
        (
            AMD,
            None,
            ("next: add --cpu to use wheels, which has no device code; or write a variant for "),
        ),
        (GPU, "distro", "no distro variant has device code"),
        ({**GPU, "arch": "ppc64le"}, None, "needs arch x86_64 or aarch64, the site's is ppc64le"),
        ({**GPU, "arch": "ppc64le"}, None, "next: add --cpu to use anywhere, "),
    ],
)
def test_no_silence_at_a_site_with_accelerators(
    tmp_path: Path, site: Any, asked: str | None, said: str
) -> None:
    with pytest.raises(MisfitError) as caught:
        settle(tmp_path, asked, site=site)
    assert caught.value.exit_code == 8
    assert said in str(caught.value)
    assert "(docs/image/add-a-recipe.md, Variants)" in str(caught.value)


def test_an_mpi_that_is_not_written_is_named(tmp_path: Path) -> None:
    needs = {"accelerator": ["nvidia"], "mpi": ["openmpi"], "mpi_mode": ["container"]}
    only = {"x": {**VARIANTS["cuda"], "needs": needs}, "cpu": VARIANTS["wheels"]}
    with pytest.raises(MisfitError) as caught:
        plan_of(folder_of(tmp_path, variants=only), site=site_of(GPU))
    assert (
        "needs mpi.family openmpi and mpi.mode container, the site file does not write `mpi`"
        in str(caught.value)
    )
    assert "write the site's `mpi` (docs/centre/add-a-site.md)" in str(caught.value)


def test_what_was_never_built_is_said(tmp_path: Path) -> None:
    only = {"x": {**VARIANTS["anywhere"], "status": "never built", "lock": "by the site"}}
    plan = plan_of(folder_of(tmp_path, variants=only))
    assert "variant x: never built by dlcontainer's authors, only rendered" in plan.notes
    assert any(note.startswith("variant x: the site must lock it") for note in plan.notes)


@pytest.mark.parametrize(
    ("site", "stack", "said"),
    [
        (GPU, {}, "the image has no device code: programs will not use the site's a GPU"),
        (
            SITE,
            {"cuda": "12.6"},
            "the image is built with CUDA 12.6, but the site has no accelerator",
        ),
        (
            SITE,
            {"rocm": "6.4"},
            "the image is built with ROCm 6.4, but the site has no accelerator",
        ),
        (SITE, {}, None),
        (GPU, {"cuda": "12.6"}, None),
    ],
)
def test_a_recipe_without_variants_and_the_accelerators(
    tmp_path: Path, site: Any, stack: Any, said: str | None
) -> None:
    notes = plan_of(folder_of(tmp_path, stack=stack), site=site_of(site), cpu=not stack).notes
    if said:
        assert said in notes
    assert bool(said) == any("no device code" in note or "built with" in note for note in notes)


def test_the_plan_says_why_the_others_were_not(tmp_path: Path) -> None:
    choice = settle(tmp_path, site=POWER).choice
    assert choice is not None
    assert choice.passed_over == {
        "cuda": "needs arch x86_64 or aarch64, the site's is ppc64le",
        "wheels": "needs arch x86_64, the site's is ppc64le",
    }


@pytest.mark.parametrize(
    ("site", "asked", "name", "named"),
    [
        (SITE, "anywhere", "anywhere", "demo-0.9-demo-anywhere"),
        (SITE, "distro", "wheels", "demo-1.0-demo"),
        (GPU, "vendor", "cuda", "demo-1.0-demo"),
        # A name asks for what it names, without device code too.
        (GPU, "wheels", "wheels", "demo-1.0-demo-wheels"),
    ],
)
def test_asked_for_by_name_before_kind(
    tmp_path: Path, site: Any, asked: str, name: str, named: str
) -> None:
    plan = settle(tmp_path, asked, site=site)
    assert (plan.recipe.variant, plan.name) == (name, named)


def test_changes_lie_under_the_site_and_the_user(tmp_path: Path) -> None:
    of_site = {"recipes": {"demo": {"versions": {"tool": "3"}}}, "environment": {"CPU": "site"}}
    plan = settle(tmp_path, of_site=of_site)
    assert plan.recipe.verify.imports == {"tool": "3"}
    assert plan.environment["CPU"] == "site"
    assert settle(tmp_path).environment["CPU"] == "wheels"


def test_a_site_and_a_user_choose(tmp_path: Path) -> None:
    of_site = {"recipes": {"demo": {"variant": "anywhere"}}}
    assert settle(tmp_path, of_site=of_site).recipe.variant == "anywhere"
    mine = [{"variant": "wheels"}]
    assert settle(tmp_path, of_site=of_site, changes=mine).recipe.variant == "wheels"
    assert settle(tmp_path, "anywhere", changes=mine).recipe.variant == "anywhere"


@pytest.mark.parametrize(
    ("site", "asked", "message"),
    [
        (
            POWER,
            "cuda",
            r"'cuda' of recipe demo is not available at site demo\n  why: it needs arch",
        ),
        (POWER, "cuda", r"next: --variant anywhere$"),
        (SITE, "vendor", r"no vendor variant of recipe demo fits(.|\n)*cuda needs accelerator"),
    ],
)
def test_what_a_site_can_not_have(tmp_path: Path, site: Any, asked: str, message: str) -> None:
    with pytest.raises(MisfitError, match=message):
        settle(tmp_path, asked, site=site)


def test_unknown_variants(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no variant 'wheel' .*did you mean 'wheels'\?"):
        settle(tmp_path, "wheel")
    with pytest.raises(ConfigError, match="recipe demo has no variants"):
        plan_of(folder_of(tmp_path), asked="cuda")


def test_nothing_fits(tmp_path: Path) -> None:
    only = {"cuda": VARIANTS["cuda"]}
    with pytest.raises(MisfitError, match=r"no variant of recipe demo fits site demo\n  why: cuda"):
        plan_of(folder_of(tmp_path, variants=only))


def test_a_variant_does_not_rename_the_recipe(tmp_path: Path) -> None:
    bad = {"x": {"kind": "distro", "summary": "s", "changes": {"name": "other"}}}
    with pytest.raises(ConfigError, match=r"variants.x.changes.name: a variant cannot change"):
        plan_of(folder_of(tmp_path, variants=bad))


def test_a_site_s_distribution_does_not_replace_a_variant_s_image(tmp_path: Path) -> None:
    image = {"image": f"docker://registry.example.org/base/os@sha256:{'ab' * 32}"}
    one = {"kind": "vendor", "summary": "s", "changes": {"base": image, "steps": []}}
    one["changes"] = {"base": {**image, "distribution": None, "release": None}}
    own = {"distribution": "debian", "release": "trixie"}
    plan = plan_of(folder_of(tmp_path, variants={"x": one}), site=site_of(base=own))
    assert plan.recipe.base.image == image["image"]


TURING = {**GPU, "accelerator": {**GPU["accelerator"], "target": "sm_75", "toolkit": "12.4.1"}}


@pytest.mark.parametrize(
    ("needs", "reason"),
    [
        ({"gpu": ["sm_75", "sm_70"], "toolkit": "12.4"}, None),
        ({"gpu": ["sm_80"]}, "needs accelerator.target sm_80, the site's is sm_75"),
        ({"toolkit": "12.6"}, "needs accelerator.toolkit 12.6 or newer, the site's is 12.4.1"),
        # as numbers, not as text
        ({"toolkit": "9.2"}, None),
    ],
)
def test_needs_of_gpus_and_toolkits(tmp_path: Path, needs: Any, reason: str | None) -> None:
    x = {**VARIANTS["anywhere"], "needs": needs, "changes": {"version": "0.8"}}
    only = {"x": x, "anywhere": VARIANTS["anywhere"]}
    folder = folder_of(tmp_path, variants=only)
    choice = plan_of(folder, site=site_of(TURING), asked="anywhere").choice
    assert choice is not None
    assert choice.passed_over["x"] == (reason or "not the first that fits")
    if reason is None:
        assert plan_of(folder, site=site_of(TURING)).recipe.variant == "x"
    else:
        with pytest.raises(MisfitError, match="x .*" + re.escape(reason)):
            plan_of(folder, site=site_of(TURING))


def test_an_unknown_toolkit_is_none(tmp_path: Path) -> None:
    only = {"x": {**VARIANTS["cuda"], "needs": {"toolkit": "1.0"}}}
    folder = folder_of(tmp_path, variants=only)
    for site in (GPU, SITE):
        with pytest.raises(MisfitError, match=r"toolkit 1.0 or newer, the site's is not known"):
            plan_of(folder, site=site_of(site))


def test_a_variant_in_a_file_of_its_own(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, variants={"far": {"file": "v/far.yaml"}, "near": VARIANTS["cuda"]})
    write_yaml(folder / "v" / "far.yaml", {**VARIANTS["anywhere"], "changes": {"license": None}})
    document = recipe.read(folder / "recipe.yaml", display="r/recipe.yaml")
    assert list(document.data["variants"]) == ["far", "near"]  # type: ignore[call-overload]
    assert document.origin(("variants", "far", "summary")).where == Mark(
        file="r/v/far.yaml", line=2, column=1
    )
    plan = plan_of(folder, asked="far")
    assert (plan.recipe.variant, plan.recipe.license) == ("far", None)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"file": "no.yaml"}, r"recipe.yaml:\d+:\d+: variants.x.file: no file 'no.yaml' beside"),
        ({"file": "../out.yaml"}, "no file '../out.yaml' beside the recipe"),
        ({"file": "v.yaml", "kind": "distro"}, "variants.x.file: no other key"),
    ],
)
def test_files_of_variants_that_are_refused(tmp_path: Path, entry: Any, message: str) -> None:
    folder = folder_of(tmp_path, variants={"x": entry})
    for path in (folder / "v.yaml", folder.parent / "out.yaml"):
        write_yaml(path, VARIANTS["anywhere"])
    with pytest.raises(ConfigError, match=message):
        plan_of(folder)


def test_a_base_of_a_variant_is_another_base(tmp_path: Path) -> None:
    near = {**VARIANTS["anywhere"], "changes": {"base": {"release": "trixie"}}}
    far = {**VARIANTS["anywhere"], "changes": {"base": IMAGE_BASE}}
    folder = folder_of(tmp_path, variants={"far": far, "near": near})
    assert plan_of(folder, asked="far").recipe.base.image == IMAGE_BASE["image"]
    base = plan_of(folder, asked="near").recipe.base
    assert (base.distribution, base.release) == ("debian", "trixie")


@pytest.mark.parametrize("kind", ["vendor", "distro"])
def test_no_variant_is_named_as_a_kind(tmp_path: Path, kind: str) -> None:
    only = {kind: VARIANTS["anywhere"]}
    with pytest.raises(ConfigError, match=f"variants.{kind}: this is the name of a kind"):
        plan_of(folder_of(tmp_path, variants=only))


AMPERE = {**GPU, "accelerator": {**GPU["accelerator"], "target": "sm_86", "driver": "535.1"}}


@pytest.mark.parametrize(
    ("gpu", "codes", "reason"),
    [
        # An older file: its needs alone say which GPUs it is for, and are read as code.
        (["sm_80"], None, None),
        (["sm_90"], None, "needs accelerator.target sm_90, the site's is sm_86"),
        # What a build holds follows from its list; both hold where both are given.
        (None, ["sm_80"], None),
        (None, ["compute_80"], None),
        (None, ["sm_90+PTX"], "the build has device code for sm_90+PTX, but not for sm_86"),
        (["sm_80"], ["sm_90"], "the build has device code for sm_90, but not for sm_86"),
        (["sm_90"], ["sm_80"], "needs accelerator.target sm_90, the site's is sm_86"),
    ],
)
def test_needs_and_device_code(
    tmp_path: Path, gpu: list[str] | None, codes: list[str] | None, reason: str | None
) -> None:
    x = {**VARIANTS["cuda"], "needs": {"gpu": gpu or []}}
    x["changes"] = {"stack": {"cuda": "12.2", "gpu_targets": codes or []}}
    folder = folder_of(tmp_path, variants={"x": x})
    if reason is None:
        assert plan_of(folder, site=site_of(AMPERE)).recipe.variant == "x"
    else:
        with pytest.raises(MisfitError, match=re.escape(reason)):
            plan_of(folder, site=site_of(AMPERE))


def test_native_code_comes_before_related_and_that_before_ptx(tmp_path: Path) -> None:
    def variant(code: str) -> dict[str, Any]:
        changes = {"stack": {"cuda": "12.2", "gpu_targets": [code]}}
        return {"kind": "vendor", "summary": "s", "changes": changes}

    both = {"ptx": variant("compute_80"), "near": variant("sm_80"), "own": variant("sm_86")}
    choice = plan_of(folder_of(tmp_path, variants=both), site=site_of(AMPERE)).choice
    assert choice is not None
    assert (choice.name, choice.usual) == ("own", True)
    assert choice.passed_over == {
        "ptx": "runs less well: compute_80, compiled when a program starts",
        "near": "runs less well: code of a related GPU, sm_80",
    }
    del both["own"]
    again = plan_of(folder_of(tmp_path, variants=both), site=site_of(AMPERE))
    assert again.recipe.variant == "near"


def test_a_toolkit_that_a_template_fills_in_is_judged_once_it_is_settled(tmp_path: Path) -> None:
    changes = {"versions": {"tool": "1", "cuda": "13.0"}, "stack": {"cuda": "{{ versions.cuda }}"}}
    only = {"x": {"kind": "vendor", "summary": "s", "changes": changes}}
    folder = folder_of(tmp_path, variants=only)
    with pytest.raises(MisfitError, match=r"CUDA 13.0 needs driver 580(.|\n)*--set versions.cuda"):
        plan_of(folder, site=site_of(AMPERE))
    older = document.from_data({"versions": {"cuda": "12.2"}}, layer="--set")
    assert plan_of(folder, site=site_of(AMPERE), changes=[older]).recipe.stack.cuda == "12.2"
