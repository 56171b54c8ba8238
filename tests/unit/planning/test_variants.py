"""Variants: the first that fits, the one asked for, and what is not available with the reason."""

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
GPU = {**SITE, "accelerator": {"vendor": "nvidia", "model": "V100", "per_node": 4}}


def settle(tmp_path: Path, asked: str | None = None, **parts: Any) -> Plan:
    site = site_of(parts.pop("site", SITE), **parts.pop("of_site", {}))
    changes = [document.from_data(one, layer="user") for one in parts.pop("changes", [])]
    folder = folder_of(tmp_path, variants=VARIANTS, **parts)
    return plan_of(folder, site=site, changes=changes, asked=asked)


@pytest.mark.parametrize(
    ("site", "name", "version"),
    [(GPU, "cuda", "1.0"), (SITE, "wheels", "1.0"), (POWER, "anywhere", "0.9")],
)
def test_the_first_that_fits(tmp_path: Path, site: Any, name: str, version: str) -> None:
    plan = settle(tmp_path, site=site)
    assert plan.choice is not None
    assert (plan.choice.name, plan.choice.usual, plan.recipe.variant) == (name, True, name)
    assert plan.name == f"demo-{version}-demo"
    assert plan.choice.why.startswith("the first that fits")


def test_the_plan_says_why_the_others_were_not(tmp_path: Path) -> None:
    choice = settle(tmp_path, site=POWER).choice
    assert choice is not None
    assert choice.passed_over == {
        "cuda": "needs arch x86_64 or aarch64, the site's is ppc64le",
        "wheels": "needs arch x86_64, the site's is ppc64le",
    }


@pytest.mark.parametrize(
    ("asked", "name"), [("anywhere", "anywhere"), ("distro", "wheels"), ("vendor", "cuda")]
)
def test_asked_for_by_name_before_kind(tmp_path: Path, asked: str, name: str) -> None:
    plan = settle(tmp_path, asked, site=GPU)
    assert plan.recipe.variant == name
    names = {"anywhere": "demo-0.9-demo-anywhere", "wheels": "demo-1.0-demo-wheels"}
    assert plan.name == names.get(name, "demo-1.0-demo")


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
        (POWER, "cuda", r"next: variants that site demo can have: anywhere$"),
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
    with pytest.raises(ConfigError, match=r"variants.x.changes.name: is the whole recipe's"):
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
    plan = plan_of(folder_of(tmp_path, variants=only), site=site_of(TURING))
    assert plan.choice is not None
    assert plan.choice.passed_over.get("x") == reason
    assert plan.recipe.variant == ("anywhere" if reason else "x")


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
        ({"file": "v.yaml", "kind": "distro"}, "variants.x.file: stands alone"),
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
    with pytest.raises(ConfigError, match=f"variants.{kind}: a kind's name"):
        plan_of(folder_of(tmp_path, variants=only))
