"""The plan: the layers with their origins, what may be overridden, conditions, files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer import config
from dlcontainer.config import Document
from dlcontainer.errors import ConfigError
from dlcontainer.planning.plan import Plan, base_python, native_twin_reason
from tests.values import (
    HOST,
    IMAGE_BASE,
    ROOT,
    TAGGED_BASE,
    TRIAL,
    folder_of,
    host,
    plan_of,
    shipped_plan,
    shipped_site,
    site_of,
)


def layer(name: str, /, **data: Any) -> Document:
    return config.from_data(data, layer=name)


def origins(plan: Plan) -> dict[str, str]:
    return {key: str(origin) for key, _, origin in plan.origins}


def test_layers_from_default_to_set(tmp_path: Path) -> None:
    names = ("BY_DEFAULT", "BY_RECIPE", "BY_SITE", "BY_USER", "BY_SET")
    later = {name: dict.fromkeys(names[at:], f"of {name}") for at, name in enumerate(names)}
    folder = folder_of(tmp_path, environment={**later["BY_RECIPE"], "LANG": "C"})
    site = site_of(
        environment=later["BY_SITE"],
        recipes={"demo": {"versions": {"tool": "3.0"}}},
    )
    changes = [
        layer("user", environment=later["BY_USER"]),
        config.from_settings(["environment.BY_SET=of BY_SET", "versions.new=1"]),
    ]
    plan = plan_of(folder, site=site, changes=changes)
    assert dict(plan.environment) == {
        "LANG": "C",
        "BY_RECIPE": "of BY_RECIPE",
        "BY_SITE": "of BY_SITE",
        "BY_USER": "of BY_USER",
        "BY_SET": "of BY_SET",
    }
    found = origins(plan)
    assert found["environment.LANG"].startswith("recipe (recipe.yaml:")
    assert found["environment.BY_RECIPE"].startswith("recipe (recipe.yaml:")
    assert [found[f"environment.BY_{name}"] for name in ("SITE", "USER", "SET")] == [
        "site",
        "user",
        "--set",
    ]
    assert (found["versions.tool"], found["versions.new"]) == ("site", "--set")
    assert dict(plan.recipe.versions) == {"tool": "3.0", "new": "1"}
    assert dict(plan.recipe.verify.imports) == {"tool": "3.0"}


def test_the_lowest_layer_and_its_removal(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    plan = plan_of(folder)
    assert (dict(plan.environment), origins(plan)["environment.LANG"]) == (
        {"LANG": "C.UTF-8"},
        "default",
    )
    removed = plan_of(folder, changes=[config.from_settings(["environment.LANG=null"])])
    assert dict(removed.environment) == {}


def test_a_sites_overrides_of_another_recipe_are_not_taken(tmp_path: Path) -> None:
    site = site_of(recipes={"other": {"versions": {"tool": "9"}}})
    assert plan_of(folder_of(tmp_path), site=site).recipe.versions["tool"] == "2.0"


@pytest.mark.parametrize("layer_of_image", ["recipe", "site", "user"])
def test_a_base_image_replaces_a_distribution_and_the_other_way_round(
    tmp_path: Path, layer_of_image: str
) -> None:
    tree = {"distribution": "debian", "release": "trixie"}
    bases: dict[str, Any] = dict.fromkeys(("recipe", "site", "user"), tree)
    bases[layer_of_image] = {**IMAGE_BASE, "source": "a page"}
    plan = plan_of(
        folder_of(tmp_path, base=bases["recipe"]),
        site=site_of(base=bases["site"]),
        changes=[layer("user", base=bases["user"])],
    )
    base = plan.recipe.base
    if layer_of_image == "user":
        assert (base.image, base.distribution, base_python(plan.recipe)) == (
            IMAGE_BASE["image"],
            None,
            None,
        )
    else:
        assert (base.image, base.release, base.source) == (None, "trixie", None)
        assert base_python(plan.recipe) == "3.13"


def test_what_was_said_of_an_image_is_not_said_of_another(tmp_path: Path) -> None:
    system = {"distribution": "rocky", "release": "8", "python": "3.9", "source": "a page"}
    folder = folder_of(tmp_path, base={**IMAGE_BASE, "source": "a page", "system": system})
    assert base_python(plan_of(folder).recipe) == "3.9"
    assert not [note for note in plan_of(folder).notes if "not pinned" in note]
    other = plan_of(folder, changes=[layer("user", base=TAGGED_BASE)])
    base = other.recipe.base
    assert (base.image, base.source, base.system) == (TAGGED_BASE["image"], None, None)
    (note,) = [note for note in other.notes if "not pinned" in note]
    assert "`dlcontainer build` refuses it" in note
    digest = f"sha256:{'cd' * 32}"
    changes = [layer("user", base=TAGGED_BASE), layer("--set", base={"digest": digest})]
    pinned = plan_of(folder, changes=changes).recipe.base.reference
    assert pinned is not None
    assert pinned.source == f"registry.example.org/base/os@{digest}"


def test_part_of_a_base_merges(tmp_path: Path) -> None:
    plan = plan_of(folder_of(tmp_path), changes=[layer("user", base={"release": "trixie"})])
    assert (plan.recipe.base.distribution, plan.recipe.base.release) == ("debian", "trixie")


@pytest.mark.parametrize("key", ["steps", "prefix", "name", "exposes", "verify", "upstreams"])
def test_only_some_keys_can_be_overridden(tmp_path: Path, key: str) -> None:
    with pytest.raises(
        ConfigError, match=f"^user: {key}: a site cannot override this key"
    ) as caught:
        plan_of(folder_of(tmp_path), changes=[layer("user", **{key: "x"})])
    assert caught.value.why == (
        "only base, environment, image, mount_points, slim, variant, versions of a recipe may be "
        "overridden"
    )


def test_a_misspelt_override_names_the_nearest_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--set version\.tool=….*did you mean 'versions'\?"):
        plan_of(folder_of(tmp_path), changes=[config.from_settings(["version.tool=1"])])


def test_a_sites_override_of_a_step_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^site: steps: a site cannot override"):
        plan_of(folder_of(tmp_path), site=site_of(recipes={"demo": {"steps": []}}))


def test_conditions(tmp_path: Path) -> None:
    steps: list[dict[str, Any]] = [
        {"name": "always", "os_packages": ["python3"]},
        {"name": "cpu", "when": "not site.accelerator", "environment": {"KIND": "cpu"}},
        {"name": "gpu", "when": "site.accelerator.vendor == 'nvidia'", "shell": "true"},
        {"name": "old", "when": "base.release in ['bookworm'] and versions.tool", "shell": "true"},
    ]
    folder = folder_of(tmp_path, steps=steps, stack={"gpu_targets": ["sm_70"]})
    text = (folder / "recipe.yaml").read_text().splitlines()
    line = 1 + text.index("  when: site.accelerator.vendor == 'nvidia'")
    message = rf"recipe\.yaml:{line}:3: template: 'None' has no attribute 'vendor'"
    with pytest.raises(ConfigError, match=message):
        plan_of(folder)
    gpu = {"vendor": "nvidia", "model": "V100", "per_node": 6}
    plan = plan_of(folder, site=site_of(accelerator=gpu))
    assert [step.name for step in plan.recipe.steps] == ["always", "gpu", "old"]
    assert {step.when for step in plan.recipe.steps} == {None}
    assert "KIND" not in plan.environment
    steps[2]["when"] = "site.accelerator and site.accelerator.vendor == 'nvidia'"
    plan = plan_of(folder_of(tmp_path, steps=steps))
    assert [step.name for step in plan.recipe.steps] == ["always", "cpu", "old"]
    assert plan.environment["KIND"] == "cpu"


def test_the_recipes_environment_lies_over_its_steps(tmp_path: Path) -> None:
    steps = [{"name": "a", "environment": {"A": "step", "B": "step"}}]
    plan = plan_of(folder_of(tmp_path, steps=steps, environment={"A": "recipe"}))
    assert dict(plan.environment) == {"A": "recipe", "B": "step", "LANG": "C.UTF-8"}


@pytest.mark.parametrize("where", ["recipe", "step", "site", "--set"])
def test_path_is_not_a_recipes_to_set(tmp_path: Path, where: str) -> None:
    bad = {"PATH": "/evil"}
    recipe: dict[str, Any] = {"environment": bad} if where == "recipe" else {}
    if where == "step":
        recipe = {"steps": [{"name": "a", "environment": bad}]}
    with pytest.raises(ConfigError, match=r"environment\.PATH: PATH is set by dlcontainer"):
        plan_of(
            folder_of(tmp_path, **recipe),
            site=site_of(environment=bad if where == "site" else {}),
            changes=[layer("--set", environment=bad)] if where == "--set" else [],
        )


def test_values_of_the_site_in_a_recipe(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path,
        summary="For {{ site.name }}, {{ base.release }}, {{ versions.tool }} in {{ prefix }}",
        environment={"when": "{{ recipe.name }}", "ARCH": "{{ site.arch }}"},
        steps=[{"name": "a", "shell": "echo {{ site.summary }}"}],
    )
    plan = plan_of(folder, site=site_of(summary="it's $(x) {{ 7*7 }}"))
    assert plan.recipe.summary == "For demo, bookworm, 2.0 in /opt/demo"
    assert (plan.environment["when"], plan.environment["ARCH"]) == ("demo", "x86_64")
    # Quoted for the shell, and a site's text is no template.
    assert plan.recipe.steps[0].shell == """echo 'it'"'"'s $(x) {{ 7*7 }}'"""


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, steps=[{"name": "a", "files": {"no/such": "/opt/x"}}])
    with pytest.raises(ConfigError, match=r"recipe\.yaml:\d+:5: no file 'no/such' in") as caught:
        plan_of(folder)
    assert caught.value.next_step == f"put the file into {folder}"


def test_a_name_longer_than_any_file_s_is_none_of_the_folder(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, steps=[{"name": "a", "files": {"x" * 300: "/opt/x"}}])
    with pytest.raises(ConfigError, match=r"no file 'xxx.* in the recipe's folder"):
        plan_of(folder)


@pytest.mark.parametrize("link", ["file", "folder"])
def test_a_file_outside_the_folder_through_a_link(tmp_path: Path, link: str) -> None:
    (tmp_path / "secret").write_text("outside")
    name = "inner" if link == "file" else "inner/secret"
    folder = folder_of(tmp_path, steps=[{"name": "a", "files": {name: "/opt/x"}}])
    (folder / "inner").symlink_to(tmp_path / "secret" if link == "file" else tmp_path)
    with pytest.raises(ConfigError, match=f"no file '{name}' in the recipe's folder"):
        plan_of(folder)


def test_files_of_a_recipe(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path, steps=[{"name": "a", "files": {"b.txt": "/opt/b", "a.txt": "/opt/a"}}]
    )
    (folder / "a.txt").write_text("")
    (folder / "b.txt").symlink_to("a.txt")
    entries = plan_of(folder).files
    assert [entry.target for entry in entries] == ["/opt/dlcontainer/verify.py", "/opt/a", "/opt/b"]
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert [entry.sha256 for entry in entries[1:]] == [empty, empty]


@pytest.mark.parametrize(
    "files",
    [
        [{"verify.py": "/opt/dlcontainer/manifest.json"}],
        [{"verify.py": "/opt/dlcontainer/verify.py"}],
        [{"verify.py": "/opt/x"}, {"recipe.yaml": "/opt/x"}],
    ],
)
def test_two_files_for_one_place(tmp_path: Path, files: list[dict[str, str]]) -> None:
    steps = [{"name": f"a{at}", "files": one} for at, one in enumerate(files)]
    with pytest.raises(ConfigError, match=r"recipe\.yaml:\d+:\d+: two files have the target"):
        plan_of(folder_of(tmp_path, steps=steps))


def test_names_and_notes(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    plan = plan_of(folder)
    assert (plan.name, plan.python) == ("demo-1.0-demo", "/opt/demo/bin/python")
    assert plan.notes == ("engine: not tested on this host; run `dlcontainer doctor` to test it",)
    old = site_of(status="decommissioned", arch="ppc64le", unknown=["its driver: no promise"])
    reason = "the image is for ppc64le, this host is x86_64"
    assert plan_of(folder, site=old, trial=TRIAL).notes == (
        f"no native twin: {reason}; the unpacked image is the native side of a bench",
        "unknown at the site: its driver: no promise",
        "the site is decommissioned: this plan is for the record only",
    )


@pytest.mark.parametrize(
    ("base", "on", "reason"),
    [
        ({}, HOST, None),
        ({}, host(release="trixie"), "the base is debian bookworm, this host is debian trixie"),
        ({}, host(distribution=None), "the base is debian bookworm, this host is None bookworm"),
        (
            {"base": IMAGE_BASE},
            HOST,
            "the base is an image, whose libraries this host does not have",
        ),
    ],
)
def test_whether_a_native_twin_can_stand(tmp_path: Path, base: Any, on: Any, reason: str) -> None:
    plan = plan_of(folder_of(tmp_path, **base))
    assert native_twin_reason(plan.recipe, plan.site, on) == reason


def test_a_native_twin_needs_the_packages_of_the_recipe(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Package: python3\nStatus: install ok installed\n")
    on = host(dpkg_status=status)
    steps = [
        {"name": "system", "os_packages": ["python3", "libgomp1=12.2.0-14"]},
        {"name": "own", "shell": "make", "native": True, "build_packages": ["make"]},
        {"name": "other", "shell": "make", "build_packages": ["gcc"]},
    ]
    plan = plan_of(folder_of(tmp_path, steps=steps), on=on, trial=TRIAL)
    reason = (
        "libgomp1, make are missing on this host "
        "(an administrator types: apt-get install libgomp1 make)"
    )
    assert native_twin_reason(plan.recipe, plan.site, on) == reason
    assert plan.notes == (
        f"no native twin: {reason}; the unpacked image is the native side of a bench",
    )
    # What the host has is no part of the plan.
    assert plan.digest == plan_of(folder_of(tmp_path, steps=steps), trial=TRIAL).digest
    text = "Package: %s\nStatus: install ok installed\n"
    status.write_text("\n".join(text % name for name in ("python3", "libgomp1", "make")))
    assert native_twin_reason(plan.recipe, plan.site, on) is None


@pytest.mark.parametrize(
    ("on", "variant", "release"),
    [
        (HOST, "wheels", "bookworm"),
        # Another Python than the wheels': the recipe's base, and no native twin.
        (host(release="trixie"), "wheels", "bookworm"),
        (host(release="trixie"), "debian", "trixie"),
        (HOST, "debian", "trixie"),
        # Sources of another distribution are not known here.
        (host(distribution="ubuntu", release="noble"), "wheels", "noble"),
    ],
)
def test_a_machines_own_release_is_the_base_where_its_python_serves(
    on: Any, variant: str, release: str
) -> None:
    plan = shipped_plan("local", "pytorch", variant, on=on)
    assert plan.recipe.base.release == release
    said = [note for note in plan.notes if note.startswith("no native twin: the base is ")]
    assert bool(said) == (on.release != release)


def test_a_base_that_a_user_chose_holds() -> None:
    on = host(release="trixie")
    site = shipped_site("local", on=on)
    chosen = config.merge(
        site.document, config.from_data({"base": {"release": "trixie"}}, layer="user")
    )
    recipe = ROOT / "recipes/pytorch"
    plan = plan_of(recipe, site=replace(site, document=chosen), asked="wheels", on=on)
    assert plan.recipe.base.release == "trixie"
