"""What pydantic says, in words for the person who wrote the YAML."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_origin

from dlcontainer.config.schema_paths import SchemaPath, bare, choices, fields_of, literals
from dlcontainer.config.suggestions import suggest
from dlcontainer.config.yaml_text.scalars import kind

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

LONGEST_SHOWN = 60
LONGEST_KEY = 200
# What our own validators say of a value, some 200 characters of which help to find it.
LONGEST_SAYING = 400

# pydantic's error types of "not this kind of value", and what was wanted.
WANTED = {
    "string_type": "text",
    "string_sub_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dataclass_type": "a mapping",
    "none_required": "nothing",
    "path_type": "text",
}
KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorText:
    """One error in words; `expected` where it is about the kind of value, got what came instead."""

    text: str = ""
    expected: str | None = None
    got: object = None
    written: str | None = None

    def with_wanted(self, kinds: list[str]) -> "ErrorText":
        """Return the error with all the kinds that one value may have."""
        return replace(self, expected=" or ".join(dict.fromkeys(kinds)))

    def __str__(self) -> str:
        if self.expected is None:
            return self.text
        return f"expected {self.expected}, got {self._got()}"

    def _got(self) -> str:
        got, wants_text = self.got, "text" in (self.expected or "").split(" or ")
        if isinstance(got, str):
            bare_number = re.fullmatch(r"[-+]?[0-9.]+|true|false", got) and not wants_text
            return f"text ({shown(got)})" + (": remove the quotes" if bare_number else "")
        if got is None or isinstance(got, list | dict):
            return kind(got)
        typed = self.written or str(got).lower()
        label = typed if isinstance(got, bool) else f"a number ({typed})"
        return f'{label}: quote it: "{typed}"' if wants_text else label


def say(
    detail: "ErrorDetails", shape: SchemaPath, parent: SchemaPath, written: str | None
) -> ErrorText:
    """Put one error of pydantic's into words."""
    error = detail["type"]
    if error in WANTED:
        return ErrorText(expected=WANTED[error], got=detail["input"], written=written)
    if error in SPEECH:
        return ErrorText(text=SPEECH[error](detail, shape, parent))
    text = detail["msg"]
    for theirs, ours in (("Input should be ", "must be "), (" after validation", "")):
        text = text.replace(theirs, ours)
    got = "" if isinstance(detail["input"], dict | list) else f", got {shown(detail['input'])}"
    return ErrorText(text=text[:1].lower() + text[1:] + got)


def shown(value: object) -> str:
    """Write a value for a message, cut when it is long."""
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _missing(_detail: "ErrorDetails", shape: SchemaPath, _parent: SchemaPath) -> str:
    kinds = " or ".join(dict.fromkeys(filter(None, map(_described, choices(shape.expected)))))
    return f"missing; expected {kinds}" if kinds else "missing; it must be given"


def _described(expected: Any) -> str:
    expected = bare(expected)
    if allowed := literals(expected):
        return _one_of(allowed)
    if fields_of(expected):
        return "a mapping"
    origin = get_origin(expected) or expected
    if not isinstance(origin, type):
        return ""
    if origin in KINDS:
        return KINDS[origin]
    if issubclass(origin, Mapping):
        return "a mapping"
    return "a list" if issubclass(origin, list | tuple | set | frozenset) else "text"


def _unknown_key(_detail: "ErrorDetails", shape: SchemaPath, parent: SchemaPath) -> str:
    return f"unknown key{suggest(str(shape.path[-1]), parent.fields())}"


def _not_one_of(detail: "ErrorDetails", shape: SchemaPath, _parent: SchemaPath) -> str:
    allowed = [value for member in choices(shape.expected) for value in literals(member)]
    expectation = (
        _one_of(allowed) if allowed else str(detail["ctx"].get("expected", "another value"))
    )
    got = detail["input"]
    return f"expected {expectation}, got {_kind_or_value(got)}{_near(got, allowed)}"


def _wrong_tag(detail: "ErrorDetails", _shape: SchemaPath, _parent: SchemaPath) -> str:
    allowed = re.findall(r"'([^']*)'", str(detail["ctx"]["expected_tags"]))
    tag = str(detail["ctx"]["tag"])
    return f"expected {_one_of(allowed)}, got {shown(tag)}{_near(tag, allowed)}"


def _no_tag(detail: "ErrorDetails", shape: SchemaPath, _parent: SchemaPath) -> str:
    key = discriminator(detail) or ""
    types = [fields_of(bare(member)).get(key) for member in choices(shape.expected)]
    allowed = [value for expected in types for value in literals(expected)]
    return "missing" + (f"; expected {_one_of(allowed)}" if allowed else "")


def discriminator(detail: "ErrorDetails") -> str | None:
    """Name the key that tells a union's members apart, when the error is about that."""
    match = re.fullmatch(r"'(.*)'", str(detail.get("ctx", {}).get("discriminator")))
    return match[1] if match else None


def _own_words(detail: "ErrorDetails", _shape: SchemaPath, _parent: SchemaPath) -> str:
    return str(detail["ctx"].get("error", "not valid"))


def _pattern(detail: "ErrorDetails", _shape: SchemaPath, _parent: SchemaPath) -> str:
    label = "the key " if detail["loc"][-1:] == ("[key]",) else ""
    return f"{label}{shown(detail['input'])} does not match {detail['ctx']['pattern']}"


def _one_of(allowed: list[Any]) -> str:
    return "one of: " + ", ".join(f"'{a}'" if isinstance(a, str) else str(a) for a in allowed)


def _near(value: object, allowed: list[Any]) -> str:
    near = suggest(str(value), [str(choice) for choice in allowed])
    return near if "did you mean" in near else ""


def _kind_or_value(value: object) -> str:
    return kind(value) if isinstance(value, list | dict | None) else shown(value)


def _too_short(detail: "ErrorDetails", _shape: SchemaPath, _parent: SchemaPath) -> str:
    what = "an empty mapping" if isinstance(detail["input"], dict) else "an empty list"
    least = detail["ctx"]["min_length"]
    return f"{what}: it needs at least {least} {'entry' if least == 1 else 'entries'}"


SPEECH: dict[str, Callable[["ErrorDetails", SchemaPath, SchemaPath], str]] = {
    "missing": _missing,
    "extra_forbidden": _unknown_key,
    "literal_error": _not_one_of,
    "enum": _not_one_of,
    "union_tag_invalid": _wrong_tag,
    "union_tag_not_found": _no_tag,
    "value_error": _own_words,
    "assertion_error": _own_words,
    "string_pattern_mismatch": _pattern,
    "too_short": _too_short,
}
