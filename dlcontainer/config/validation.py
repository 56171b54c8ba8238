"""A document against a model: every error at once, each with its place."""

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from dlcontainer.config.document import Document, KeyPath, dotted
from dlcontainer.config.field_types import UnfitError
from dlcontainer.config.messages import LONGEST_KEY, LONGEST_SAYING, ErrorText, discriminator, say
from dlcontainer.config.schema_paths import SchemaPath
from dlcontainer.config.suggestions import cut
from dlcontainer.errors import ConfigError, Mark

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

    M = TypeVar("M", bound=BaseModel)
else:
    M = TypeVar("M")


MOST_SHOWN = 50


class ValidationIssue(NamedTuple):
    """One error: the path it is about, which may be of a missing key, and the words."""

    path: KeyPath
    saying: ErrorText


def validate(document: Document, model: type[M]) -> M:
    """Return the model that a document fills, or raise one ConfigError with a line an error."""
    import json

    from pydantic import ValidationError

    try:
        # As JSON, because strict models take lists for tuples and text for enums only from there.
        return model.model_validate_json(json.dumps(document.data))
    except ValidationError as error:
        details = error.errors(include_url=False)
        typed = _as_typed(document, details)
        if typed is not None:
            return validate(typed, model)
        findings = [_finding(document, model, detail) for detail in _own(details)]
        text = "\n".join(_lines(document, _telling(findings)))
        raise ConfigError(text, next_step=_next_step(details)) from error


def _own(details: "list[ErrorDetails]") -> "list[ErrorDetails]":
    """Leave out that a list is too short where one of its items was refused.

    Of a refused item nothing is counted: the list only looks too short.
    """
    refused = {detail["loc"][:end] for detail in details for end in range(len(detail["loc"]))}
    return [
        detail
        for detail in details
        if detail["type"] != "too_short" or detail["loc"] not in refused
    ]


def _next_step(details: "list[ErrorDetails]") -> str | None:
    """Return what to do instead, where a type of ours says it."""
    errors = (detail.get("ctx", {}).get("error") for detail in details)
    return next((error.next_step for error in errors if isinstance(error, UnfitError)), None)


def _as_typed(document: Document, details: "list[ErrorDetails]") -> Document | None:
    # On a command line quotes are the shell's: `--set environment.A=4` gives a number where a text
    # is wanted, and means the text that was typed. None where nothing is to be changed so.
    texts: dict[KeyPath, str] = {}
    for detail in details:
        origin = document.origins.get(detail["loc"])
        if detail["type"] == "string_type" and origin and origin.setting and origin.written:
            texts[detail["loc"]] = origin.written
    if not texts:
        return None
    return Document(data=_replaced(document.data, texts), origins=document.origins)


def _replaced(value: Any, texts: dict[KeyPath, str], path: KeyPath = ()) -> Any:
    if path in texts:
        return texts[path]
    if isinstance(value, dict):
        return {key: _replaced(inner, texts, (*path, key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, texts, (*path, at)) for at, inner in enumerate(value)]
    return value


def _finding(document: Document, model: type[M], detail: "ErrorDetails") -> ValidationIssue:
    shape = SchemaPath.of(model, document.data)
    parent = shape
    for part in detail["loc"]:
        step = shape.step(part)
        parent = shape if step.path != shape.path else parent
        shape = step
    key = discriminator(detail)
    written = document.origins[shape.path].written if shape.path in document.origins else None
    return ValidationIssue(
        path=shape.path if key is None else (*shape.path, key),
        saying=say(detail, shape, parent, written),
    )


def _telling(findings: list[ValidationIssue]) -> list[ValidationIssue]:
    """Make one finding of what a union's members say of the same value.

    Where one member understood the value and complains of something in it, the others, which
    wanted another kind of value altogether, are left out.
    """
    understood = {finding.path[:end] for finding in findings for end in range(len(finding.path))}
    kinds: dict[KeyPath, list[str]] = {}
    telling: dict[tuple[KeyPath, str | None], ValidationIssue] = {}
    for finding in findings:
        path, wants = finding.path, finding.saying.expected
        if wants is None:
            telling.setdefault((path, finding.saying.text), finding)
        elif path not in understood:
            kinds.setdefault(path, []).append(wants)
            saying = finding.saying.with_wanted(kinds[path])
            telling[path, None] = ValidationIssue(path=path, saying=saying)
    return list(telling.values())


def _lines(document: Document, findings: list[ValidationIssue]) -> list[str]:
    lines: list[tuple[tuple[str, int, int], str]] = []
    for finding in findings:
        where = document.origin(finding.path).where
        path = tuple(
            cut(part, LONGEST_KEY) if isinstance(part, str) else part for part in finding.path
        )
        name = f"{dotted(path)}: " if path else ""
        text = " ".join(f"{where}: {name}{cut(str(finding.saying), LONGEST_SAYING)}".split())
        order = (where.file, where.line, where.column) if isinstance(where, Mark) else ("~", 0, 0)
        lines.append((order, text))
    texts = [text for _, text in sorted(lines, key=lambda line: line[0])]
    more = [f"… and {len(texts) - MOST_SHOWN} more"] if len(texts) > MOST_SHOWN else []
    return texts[:MOST_SHOWN] + more
