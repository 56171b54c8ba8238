"""The schemas of site configs and of recipes. Pure."""

from typing import Any

from pydantic import BaseModel

from dlcontainer.recipes.exceptions import OwnParts
from dlcontainer.recipes.extends import OF_LOWER
from dlcontainer.recipes.recipe import OVERRIDABLE, WHOLE_RECIPE, Recipe
from dlcontainer.recipes.variant import Variant
from dlcontainer.schemas import layers
from dlcontainer.schemas.layers import Node, layer, ref
from dlcontainer.sites.site import WHOLE_SITE, Site

DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Names, and no addresses: nothing is fetched. The number is that of `schema` in the files.
SITE_ID = "urn:dlcontainer:schema:site-config:1"
RECIPE_ID = "urn:dlcontainer:schema:recipe:1"


def site_config() -> Node:
    """Return the JSON Schema of a site config, as it is written.

    One that others complete (`extends`, this host, epochs, node types) holds some keys; any other
    has all that a site needs.
    """
    definitions = {**_definitions(Recipe), **_definitions(Site)}
    for name in ("Epoch", "NodeType"):
        definitions[name] = _with_changes(definitions[name], "SiteChanges")
    definitions["Site"] = layers.with_properties(
        definitions["Site"],
        {
            "base": {"anyOf": [ref(layer("Base")), {"type": "null"}], **_shown(Site, "base")},
            "recipes": {
                "type": "object",
                "additionalProperties": ref("RecipeOverrides"),
                **_shown(Site, "recipes"),
            },
        },
    )
    definitions = layers.with_layers(definitions)
    definitions["SiteChanges"] = definitions[layer("SiteChanges")] = layers.kept(
        definitions[layer("Site")], lambda key: key not in WHOLE_SITE
    )
    definitions["RecipeOverrides"] = definitions[layer("RecipeOverrides")] = layers.kept(
        definitions[layer("Recipe")], lambda key: key in OVERRIDABLE
    )
    # A layer in a layer is one.
    definitions[layer(layer("Base"))] = definitions[layer("Base")]
    completed: Node = {
        "anyOf": [
            {"required": ["extends"]},
            {"required": ["epochs"]},
            {"required": ["node_types"]},
            {"required": ["facts"], "properties": {"facts": {"const": "host"}}},
        ]
    }
    choice = layers.either(completed, layers.requiring(layer("Site"), _OWN), ref("Site"))
    return _file(SITE_ID, "Site config of dlcontainer", choice, definitions)


def recipe() -> Node:
    """Return the JSON Schema of a recipe, as it is written: its variants complete it."""
    definitions = {**_definitions(Recipe), **_definitions(Variant), **_definitions(OwnParts)}
    definitions["Variant"] = _with_changes(definitions["Variant"], "RecipeChanges")
    in_a_file: Node = {
        "type": "object",
        "properties": {"file": {"type": "string", "description": "a file beside the recipe"}},
        "required": ["file"],
        "additionalProperties": False,
    }
    variant = layers.either({"required": ["file"]}, in_a_file, ref("Variant"))
    variants: Node = {
        "type": "object",
        "additionalProperties": variant,
        "description": "ways to make it: docs/image/variants.md",
    }
    definitions = layers.with_layers(definitions)
    written = definitions[layer("Recipe")]
    definitions["RecipeChanges"] = definitions[layer("RecipeChanges")] = layers.kept(
        written, lambda key: key not in WHOLE_RECIPE
    )
    definitions["RecipeWithVariants"] = layers.with_properties(written, {"variants": variants})
    definitions["ExtendingRecipe"] = _extending(written, in_a_file)
    completed: Node = {"required": ["variants"]}
    choice = layers.either(
        {"required": ["extends"], "properties": {"extends": {"not": {"type": "null"}}}},
        layers.requiring("ExtendingRecipe", ("name",)),
        layers.either(
            completed, layers.requiring("RecipeWithVariants", ("schema", "name")), ref("Recipe")
        ),
    )
    return _file(RECIPE_ID, "Recipe of dlcontainer", choice, definitions)


def _extending(written: Node, in_a_file: Node) -> Node:
    """Return the schema of a recipe over another: no key that is the other's, and exceptions."""
    exception = layers.either({"required": ["file"]}, in_a_file, ref("VariantException"))
    variants: Node = {
        "type": "object",
        "additionalProperties": exception,
        "description": "exceptions for variants of the recipe that it extends",
    }
    kept = layers.kept(written, lambda key: key not in OF_LOWER)
    proof = {"anyOf": [ref("OwnVerify"), {"type": "null"}], **_shown(Recipe, "verify")}
    return layers.with_properties(kept, {"variants": variants, "verify": proof})


# What no layer but the file itself can say.
_OWN = ("schema", "name")
# Definitions of what no template is filled in: of a base, and of a variant's needs.
_NO_TEMPLATES = ("Base", "System", "Variant", "Needs")


def _definitions(model: type[BaseModel]) -> dict[str, Node]:
    """Return the definitions of a model and of all in it, each by its name."""
    schema: Node = model.model_json_schema()
    inner: dict[str, Node] = schema.pop("$defs", {})
    definitions = {**inner, model.__name__: schema}
    if model is not Recipe:
        return definitions
    return {
        name: node if name in _NO_TEMPLATES else layers.or_template(node)
        for name, node in definitions.items()
    }


def _with_changes(node: Node, name: str) -> Node:
    changes = {"allOf": [ref(name)], "minProperties": 1, **_titled(node, "changes")}
    return layers.with_properties(node, {"changes": changes})


def _titled(node: Node, key: str) -> Node:
    return {keyword: node["properties"][key][keyword] for keyword in ("title", "description")
            if keyword in node["properties"][key]}  # fmt: skip


def _shown(model: type[BaseModel], key: str) -> Node:
    description = model.model_fields[key].description
    return {"description": description} if description else {}


def _file(identifier: str, title: str, choice: Node, definitions: dict[str, Node]) -> Node:
    top: dict[str, Any] = {"$schema": DIALECT, "$id": identifier, "title": title, "type": "object"}
    return {**top, **choice, "$defs": dict(sorted(_used(choice, definitions).items()))}


def _used(choice: Node, definitions: dict[str, Node]) -> dict[str, Node]:
    """Keep the definitions that are referred to."""
    used: dict[str, Node] = {}
    todo = list(_references(choice))
    while todo:
        name = todo.pop()
        if name not in used:
            used[name] = definitions[name]
            todo += _references(definitions[name])
    return used


def _references(node: object) -> list[str]:
    if isinstance(node, list):
        return [name for child in node for name in _references(child)]
    if not isinstance(node, dict):
        return []
    direct = [str(node["$ref"]).rpartition("/")[2]] if "$ref" in node else []
    return direct + [name for value in node.values() for name in _references(value)]
