"""Where a pydantic error's location leads: the path in the document, the type expected there."""

import re
import types
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from dlcontainer.config.document import KeyPath

NOTHING = object()
# A union's member behind a validator is called `function-after[check(), str]` in a location.
WRAPPED = re.compile(r"function-[a-z]+\[.*?\(\), (.*)\]")


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaPath:
    """A path in a document, the value there (or NOTHING) and the type expected of it (or None)."""

    path: KeyPath
    value: object
    expected: Any

    @classmethod
    def of(cls, expected: Any, value: object) -> "SchemaPath":
        """Start at the top."""
        return cls(path=(), value=value, expected=expected)

    def step(self, part: str | int) -> "SchemaPath":
        """Follow one part of a location; a union's tag or a note (`[key]`) leads nowhere."""
        members = choices(self.expected)
        if len(members) > 1:
            chosen = [member for member in members if _is_called(member, part)]
            expected = Union[tuple(chosen)] if chosen else self.expected  # noqa: UP007
            return SchemaPath(path=self.path, value=self.value, expected=expected)
        inside = _value_inside(self.value, part)
        is_field = bool(members) and part in fields_of(members[0])
        if inside is NOTHING and not is_field:
            return self
        expected = _type_inside(members[0], part) if members else None
        return SchemaPath(path=(*self.path, part), value=inside, expected=expected)

    def fields(self) -> list[str]:
        """List the keys that are allowed here, when what is here is a model."""
        return sorted({key for member in choices(self.expected) for key in fields_of(member)})


def choices(expected: Any) -> list[Any]:
    """List what a type may be: the members of a union, else itself; None is left out."""
    expected = bare(expected)
    if expected is None or expected is type(None):
        return []
    if get_origin(expected) in (Union, types.UnionType):
        return [choice for member in get_args(expected) for choice in _choice(member)]
    return [expected]


def _choice(member: Any) -> list[Any]:
    # A Tag() stands on the member itself: it is kept unless there are members in it.
    inner = choices(member)
    return inner if len(inner) != 1 else [member]


def bare(expected: Any) -> Any:
    """Strip names and annotations from a type."""
    while True:
        if get_origin(expected) is Annotated:
            expected = get_args(expected)[0]
        elif hasattr(expected, "__value__"):
            expected = expected.__value__
        elif hasattr(expected, "__supertype__"):
            expected = expected.__supertype__
        elif getattr(expected, "__pydantic_root_model__", False):
            expected = fields_of(expected).get("root")
        else:
            return expected


def fields_of(model: Any) -> dict[str, Any]:
    """Map the keys of a model, as typed in a document, to their types."""
    fields = getattr(model, "model_fields", {})
    return {field.alias or name: field.annotation for name, field in fields.items()}


def _is_called(member: Any, part: str | int) -> bool:
    """Return whether a location means this member of a union: by tag or by its type's name."""
    tags = [note.tag for note in get_args(member)[1:] if hasattr(note, "tag")]
    if part in tags:
        return True
    member = bare(member)
    if any(part in literals(annotation) for annotation in fields_of(member).values()):
        return True
    name = str(part)
    while match := WRAPPED.fullmatch(name):
        name = match[1]
    name = name.removeprefix("constrained-").partition("[")[0]
    return name == getattr(get_origin(member) or member, "__name__", None)


def literals(expected: Any) -> list[object]:
    """List the values that a Literal or an Enum allows."""
    expected = bare(expected)
    if get_origin(expected) is Literal:
        return list(get_args(expected))
    if isinstance(expected, type) and issubclass(expected, Enum):
        return [member.value for member in expected]
    return []


def _value_inside(value: object, part: str | int) -> object:
    if isinstance(value, dict):
        return value.get(part, NOTHING)
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return value[part]
    return NOTHING


def _type_inside(expected: Any, part: str | int) -> Any:
    expected = bare(expected)
    fields = fields_of(expected)
    if fields:
        return fields.get(str(part))
    arguments = get_args(expected)
    origin = get_origin(expected)
    if not arguments or not isinstance(origin, type):
        return None
    if issubclass(origin, Mapping):
        return arguments[1]
    if issubclass(origin, tuple) and arguments[-1] is not Ellipsis:
        return arguments[part] if isinstance(part, int) and part < len(arguments) else None
    return arguments[0]
