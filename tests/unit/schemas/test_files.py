"""The schemas for editors take what the tool takes, and refuse the keys and types that it does."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel

from dlcontainer import config
from dlcontainer.config import KeyPath
from dlcontainer.config.document import walk
from dlcontainer.errors import ConfigError
from dlcontainer.recipes.extends import OF_LOWER
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.schemas import files
from dlcontainer.schemas.layers import layer
from dlcontainer.sites import loading
from dlcontainer.sites.site import WHOLE_SITE, Site
from tests.fuzz import fields
from tests.integration.test_hostile_site import hostile
from tests.values import HOST, RECIPE, ROOT, SITE, read_recipe, write_yaml

SITES = sorted((ROOT / "site-configs").rglob("*.yaml"))
RECIPES = sorted((ROOT / "recipes").glob("*/recipe.yaml"))
VARIANTS = sorted((ROOT / "recipes").glob("*/variants/*.yaml"))
SITE_SCHEMA, RECIPE_SCHEMA = files.site_config(), files.recipe()
# What the tool says of a key it does not know, or of a value of another kind.
REFUSED = re.compile(r": (unknown key|expected )")
# Blocks of docs that are no part of a site or a recipe.
OTHER_FILES = ("# overrides.yaml", "rounds:", "speed:")


def reader(schema: dict[str, Any], name: str = "") -> jsonschema.Draft202012Validator:
    """Read by a schema, or by one of its definitions."""
    if name:
        schema = {"$schema": schema["$schema"], "$ref": f"#/$defs/{name}", "$defs": schema["$defs"]}
    return jsonschema.Draft202012Validator(schema)


def read(path: Path) -> dict[str, object]:
    return config.load(path, layer="file", display=path.name).data


def errors(by: jsonschema.Draft202012Validator, data: object) -> list[str]:
    return [f"{one.json_path}: {one.message[:200]}" for one in by.iter_errors(data)]


@pytest.mark.parametrize(
    ("schema", "name"), [(SITE_SCHEMA, "site-config"), (RECIPE_SCHEMA, "recipe")]
)
def test_each_is_a_schema_with_a_name_that_stays(schema: dict[str, Any], name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    # Editors keep it beside their files: it changes with the number of `schema` alone.
    assert schema["$id"] == f"urn:dlcontainer:schema:{name}:1"
    for definition in schema["$defs"].values():
        assert definition.get("additionalProperties") is not True, definition["title"]


def test_every_shipped_file_is_taken() -> None:
    assert (len(SITES), len(RECIPES)) >= (22, 5)
    assert len(VARIANTS) > 20
    site, recipe = reader(SITE_SCHEMA), reader(RECIPE_SCHEMA)
    variant = reader(RECIPE_SCHEMA, "Variant")
    found = {path.name: errors(site, read(path)) for path in SITES}
    found |= {path.parent.name: errors(recipe, read(path)) for path in RECIPES}
    found |= {str(path): errors(variant, read(path)) for path in VARIANTS}
    assert {name: said for name, said in found.items() if said} == {}


def test_the_examples_of_the_docs_are_taken() -> None:
    parts = [
        reader(SITE_SCHEMA, layer("Site")),
        reader(RECIPE_SCHEMA, "RecipeWithVariants"),
        reader(RECIPE_SCHEMA, "ExtendingRecipe"),
    ]
    seen = 0
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            if any(word in block for word in OTHER_FILES):
                continue
            seen += 1
            data = config.parse(block, layer="docs", display=page.name).data
            said = [errors(part, data) for part in parts]
            assert [] in said, (page.name, said)
    assert seen >= 6


def test_what_tests_write_is_taken(tmp_path: Path) -> None:
    rich = fields.site(hostile("a b", "$HOME/x", "apptainer"))
    assert errors(reader(SITE_SCHEMA), rich) == []
    assert errors(reader(SITE_SCHEMA), SITE) == []
    assert errors(reader(RECIPE_SCHEMA), fields.recipe()) == []
    assert errors(reader(RECIPE_SCHEMA), RECIPE) == []
    # A closed list of a recipe may be a template; of a base, which is none, it may not.
    mpi = {"stack": {"mpi": {"family": "{{ site.mpi.family }}", "name": "the site's"}}}
    assert errors(reader(RECIPE_SCHEMA), {**RECIPE, **mpi}) == []
    assert errors(reader(RECIPE_SCHEMA), {**RECIPE, "base": {"kind": "{{ x }}"}}) != []


@pytest.mark.parametrize(
    ("key", "data"),
    [
        ("arch", {key: value for key, value in SITE.items() if key != "arch"}),
        ("schema", {"name": "x", "extends": "summit"}),
        ("name", {"schema": 1, "facts": "host"}),
    ],
)
def test_a_missing_key_is_told_where_no_layer_can_bring_it(key: str, data: object) -> None:
    assert any(f"{key!r} is a required" in one for one in errors(reader(SITE_SCHEMA), data))


@pytest.mark.parametrize(
    "data",
    [
        {**SITE, "jobs": None},
        {**SITE, "memory": {"fast_gb": 16}},
        {**SITE, "epochs": {"a": {"summary": "s", "changes": {"name": "other"}}}},
        {**SITE, "epochs": {"a": {"summary": "s", "changes": {}}}},
        {**SITE, "node_types": {"a": {"summary": "s", "changes": {"epochs": {}}}}},
        {**SITE, "recipes": {"pytorch": {"steps": []}}},
        {**SITE, "recipes": {"pytorch": {"base": {"imag": "x"}}}},
        {**SITE, "base": {"distributon": "debian"}},
    ],
)
def test_what_no_layer_may_say(data: object) -> None:
    assert errors(reader(SITE_SCHEMA), data) != []


@pytest.mark.parametrize(
    "variant",
    [
        {"file": "a.yaml", "kind": "vendor"},
        {"kind": "vendor", "summary": "s", "changes": {"name": "x"}},
        {"kind": "vendor", "summary": "s", "changes": {"variants": {}}},
        {"kind": "vendor", "summary": "s", "changes": {}},
        {"kind": "seller", "summary": "s", "changes": {"version": "1"}},
        {"kind": "vendor", "summary": "s", "needs": {"cpus": []}, "changes": {"version": "1"}},
    ],
)
def test_what_no_variant_may_say(variant: object) -> None:
    assert errors(reader(RECIPE_SCHEMA), {**RECIPE, "variants": {"x": variant}}) != []


def others(value: object) -> Iterator[object]:
    """Give values of other kinds than one."""
    yield 7 if isinstance(value, str) else "a text"
    yield {"a key": "a text"} if isinstance(value, list) else ["a text"]


def changed(data: dict[str, Any], path: KeyPath) -> Iterator[dict[str, Any]]:
    """Misspell the key at a path, and write values of other kinds there."""
    *above, last = path
    for at, other in enumerate([None, *others(inside(data, path))]):
        copied = copy.deepcopy(data)
        parent: Any = inside(copied, tuple(above))
        if at:
            parent[last] = other
        elif isinstance(parent, dict):
            parent[f"{last}x"] = parent.pop(last)
        else:
            continue
        yield copied


def inside(data: Any, path: KeyPath) -> Any:
    for part in path:
        data = data[part]
    return data


class Held:
    """What the tool and the schema say of the same data."""

    def __init__(self, by: jsonschema.Draft202012Validator) -> None:
        self.by = by
        self.refused = self.taken = 0
        self.apart: list[str] = []

    def against(self, tool: str, data: object, path: KeyPath) -> None:
        """Hold the tool's words against the schema's; "" is the tool's yes."""
        said = errors(self.by, data)
        if REFUSED.search(tool) and not said:
            self.apart.append(f"{config.dotted(path)}: the tool alone: {tool[:200]}")
        elif not tool and said:
            self.apart.append(f"{config.dotted(path)}: the schema alone: {said[0]}")
        self.refused += bool(REFUSED.search(tool))
        self.taken += not tool


def said_of_site(folder: Path, data: dict[str, Any]) -> str:
    try:
        loading.load(
            write_yaml(folder / "s.yaml", data),
            files=loading.SiteFiles(
                display=lambda path: path.name, find=lambda name: folder / f"{name}.yaml"
            ),
            overrides=None,
            host=HOST,
        )
    except ConfigError as error:
        return str(error)
    return ""


def said_of(model: type[BaseModel], *layers: dict[str, Any]) -> str:
    """Say what the tool does of layers of data, the lowest first."""
    documents = [config.from_data(data, layer=f"layer {at}") for at, data in enumerate(layers)]
    try:
        config.validate(config.merge(*documents), model)
    except ConfigError as error:
        return str(error)
    return ""


def rich_site() -> dict[str, Any]:
    """Give a site with every field, all in the file itself."""
    data = fields.site(hostile("a b", "$HOME/x", "apptainer"))
    for key in ("epoch", "epochs", "node_type", "node_types"):
        del data[key]
    return data


def test_a_site_s_keys_and_types_as_the_tool_has_them(tmp_path: Path) -> None:
    data, held = rich_site(), Held(reader(SITE_SCHEMA))
    assert said_of_site(tmp_path, data) == ""
    for path, _ in walk(data):
        for wrong in changed(data, path) if path else ():
            # What a site says of recipes is read with the recipe: below.
            if path[0] not in ("recipes", "base"):
                held.against(said_of(Site, wrong), wrong, path)
    assert held.apart == []
    assert held.refused > 300
    assert held.taken > 10


def test_the_same_of_a_layer(tmp_path: Path) -> None:
    """An epoch's changes, and a site over another, hold any of the keys."""
    rich, held = rich_site(), Held(reader(SITE_SCHEMA))
    changes = {key: value for key, value in rich.items() if key not in WHOLE_SITE}
    own = {**SITE, "sources": {"s": "a page"}, "source": "s"}
    for path, _ in walk(changes):
        if not path or path[0] in ("recipes", "base"):
            continue
        for wrong in changed(changes, path):
            file = {**own, "epochs": {"now": {"summary": "now", "changes": wrong}}}
            held.against(said_of(Site, own, wrong), file, path)
    assert held.apart == []
    assert held.refused > 300
    # Its words need the accelerator below.
    del rich["scheduler"]["forms"]["near"]
    write_yaml(tmp_path / "below.yaml", {**rich, "name": "below"})
    over = {"schema": 1, "name": "demo", "extends": "below"}
    # A layer takes keys away, and needs none of what is below it.
    for key in changes:
        if key not in ("arch", "default_recipe", "summary", "sources", "recipes"):
            # But a job's end is told in the scheduler's words.
            gone = {key: None, **({"jobs": None} if key == "scheduler" else {})}
            assert said_of_site(tmp_path, {**over, **gone}) == "", key
            assert errors(reader(SITE_SCHEMA), {**over, **gone}) == [], key


def test_a_recipe_s_keys_and_types_as_the_tool_has_them() -> None:
    data = fields.recipe()
    data["slim"] = ["static-libraries"]
    data["image"] = {"pack": True, "compression": "zstd"}
    held = Held(reader(RECIPE_SCHEMA))
    assert said_of(Recipe, data) == ""
    for path, _ in walk(data):
        for wrong in changed(data, path) if path else ():
            held.against(said_of(Recipe, wrong), wrong, path)
    assert held.apart == []
    assert held.refused > 100
    assert held.taken >= 5


def test_the_same_of_a_variant_and_of_what_a_site_changes() -> None:
    recipe = fields.recipe()
    changes = {key: recipe[key] for key in ("stack", "base", "versions", "steps", "environment")}
    variant = {"kind": "vendor", "summary": "s", "changes": changes}
    held = Held(reader(RECIPE_SCHEMA))
    for path, _ in walk(changes):
        for wrong in changed(changes, path) if path else ():
            file = {**RECIPE, "variants": {"v": {**variant, "changes": wrong}}}
            held.against(said_of(Recipe, {**recipe, **wrong}), file, path)
    assert held.apart == []
    assert held.refused > 100
    held = Held(reader(SITE_SCHEMA))
    changes = {key: recipe[key] for key in ("base", "versions", "environment")}
    for path, _ in walk(changes):
        for wrong in changed(changes, path) if path else ():
            if set(wrong) == set(changes):  # another key of a recipe is refused in other words
                site = {**SITE, "recipes": {"demo": wrong}}
                held.against(said_of(Recipe, {**recipe, **wrong}), site, path)
    assert held.apart == []
    assert held.refused > 30


EXTENDING: dict[str, Any] = {
    "schema": 1,
    "name": "demo",
    "extends": "below",
    "wishes": ["a>=1"],
    "changed_pins": ["b"],
    "version": "2",
    "environment": {"A": "b"},
    "exposes": ["more"],
    "steps": [{"name": "more", "python_packages": {"packages": ["a==1", "b==1"]}}],
    "verify": {"script": "verify.py", "imports": {"a": "1"}},
    "variants": {
        "v": {
            "steps": {"more": {"replace": ["a==2"], "add": ["c==1"], "remove": ["b"]}},
            "imports": {"a": "2"},
        },
        "w": {"refused": "no wheel"},
    },
}


def said_of_extending(folder: Path, data: dict[str, Any]) -> str:
    """Say what the tool does of a recipe over another."""
    write_yaml(folder / "recipe.yaml", data)
    try:
        written = read_recipe(folder).document
        for variant in ("v", "w"):
            changes = config.subtree(written, ("variants", variant, "changes"))
            assert changes is not None
            plain = config.without(written, "variants")
            config.validate(config.merge(plain, changes), Recipe)
    except ConfigError as error:
        return str(error)
    return ""


def test_a_recipe_over_another_as_the_tool_has_it(tmp_path: Path) -> None:
    variant = {"kind": "distro", "summary": "s", "changes": {"license": "MIT"}}
    verify = {"script": "verify.py", "imports": {"tool": "2.0"}}
    variants = {"v": variant, "w": variant}
    below = {**RECIPE, "name": "below", "verify": verify, "variants": variants}
    write_yaml(tmp_path / "below" / "recipe.yaml", json.loads(json.dumps(below)))
    held = Held(reader(RECIPE_SCHEMA))
    assert said_of_extending(tmp_path / "demo", EXTENDING) == ""
    assert errors(held.by, EXTENDING) == []
    for path, _ in walk(EXTENDING):
        for wrong in changed(EXTENDING, path) if path else ():
            # Without the key it is another kind of recipe, and a name below is not the schema's.
            if "extends" in wrong and set(wrong.get("variants") or ()) == {"v", "w"}:
                held.against(said_of_extending(tmp_path / "demo", wrong), wrong, path)
    assert held.apart == []
    assert held.refused > 40
    assert held.taken >= 3
    for key in OF_LOWER:
        data = {**EXTENDING, key: fields.recipe().get(key, "v")}
        assert errors(held.by, data) != [], key
        assert said_of_extending(tmp_path / "demo", data) != "", key
