"""A recipe that extends another: what it inherits, adds and changes, and what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.build import build_steps
from dlcontainer.build.build_steps import BuildStep
from dlcontainer.errors import ConfigError, Mark, MisfitError
from dlcontainer.formats import build_context, texts
from dlcontainer.planning import pins
from dlcontainer.planning.plan import Plan
from dlcontainer.planning.variants import names
from dlcontainer.recipes.extends import MOST_BELOW
from tests.values import (
    IMAGE_BASE,
    RECIPE,
    SITE,
    TEMPLATES,
    plan_of,
    read_recipe,
    site_of,
    write_yaml,
)

GPU = {**SITE, "accelerator": {"vendor": "nvidia", "model": "a GPU", "per_node": 4}}


def packages(*pinned: str, name: str = "wheels") -> dict[str, Any]:
    return {"name": name, "python_packages": {"packages": list(pinned)}}


SYSTEM = {"name": "system", "os_packages": ["python3"]}
FILES = {"name": "files", "files": {"data.txt": "/opt/below.txt"}}
# A recipe below: a variant with a list of steps of its own, one without, one with other proofs.
BELOW: dict[str, Any] = {
    **RECIPE,
    "name": "below",
    "homepage": "https://example.org/below",
    "space_mb": 3000,
    "interpreter": "/usr/bin/python3.11",
    "environment": {"BELOW": "1"},
    "upstreams": {"up": {"url": "https://example.org/whl", "source": "a page"}},
    "steps": [SYSTEM, packages("tool=={{ versions.tool }}", "Num.Py==1.0"), FILES],
    "verify": {"script": "verify.py", "imports": {"tool": "{{ versions.tool }}"}},
    "variants": {
        "cuda": {
            "kind": "vendor",
            "summary": "for GPUs",
            "status": "never built",
            "lock": "by the site",
            "needs": {"accelerator": ["nvidia"]},
            "changes": {
                "stack": {"cuda": "12.6"},
                "version": "1.0-cuda",
                "environment": {"BELOW": "2"},
                "steps": [SYSTEM, packages("tool==2.0", "Num.Py==2.0", name="framework")],
                "verify": {"script": "gpu.py", "imports": {"num_py": "2.0"}},
                "exposes": ["python", "gpu"],
            },
        },
        "plain": {"kind": "distro", "summary": "for CPUs", "changes": {"license": "MIT"}},
    },
}
CHILD: dict[str, Any] = {
    "name": "demo",
    "extends": "below",
    "wishes": ["more>=1", "tool"],
    "steps": [packages("more==3.0", "extra==1", name="more")],
    "verify": {"script": "mine.py", "imports": {"more": "3.0"}},
}


def write(parent: Path, data: dict[str, Any], name: str = "") -> Path:
    """Write a recipe into the folder of its name, with a file of each name that one names."""
    folder = parent / (name or str(data.get("name", "demo")))
    # Through JSON: a step that stands twice would be an anchor in YAML.
    write_yaml(folder / "recipe.yaml", json.loads(json.dumps(data)))
    for file in ("verify.py", "gpu.py", "mine.py", "data.txt"):
        (folder / file).write_text(f"# {file} of {folder.name}\n")
    return folder


def settle(
    parent: Path,
    below: dict[str, Any] = BELOW,
    site: Any = SITE,
    asked: str | None = None,
    **own: Any,
) -> Plan:
    write(parent, below)
    folder = write(parent, {**CHILD, **own})
    return plan_of(folder, site=site_of(site), asked=asked)


def alone(parent: Path, below: dict[str, Any] = BELOW, **parts: Any) -> Plan:
    """Settle the recipe below by itself."""
    return plan_of(write(parent, below), **parts)


def keys(plan: Plan, folder: Path) -> dict[str, BuildStep]:
    staged = folder / f"staged {plan.recipe.name} {plan.site.name}"
    build_context.stage(plan, staged)
    return {step.name: step for step in build_steps.work(plan, staged, {"base": "b"})}


def test_it_inherits_all_but_its_name(tmp_path: Path) -> None:
    plan, below = settle(tmp_path), alone(tmp_path)
    own = plan.recipe
    assert (own.name, own.version, own.summary) == ("demo", "1.0", RECIPE["summary"])
    for key in ("base", "prefix", "interpreter", "versions", "upstreams", "exposes", "environment"):
        assert getattr(own, key) == getattr(below.recipe, key), key
    assert (own.space_mb, own.license, own.variant) == (3000, "MIT", "plain")
    assert plan.name == "demo-1.0-demo"
    assert plan.environment == below.environment


@pytest.mark.parametrize(("site", "count"), [(SITE, 3), (GPU, 2)])
def test_the_steps_below_stay_what_they_are(tmp_path: Path, site: Any, count: int) -> None:
    plan, below = settle(tmp_path, site=site), alone(tmp_path, site=site_of(site))
    assert plan.recipe.steps[:count] == below.recipe.steps
    assert [step.name for step in plan.recipe.steps[count:]] == ["more"]
    mine, theirs = keys(plan, tmp_path), keys(below, tmp_path)
    for step in below.recipe.steps:
        assert mine[step.name].key == theirs[step.name].key
        assert mine[step.name].inputs == theirs[step.name].inputs
    assert set(mine) - set(theirs) == {"more"}
    # The proof of the recipe below is no input of a step of it.
    assert mine["image"].key != theirs["image"].key


def test_variants_and_their_notes_stay(tmp_path: Path) -> None:
    plan = settle(tmp_path, site=GPU)
    assert plan.choice is not None
    assert (plan.choice.name, plan.choice.usual) == ("cuda", True)
    assert plan.recipe.version == "1.0-cuda"
    assert plan.recipe.stack.cuda == "12.6"
    assert any(note.startswith("variant cuda: never built") for note in plan.notes)
    assert any(note.startswith("variant cuda: the site must lock it") for note in plan.notes)
    assert names(read_recipe(tmp_path / "demo").document) == ["cuda", "plain"]


def test_origins_of_both_files(tmp_path: Path) -> None:
    plan = settle(tmp_path)
    where = {key: origin.where for key, _, origin in plan.origins}
    lines = (tmp_path / "below" / "recipe.yaml").read_text().splitlines()
    line = next(at for at, text in enumerate(lines, start=1) if "tool=={{" in text)
    pinned = where["steps[1].python_packages.packages[0]"]
    assert pinned == Mark(file="below/recipe.yaml", line=line, column=7)
    assert str(where["steps[3].python_packages.packages[0]"]).startswith("recipe.yaml:")
    assert [(pin.package, pin.step) for pin in pins.of_plan(plan)] == [
        *(("tool==2.0", "wheels"), ("Num.Py==1.0", "wheels")),
        *(("more==3.0", "more"), ("extra==1", "more")),
    ]
    assert pins.of_plan(plan)[0].origin == f"below/recipe.yaml:{line}"


def test_pins_are_found_behind_a_step_that_is_left_out(tmp_path: Path) -> None:
    own = [packages("no==1", name="never") | {"when": "false"}, packages("more==3", name="m")]
    plan = settle(tmp_path, steps=own, verify={}, wishes=[])
    assert [pin.package for pin in pins.of_plan(plan)][2:] == ["more==3"]


@pytest.mark.parametrize(("site", "script"), [(SITE, "verify.py"), (GPU, "gpu.py")])
def test_both_proofs_go_in(tmp_path: Path, site: Any, script: str) -> None:
    plan = settle(tmp_path, site=site)
    contents = {entry.target: entry.source.read_text() for entry in plan.files}
    assert contents["/opt/dlcontainer/verify.py"] == "# mine.py of demo\n"
    assert contents["/opt/dlcontainer/verify-below.py"] == f"# {script} of below\n"
    assert plan.earlier_proofs == ("/opt/dlcontainer/verify-below.py",)
    text = texts.text(plan, "apptainer", [TEMPLATES])
    python = "/opt/demo/bin/python /opt/dlcontainer"
    assert f"%test\n    {python}/verify-below.py && {python}/verify.py\n" in text


def test_imports_are_merged_those_below_first(tmp_path: Path) -> None:
    assert list(settle(tmp_path).recipe.verify.imports.items()) == [
        ("tool", "2.0"),
        ("more", "3.0"),
    ]
    imports = settle(tmp_path, site=GPU).recipe.verify.imports
    assert imports == {"tool": "2.0", "num_py": "2.0", "more": "3.0"}
    assert list(imports)[-1] == "more"


def test_without_a_proof_of_its_own_the_one_below_serves(tmp_path: Path) -> None:
    plan = settle(tmp_path, site=GPU, verify={"imports": {"more": "3.0"}})
    assert (plan.recipe.verify.script, plan.earlier_proofs) == ("gpu.py", ())
    assert plan.files[0].source == tmp_path / "below" / "gpu.py"
    assert plan.folder == tmp_path / "demo"


def test_files_come_from_the_folder_of_the_recipe_that_names_them(tmp_path: Path) -> None:
    own = [{"name": "mine", "files": {"data.txt": "/opt/mine.txt"}}]
    plan = settle(tmp_path, steps=own)
    read = {entry.target: entry.source.read_text() for entry in plan.files}
    assert read["/opt/below.txt"] == "# data.txt of below\n"
    assert read["/opt/mine.txt"] == "# data.txt of demo\n"


def test_a_file_that_is_missing_below_is_looked_for_there(tmp_path: Path) -> None:
    settle(tmp_path)
    (tmp_path / "below" / "data.txt").unlink()
    with pytest.raises(ConfigError, match=r"below/recipe.yaml:\d+:\d+: no file 'data.txt'") as said:
        plan_of(tmp_path / "demo")
    assert str(tmp_path / "below") in str(said.value.next_step)


def test_the_native_twin_has_both_proofs(tmp_path: Path) -> None:
    plan = settle(tmp_path)
    text = texts.text(plan, "native", [TEMPLATES])
    build_context.write(plan, "native", text, f"{tmp_path}/twin/")
    twin = tmp_path / "twin"
    assert (twin / "mine.py").read_text() == "# mine.py of demo\n"
    assert (twin / "verify-below.py").read_text() == "# verify.py of below\n"
    ran = re.findall(r'"\$prefix/bin/python" "\$dlc_here/(.*)"', text)
    assert "==> step 3/3 verify-below" in text
    assert ran == ["verify-below.py", "mine.py"]


def test_own_values_hold_in_each_variant(tmp_path: Path) -> None:
    own: dict[str, Any] = {
        "version": "7",
        "environment": {"BELOW": "3"},
        "exposes": ["mine"],
        "summary": "s",
    }
    for site, commands in ((SITE, ("python", "mine")), (GPU, ("python", "gpu", "mine"))):
        plan = settle(tmp_path, site=site, **own)
        assert (plan.recipe.version, plan.recipe.summary) == ("7", "s")
        assert plan.environment["BELOW"] == "3"
        assert plan.recipe.exposes == commands


def test_a_key_is_taken_away(tmp_path: Path) -> None:
    assert settle(tmp_path, homepage=None).recipe.homepage is None
    assert settle(tmp_path, site=GPU, environment={"BELOW": None}).environment == {
        "LANG": "C.UTF-8"
    }


def test_exceptions_of_a_variant(tmp_path: Path) -> None:
    exception: dict[str, Any] = {
        "steps": {"more": {"replace": ["More==2.9"], "add": ["new==1"], "remove": ["extra"]}},
        "imports": {"more": "2.9"},
    }
    variants: dict[str, Any] = {"cuda": exception}
    plan = settle(tmp_path, site=GPU, variants=variants)
    assert [pin.package for pin in pins.of_plan(plan)][2:] == ["More==2.9", "new==1"]
    assert plan.recipe.verify.imports["more"] == "2.9"
    lines = (tmp_path / "demo" / "recipe.yaml").read_text().splitlines()
    assert lines[int(pins.of_plan(plan)[2].origin.split(":")[1]) - 1].strip() == "- More==2.9"
    usual = settle(tmp_path, variants=variants)
    assert [pin.package for pin in pins.of_plan(usual)][2:] == ["more==3.0", "extra==1"]
    assert usual.recipe.verify.imports["more"] == "3.0"


def test_exceptions_in_a_file_of_their_own(tmp_path: Path) -> None:
    write_yaml(tmp_path / "demo/v/cuda.yaml", {"refused": "no such wheel"})
    settle(tmp_path, variants={"cuda": {"file": "v/cuda.yaml"}})
    with pytest.raises(MisfitError, match="no such wheel"):
        plan_of(tmp_path / "demo", site=site_of(GPU))


def test_a_refused_variant_says_why_and_no_image_for_cpus_takes_its_place(tmp_path: Path) -> None:
    variants: dict[str, Any] = {"cuda": {"refused": "more has no wheel for it"}}
    why = r"it is refused by the recipe: more has no wheel for it \(recipe.yaml:\d+:\d+\)"
    with pytest.raises(MisfitError, match=f"'cuda' of recipe demo is not available.*\n.*{why}"):
        settle(tmp_path, site=GPU, asked="cuda", variants=variants)
    with pytest.raises(MisfitError, match=r"more has no wheel for it \(recipe.yaml:") as said:
        settle(tmp_path, site=GPU, variants=variants)
    assert said.value.exit_code == 8
    assert re.search(r"nearest is cuda \(.*\): it is refused by the recipe: more", str(said.value))
    assert str(said.value.next_step).startswith("add --cpu to use plain")
    # Elsewhere nothing changes.
    assert settle(tmp_path, variants=variants).recipe.variant == "plain"


def test_a_refused_variant_of_the_recipe_below_stays_refused(tmp_path: Path) -> None:
    settle(tmp_path, variants={"cuda": {"refused": "more has no wheel for it"}})
    folder = write(tmp_path, {"name": "top", "extends": "demo"})
    with pytest.raises(MisfitError, match=r"no wheel for it \(demo/recipe.yaml:"):
        plan_of(folder, site=site_of(GPU))


def test_the_next_best_is_taken_with_a_note(tmp_path: Path) -> None:
    second = {**BELOW["variants"]["cuda"], "summary": "for other GPUs"}
    below = {**BELOW, "variants": {**BELOW["variants"], "second": second}}
    refused = {"refused": "no wheel"}
    plan = settle(tmp_path, below, site=GPU, variants={"cuda": refused, "plain": refused})
    assert plan.recipe.variant == "second"
    notes = [note for note in plan.notes if "would run here" in note]
    # Of the one for CPUs nothing is said: it was not meant.
    assert len(notes) == 1
    said = r"variant cuda would run here, but is refused by the recipe: no wheel \(recipe.yaml:\d+"
    assert re.match(said, notes[0])


def test_variants_that_are_refused_for_one_reason_are_one_note(tmp_path: Path) -> None:
    cuda = BELOW["variants"]["cuda"]
    more = {name: {**cuda, "summary": f"for {name}"} for name in ("old", "new", "last")}
    below = {**BELOW, "variants": {**BELOW["variants"], **more}}
    refused = {"cuda": "not chosen", "old": "not chosen", "new": "no wheel"}
    words = {name: {"refused": why} for name, why in refused.items()}
    plan = settle(tmp_path, below, site=GPU, variants=words)
    assert plan.recipe.variant == "last"
    first, second = [note for note in plan.notes if "would run here" in note]
    assert first == "variants cuda, old would run here, but are refused by the recipe: not chosen"
    assert second.startswith("variant new would run here, but is refused by the recipe: no wheel (")


def test_a_changed_pin_is_listed(tmp_path: Path) -> None:
    own: dict[str, Any] = {
        "steps": [packages("more==3.0", "num-py==1.5", name="more")],
        "changed_pins": ["NUM_PY"],
    }
    plan = settle(tmp_path, **own)
    assert any(
        re.fullmatch(
            r"num-py 1.0 -> 1.5, changed by this recipe \(recipe.yaml:\d+:\d+; before: "
            r"below/recipe.yaml:\d+:\d+\)",
            note,
        )
        for note in plan.notes
    )
    with pytest.raises(ConfigError) as said:
        settle(tmp_path, steps=own["steps"])
    assert re.match(
        r"recipe.yaml:\d+:\d+: num-py==1.5: another version than Num.Py==1.0", str(said.value)
    )
    assert re.search(r"Num.Py==1.0 stands at below/recipe.yaml:\d+", str(said.value.why))
    assert "changed_pins: [num-py]" in str(said.value.next_step)
    # The same version again changes nothing.
    same = settle(tmp_path, steps=[packages("num-py==1.0", name="more")])
    assert not any("changed by this recipe" in note for note in same.notes)


def test_the_list_of_another_recipe_allows_nothing(tmp_path: Path) -> None:
    steps = [packages("num-py==1.5", name="more")]
    settle(tmp_path, steps=steps, changed_pins=["num-py"], verify={})
    again = {"name": "top", "extends": "demo", "steps": [packages("num-py==1.6", name="top")]}
    folder = write(tmp_path, again)
    with pytest.raises(ConfigError, match=r"num-py==1.6: another version than num-py==1.5 of"):
        plan_of(folder)
    folder = write(tmp_path, {**again, "changed_pins": ["num-py"]})
    assert sum("changed by this recipe" in note for note in plan_of(folder).notes) == 2


def test_a_changed_pin_that_the_proof_below_still_wants(tmp_path: Path) -> None:
    own: dict[str, Any] = {
        "steps": [packages("num-py==2.5", name="more")],
        "changed_pins": ["num-py"],
    }
    message = r"below/recipe.yaml:\d+:\d+: verify.imports.num_py: 2.0, but the image gets num-py"
    with pytest.raises(ConfigError, match=message) as said:
        settle(tmp_path, site=GPU, verify={}, **own)
    assert "`imports: {num_py: 2.5}`" in str(said.value.next_step)
    settle(tmp_path, site=GPU, verify={"imports": {"num_py": "2.5"}}, **own)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"name": None}, r"^recipe.yaml:1:1: name: missing"),
        (
            {"base": IMAGE_BASE},
            r"^recipe.yaml:\d+:1: base: belongs to the recipe below(?s:.*)below/recipe",
        ),
        ({"prefix": "/opt/x"}, r"prefix: belongs to the recipe below"),
        ({"interpreter": "/x"}, r"interpreter: belongs to the recipe below"),
        ({"stack": {"cuda": "1"}}, r"stack: belongs to the recipe below"),
        (
            {"versions": {"tool": "3"}},
            r"versions.tool: the recipe below has an entry.*\n.*\(below/recipe.yaml:\d+",
        ),
        ({"upstreams": {"up": {}}}, r"upstreams.up: the recipe below has an entry"),
        (
            {"steps": [packages("a==1", name="framework")]},
            r"^recipe.yaml:\d+:\d+: steps\[0\].name: the recipe below has .*\n.*below/recipe.yaml:",
        ),
        ({"steps": {"name": "a"}}, r"steps: expected a list"),
        ({"steps": ["a"]}, r"steps\[0\]: expected a mapping"),
        ({"steps": [{"nmae": "a"}]}, r"steps.* did you mean 'name'"),
        ({"verify": {"scirpt": "a"}}, r"verify.scirpt: unknown key; did you mean 'script'"),
        ({"verify": {"before": []}}, r"verify.before: unknown key"),
        ({"variants": {"cud": {"refused": "x"}}}, r"variants.cud: no variant.*did you mean 'cuda'"),
        ({"variants": {"cuda": None}}, r"variants.cuda: expected a mapping"),
        ({"variants": {"cuda": {}}}, r"variants.cuda: empty exception"),
        ({"variants": {"cuda": {"kind": "vendor"}}}, r"variants.cuda.kind: unknown key"),
        (
            {"variants": {"cuda": {"refused": "x", "imports": {"more": "1"}}}},
            r"'refused' excludes steps and imports",
        ),
        (
            {"variants": {"cuda": {"steps": {"moer": {"add": ["a==1"]}}}}},
            r"variants.cuda.steps.moer: this recipe has no step.*did you mean 'more'",
        ),
        (
            {"variants": {"cuda": {"steps": {"framework": {"add": ["a==1"]}}}}},
            r"steps.framework: this recipe has no step of this name of its own",
        ),
        ({"variants": {"cuda": {"steps": {"more": {}}}}}, r"set replace, add or remove"),
        (
            {"variants": {"cuda": {"steps": {"more": {"replace": ["mor==1"]}}}}},
            r"steps.more.replace: the step has no package 'mor'; did you mean 'more'",
        ),
        (
            {"variants": {"cuda": {"steps": {"more": {"add": ["More==1"]}}}}},
            r"steps.more.add: the step has the package 'more' already",
        ),
        ({"changed_pins": ["moer"]}, r"changed_pins\[0\]: no step of this recipe pins 'moer'"),
        ({"wishes": ["a b"]}, r"wishes\[0\]: not a requirement"),
        ({"wishes": ["a @ https://example.org/a.whl"]}, r"wishes\[0\]: a requirement with an addr"),
        ({"variant": "cuda"}, r"variant: belongs to the recipe below"),
        ({"extends": ["below"]}, r"^recipe.yaml:\d+:\d+: extends: expected text"),
        ({"extends": ""}, r"extends: empty text"),
        ({"extends": "../nowhere"}, r"extends: there is no recipe at .*nowhere"),
        ({"extends": f"../{'x' * 5000}"}, r"extends: cannot be read: File name too long"),
        (
            {"extends": "../demo"},
            r"^recipe.yaml:\d+:\d+: extends: circular reference: demo -> demo",
        ),
        ({"extends": "a/\0b"}, r"U\+0000|one printable line"),
    ],
)
def test_refused(tmp_path: Path, own: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settle(tmp_path, **own)


def test_recipes_in_a_circle(tmp_path: Path) -> None:
    write(tmp_path, {**BELOW, "extends": "../demo"})
    folder = write(tmp_path, CHILD)
    with pytest.raises(ConfigError, match=r"^below/recipe.yaml:\d+:1: .*demo -> below -> demo"):
        plan_of(folder)


def chain(parent: Path, count: int) -> Path:
    """Write recipes over each other; each adds a step."""
    write(parent, BELOW)
    below = "below"
    for number in range(count):
        steps = [packages(f"p{number}==1", name=f"step{number}")]
        data = {"name": f"r{number}", "extends": below, "steps": steps}
        folder = write(parent, {**data, "verify": {"script": "mine.py"}})
        below = f"r{number}"
    return folder


def test_a_chain(tmp_path: Path) -> None:
    plan = plan_of(chain(tmp_path, MOST_BELOW))
    added = [step.name for step in plan.recipe.steps][3:]
    assert added == ["step0", "step1", "step2", "step3"]
    assert plan.recipe.name == "r3"
    earlier = [f"/opt/dlcontainer/verify-{name}.py" for name in ("below", "r0", "r1", "r2")]
    assert list(plan.earlier_proofs) == earlier
    sources = {entry.target: entry.source.parent.name for entry in plan.files}
    assert [sources[path] for path in earlier] == ["below", "r0", "r1", "r2"]
    with pytest.raises(
        ConfigError, match=rf"more than {MOST_BELOW} recipes, each extending the next: r4"
    ):
        plan_of(chain(tmp_path, MOST_BELOW + 1))


def test_by_a_path_in_another_folder(tmp_path: Path) -> None:
    write(tmp_path / "centre", BELOW)
    for reference in ("../../centre/below", str(tmp_path / "centre/below/recipe.yaml")):
        folder = write(tmp_path / "mine", {**CHILD, "extends": reference})
        assert plan_of(folder).recipe.license == "MIT"


def test_two_recipes_of_one_folder_s_name(tmp_path: Path) -> None:
    """Their files are told apart by their folders."""
    write(tmp_path / "a", BELOW)
    middle = {"name": "below", "extends": "../../a/below", "steps": [
        {"name": "middle", "files": {"data.txt": "/opt/middle.txt"}}]}  # fmt: skip
    folder = write(tmp_path / "b", middle)
    (folder / "data.txt").write_text("middle\n")
    top = write(tmp_path / "c", {"name": "top", "extends": "../../b/below"})
    contents = {entry.target: entry.source.read_text() for entry in plan_of(top).files}
    assert contents["/opt/middle.txt"] == "middle\n"
    assert contents["/opt/below.txt"] == "# data.txt of below\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", r"below/recipe.yaml:\d+:\d+: not valid YAML"),
        ("[]", r"below/recipe.yaml:1:1: expected a mapping"),
        ("", r"below/recipe.yaml:?.* empty"),
        ("name: other\n", r"below/recipe.yaml:1:1: name: 'other', but the recipe's folder is"),
    ],
)
def test_a_broken_recipe_below_is_named(tmp_path: Path, text: str, message: str) -> None:
    settle(tmp_path)
    (tmp_path / "below/recipe.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        plan_of(tmp_path / "demo")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": "x", "variants": None}, r"below/recipe.yaml:\d+:1: steps: expected a list"),
        ({"steps": None, "variants": None}, r"steps: missing"),
        ({"steps": [7], "variants": None}, r"below/recipe.yaml:\d+:3: steps\[0\]: expected"),
        ({"verify": "x", "variants": None}, r"verify: a mapping cannot replace|verify: expected"),
        ({"verify": {"script": 7}, "variants": None}, r"below/recipe.yaml:\d+:\d+: verify.script"),
        ({"verify": {"imports": 7, "script": "verify.py"}, "variants": None}, r"below/.*imports"),
        ({"variants": []}, r"below/recipe.yaml:\d+:1: variants: expected"),
        ({"variants": {"plain": 7}}, r"below/recipe.yaml:\d+:3: variants.plain: expected"),
        (
            {"variants": {"plain": {"kind": "distro", "summary": "s", "changes": 7}}},
            r"below/.*changes",
        ),
        ({"base": 7}, r"below/recipe.yaml:\d+:1: base"),
        ({"exposes": 7, "variants": None}, r"below/recipe.yaml:\d+:1: exposes: expected a list"),
        ({"name": "Bad Name"}, r"below/recipe.yaml:\d+:\d+: name: not a name of"),
        ({"name": ["a"]}, r"below/recipe.yaml:\d+:\d+: name: expected text"),
    ],
)
def test_what_is_wrong_below_is_named_there(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    below = {key: value for key, value in {**BELOW, **change}.items() if value is not None}
    write(tmp_path, below, "below")
    folder = write(tmp_path, {**CHILD, "exposes": ["mine"]})
    with pytest.raises(ConfigError, match=message):
        plan_of(folder)


def test_overrides_of_the_recipe_below_hold_too(tmp_path: Path) -> None:
    """Else its steps would be others than those of its own image, and the cache of no use."""
    recipes = {"below": {"versions": {"tool": "2.1"}}, "demo": {"environment": {"MINE": "1"}}}
    site = {**SITE, "recipes": recipes}
    plan = settle(tmp_path, site=site)
    assert plan.recipe.versions == {"tool": "2.1"}
    assert plan.environment["MINE"] == "1"
    assert keys(plan, tmp_path)["system"].key
    over = {**SITE, "recipes": {**recipes, "demo": {"versions": {"tool": "2.2"}}}}
    assert settle(tmp_path, site=over).recipe.versions == {"tool": "2.2"}


def test_wishes_decide_nothing_in_the_image(tmp_path: Path) -> None:
    plan, other = settle(tmp_path), settle(tmp_path, wishes=["another"])
    assert plan.recipe.wishes == ("more>=1", "tool")
    assert plan.digest == other.digest
    assert "wishes" not in str(plan.content)
    # They are those of the recipe itself.
    folder = write(tmp_path, {"name": "top", "extends": "demo"})
    assert plan_of(folder).recipe.wishes == ()


def test_without_extends_a_digest_stays(tmp_path: Path) -> None:
    content = str(alone(tmp_path).content)
    for key in ("extends", "wishes", "changed_pins", "before"):
        assert key not in content


def test_a_recipe_below_without_variants(tmp_path: Path) -> None:
    below = {key: value for key, value in BELOW.items() if key != "variants"}
    plan = settle(tmp_path, below)
    assert [step.name for step in plan.recipe.steps] == ["system", "wheels", "files", "more"]
    assert list(plan.recipe.verify.imports) == ["tool", "more"]
    with pytest.raises(MisfitError, match="declares no device code"):
        settle(tmp_path, below, site=GPU)
