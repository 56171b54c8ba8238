"""The words of a refusal, its places, the ways out that go; and no version that makes it fall."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlcontainer import config
from dlcontainer.cli.context import CliContext
from dlcontainer.config import SelectedDocument
from dlcontainer.errors import MisfitError
from dlcontainer.planning import conflicts
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.sites.site import Site, SiteTarget
from tests.misfits import GPU, MPI, refused, settle
from tests.values import RECIPE, SITE, folder_of, write_yaml

STACK = {"versions": {"cuda": "13.0", "tool": "2.0"}, "stack": {"cuda": "{{ versions.cuda }}"}}


def line(path: Path, text: str) -> int:
    return path.read_text().splitlines().index(text) + 1


def test_both_places_are_where_a_human_wrote_them(tmp_path: Path) -> None:
    said = refused(tmp_path, {"accelerator": {**GPU, "driver": "535.1"}}, **STACK)
    at_site = line(tmp_path / "site.yaml", "  driver: '535.1'")
    at_recipe = line(tmp_path / "it's a recipe" / "recipe.yaml", "  cuda: '13.0'")
    first, why, way_out = said.splitlines()
    assert first == (
        f"recipe.yaml:{at_recipe}:3: versions.cuda contradicts "
        f"site.yaml:{at_site}:3: accelerator.driver: CUDA 13.0 needs driver 580 "
        "or newer, the site has 535.1"
    )
    assert why.startswith("  why: ")
    assert way_out == "  next: --set versions.cuda=12.9, or use an older build of the framework"


def test_a_value_that_no_setting_reaches_asks_for_a_variant(tmp_path: Path) -> None:
    site = {"accelerator": {**GPU, "driver": "535.1"}}
    said = refused(tmp_path, site, stack={"cuda": "13.0"})
    assert "next: use a variant of the recipe whose stack.cuda is at most 12.9, or" in said


def test_a_fact_of_an_epoch_is_named_at_its_place(tmp_path: Path) -> None:
    epochs = {
        "old": {
            "summary": "s",
            "changes": {"accelerator": {**GPU, "toolkit": "11.0.3", "sources": ["made-up"]}},
        },
        "new": {
            "summary": "s",
            "changes": {"accelerator": {**GPU, "toolkit": "13.0", "sources": ["made-up"]}},
        },
    }
    site = {"epoch": "old", "epochs": epochs}
    said = refused(tmp_path, site, **STACK)
    at_site = line(tmp_path / "site.yaml", "        toolkit: 11.0.3")
    assert f"contradicts site.yaml:{at_site}:9: accelerator.toolkit: CUDA 13.0 is newer" in said
    assert settle(tmp_path, site, SiteTarget(epoch="new"), **STACK).recipe.stack.cuda == "13.0"


def test_all_that_contradicts_is_said_at_once(tmp_path: Path) -> None:
    site = {
        "arch": "ppc64le",
        "accelerator": {**GPU, "toolkit": "11.7.1", "target": "sm_70"},
        "mpi": {"family": "spectrum", "mode": "compile", "name": "Spectrum MPI"},
    }
    stack = {"cuda": "13.0", "gpu_targets": ["sm_80"], "mpi": MPI}
    with pytest.raises(MisfitError) as caught:
        settle(tmp_path, site, stack=stack)
    said = str(caught.value)
    both = r"^recipe\.yaml:\d+:\d+: .* contradicts site\.yaml:\d+:\d+: "
    assert len(re.findall(both, said, re.MULTILINE)) == 6
    assert "\n" not in caught.value.brief
    assert caught.value.brief.count("; ") == 5


def world(tmp_path: Path) -> CliContext:
    home = tmp_path / "config" / "dlcontainer"
    changes = {
        name: {"accelerator": {**GPU, "toolkit": newest, "sources": ["made-up"]}}
        for name, newest in (("old", "11.0.3"), ("new", "12.9"))
    }
    site: dict[str, Any] = {
        **SITE,
        "sources": {"made-up": "a test"},
        "epoch": "old",
        "epochs": {name: {"summary": "s", "changes": one} for name, one in changes.items()},
    }
    write_yaml(home / "site-configs" / "demo.yaml", site)
    variants = {
        name: {"kind": kind, "summary": "s", "changes": {"stack": {"cuda": cuda}}}
        for name, kind, cuda in (("cu126", "vendor", "12.6"), ("cu110", "vendor", "11.0.3"))
    }
    recipe = {key: value for key, value in RECIPE.items() if key != "name"}
    folder = folder_of(home / "recipes", **recipe, variants=variants)
    folder.rename(home / "recipes" / "demo")
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config"), "PATH": ""}
    return CliContext(environ=environ)


def test_the_variants_and_epochs_that_go_are_named(tmp_path: Path) -> None:
    here = world(tmp_path)
    with pytest.raises(MisfitError) as caught:
        here.plan("demo", "demo", variant="cu126")
    assert caught.value.next_step is not None
    assert caught.value.next_step.endswith("; or --variant cu110; or --epoch new")
    assert here.plan("demo", "demo").recipe.stack.cuda == "11.0.3"
    assert here.plan("demo", "demo", variant="cu110").recipe.stack.cuda == "11.0.3"
    assert here.plan("demo", "demo", target=SiteTarget(epoch="new")).recipe.stack.cuda == "12.6"
    assert here.plan("demo", "demo", ["site.accelerator.driver=525.60.13"])


ANY = st.from_regex(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,20}", fullmatch=True)
LIKELY = st.sampled_from(["12", "12.x", "weird", "12.4", "13.0", "0", "9" * 60, "1.", "2.36"])
VERSION = st.one_of(LIKELY, ANY)
CPU = st.sampled_from(["knl", "haswell", "weird", "power9"])
# A vendor's GPUs are named as it does, or as another one does.
NAMED = ["sm_70", "sm_90a", "gfx90a"]
GPUS = st.one_of(
    st.tuples(st.sampled_from(["nvidia", "amd"]), st.sampled_from(NAMED)),
    st.tuples(st.just("intel"), st.sampled_from([*NAMED, "pvc", "weird", "sm_1"])),
)
CODE = st.sampled_from(["sm_70", "compute_80", "sm_90a", "gfx90a", "weird", "sm_1"])


@settings(max_examples=150)
@given(
    versions=st.fixed_dictionaries(
        dict.fromkeys(("cuda", "rocm", "oneapi", "gcc", "llvm"), VERSION)
    ),
    facts=st.tuples(VERSION, VERSION, VERSION, CPU, CPU),
    gpu=GPUS,
    codes=st.lists(CODE, max_size=3),
)
def test_no_version_makes_it_fall(
    versions: dict[str, str], facts: tuple[str, ...], gpu: tuple[str, str], codes: list[str]
) -> None:
    driver, toolkit, glibc, there, wanted = facts
    vendor, target = gpu
    site = {
        **SITE,
        "accelerator": {
            **GPU,
            "vendor": vendor,
            "driver": driver,
            "toolkit": toolkit,
            "target": target,
        },
        "cpu": {"model": "c", "cores": 1, "target": there},
        "os": {"distribution": "d", "release": "r", "glibc": glibc},
        "jobs": {"flags": ["--rocm"]},
    }
    stack = {**versions, "gpu_targets": codes, "cpu_target": wanted}
    recipe = {**RECIPE, "verify": {"script": "verify.py"}, "stack": stack}
    documents = [config.from_data(one, layer=name) for one, name in ((site, "s"), (recipe, "r"))]
    at = SelectedDocument(value=config.validate(documents[0], Site), document=documents[0])
    settled = config.validate(documents[1], Recipe)
    found = list(conflicts.find(at.value, settled))
    said = list(conflicts.doubts(at.value, settled))
    assert len(set(said)) == len(said)
    if found:
        text = str(conflicts.refusal(found, site=documents[0], recipe=documents[1]))
        assert text.count("\n  why: ") == text.count("\n  next: ") == len(found)
        assert json.dumps(text).isascii()
