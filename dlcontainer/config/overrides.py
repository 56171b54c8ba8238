"""`--set KEY=VALUE` to a document."""

import json
import re
from collections.abc import Sequence

from dlcontainer.config.document import MAX_DEPTH, Document, KeyPath, ValueOrigin, dotted, walk
from dlcontainer.config.yaml_text.scalars import refused_in_value, resolve
from dlcontainer.config.yaml_text.yaml_files import parse_value
from dlcontainer.errors import ConfigError, UsageError

PART = re.compile(r'"(?:[^"\\]|\\.)*"|[^."=\s\[\]]+')
KEY = re.compile(rf"((?:{PART.pattern})(?:\.(?:{PART.pattern}))*)=")


def from_settings(settings: Sequence[str], *, layer: str = "--set") -> Document:
    """Read settings: KEY is a dotted path, VALUE a YAML scalar or a flow list.

    The last of two equal KEYs wins; `null` removes the key when merged.
    """
    data: dict[str, object] = {}
    origins: dict[KeyPath, ValueOrigin] = {(): ValueOrigin(layer=layer, mark=None)}
    for setting in settings:
        _refuse_characters(setting, layer)
        where = f"{layer} {setting}"
        path, word = _split(setting, where)
        value, written = _value(word, where)
        _put(data, path, value, where=where)
        for path_below in [path[:end] for end in range(1, len(path))]:
            origins.setdefault(
                path_below, ValueOrigin(layer=layer, mark=None, setting=dotted(path))
            )
        for stale in [place for place in origins if place[: len(path)] == path]:
            del origins[stale]
        for inner, _ in walk(value, path):
            origins[inner] = ValueOrigin(
                layer=layer,
                mark=None,
                written=written.get(inner[len(path) :]),
                setting=dotted(path),
            )
    return Document(data=data, origins=origins)


def _split(setting: str, where: str) -> tuple[KeyPath, str]:
    """Split a setting into the path of its key and the text of its value."""
    match = KEY.match(setting)
    if match is None:
        step = 'quote keys that have other characters: environment."A.B"=1'
        raise UsageError(
            "expected KEY=VALUE; KEY is one or more words with dots between them",
            where=where,
            next_step=step,
        )
    path = tuple(_unquote(part, where) for part in PART.findall(match[1]))
    if len(path) > MAX_DEPTH:
        raise UsageError(f"nested more than {MAX_DEPTH} levels deep", where=where)
    return path, setting[match.end() :]


def _unquote(part: str, where: str) -> str:
    if not part.startswith('"'):
        return part
    try:
        key = str(json.loads(part))
    except ValueError as error:
        raise UsageError(f"{part} is not a quoted key", where=where) from error
    _refuse_characters(key, where)
    return key


def _refuse_characters(text: str, where: str) -> None:
    refused = refused_in_value(text)
    if refused:
        raise UsageError(
            f"character U+{ord(refused[0]):04X} is not allowed in a setting", where=where
        )


def _value(word: str, where: str) -> tuple[object, dict[KeyPath, str | None]]:
    """Read a VALUE; with it, the numbers in it as they were written."""
    word = word.strip()
    if not word:
        step = 'write null to remove the key, "" for an empty text'
        raise UsageError("no VALUE after '='", where=where, next_step=step)
    if word[0] in "{&*!":
        step = (
            "set each key of a mapping with its own --set; quote a text that starts with this "
            "character"
        )
        raise UsageError("VALUE must be a scalar or a [list]", where=where, next_step=step)
    if word[0] not in "[\"'":
        # No YAML here: `>=2.1`, `a: b` and `x # y` are texts on a command line.
        value: object = resolve(word)
        return value, {(): None if isinstance(value, str) else word}
    try:
        value, origins = parse_value(word, layer=where, display=where)
    except ConfigError as error:
        raise UsageError(f"VALUE: {error.what}", where=where, why=error.why) from error
    if isinstance(value, dict):
        raise UsageError("VALUE must be a scalar or a [list], not a mapping", where=where)
    return value, {path: origin.written for path, origin in origins.items()}


def _put(data: dict[str, object], path: KeyPath, value: object, *, where: str) -> None:
    for position, key in enumerate(path[:-1]):
        inner = data.setdefault(str(key), {})
        if not isinstance(inner, dict):
            raise UsageError(
                f"an earlier --set already replaced all of {dotted(path[: position + 1])}",
                where=where,
            )
        data = inner
    last = str(path[-1])
    if isinstance(data.get(last), dict):
        raise UsageError(f"an earlier --set already set keys below {dotted(path)}", where=where)
    data[last] = value
