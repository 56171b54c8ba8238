"""A schema of a whole file to one of a layer, as `config.merge` reads it. Pure.

A layer holds some keys of each mapping, null takes a key away, and lists are written whole.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

# JSON, which has no narrower type that is of use here.
Node = dict[str, Any]

_PREFIX = "#/$defs/"
_NULL: Node = {"type": "null"}
# What an editor shows of a key; it stays beside the choice with null.
_SHOWN = ("title", "description", "default")


def ref(name: str) -> Node:
    """Refer to a definition."""
    return {"$ref": f"{_PREFIX}{name}"}


def layer(name: str) -> str:
    """Name the definition of a layer of another one."""
    return f"{name}Layer"


def with_layers(definitions: Mapping[str, Node]) -> dict[str, Node]:
    """Add to definitions those of a layer of each."""
    return {
        **definitions,
        **{layer(name): _layer(node) for name, node in definitions.items()},
    }


def _layer(node: Node) -> Node:
    if "$ref" in node:
        return {**node, **ref(layer(node["$ref"].removeprefix(_PREFIX)))}
    changed = {key: value for key, value in node.items() if key != "required"}
    if "properties" in node:
        changed["properties"] = {
            key: _or_null(_layer(value)) for key, value in node["properties"].items()
        }
    if isinstance(node.get("additionalProperties"), dict):
        changed["additionalProperties"] = _or_null(_layer(node["additionalProperties"]))
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in node:
            changed[choice] = [_layer(alternative) for alternative in node[choice]]
    return changed


def _or_null(node: Node) -> Node:
    if _NULL in node.get("anyOf", ()):
        return node
    shown = {key: node[key] for key in _SHOWN if key in node}
    rest = {key: value for key, value in node.items() if key not in _SHOWN}
    return {"anyOf": [rest, _NULL], **shown}


def kept(node: Node, keys: Callable[[str], bool]) -> Node:
    """Keep of an object's keys those for which `keys` holds."""
    properties = {key: value for key, value in node["properties"].items() if keys(key)}
    required = [key for key in node.get("required", ()) if keys(key)]
    return {**node, "properties": properties, **({"required": required} if required else {})}


def with_properties(node: Node, properties: Mapping[str, Node]) -> Node:
    """Replace, or add, keys of an object."""
    return {**node, "properties": {**node["properties"], **properties}}


def requiring(name: str, keys: Iterable[str]) -> Node:
    """Refer to a definition, and ask for some of its keys."""
    # In `allOf`: readers of older drafts take nothing beside a `$ref`.
    return {"allOf": [ref(name), {"required": list(keys)}]}


def either(condition: Node, then: Node, otherwise: Node) -> Node:
    """Choose by a condition."""
    return {"if": condition, "then": then, "else": otherwise}


def or_template(node: Any) -> Any:
    """Let a text with a template stand for each word of a closed list."""
    if isinstance(node, list):
        return [or_template(element) for element in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") == "string" and ("enum" in node or "const" in node):
        shown = {key: node[key] for key in _SHOWN if key in node}
        rest = {key: value for key, value in node.items() if key not in _SHOWN}
        return {"anyOf": [rest, {"type": "string", "pattern": r"\{[{%]"}], **shown}
    return {key: or_template(value) for key, value in node.items()}
