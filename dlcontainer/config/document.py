"""Plain data in which every value knows where it comes from."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dlcontainer.errors import Mark

KeyPath = tuple[str | int, ...]

MAX_DEPTH = 50
PLAIN_KEY = re.compile(r"[A-Za-z0-9_/:+@-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueOrigin:
    """Which layer a value comes from and where it stands there.

    `written` is the text of a number, boolean or null as typed (`1.10`, which is 1.1 by then);
    `setting` is the KEY of a `--set KEY=VALUE`, which has no mark.
    """

    layer: str
    mark: Mark | None
    written: str | None = None
    setting: str | None = None

    def __str__(self) -> str:
        return f"{self.layer} ({self.mark.file}:{self.mark.line})" if self.mark else self.layer

    @property
    def where(self) -> Mark | str:
        """The place to name in an error."""
        if self.mark is not None:
            return self.mark
        return f"{self.layer} {self.setting}=…" if self.setting else self.layer


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A mapping of plain data, with an origin for it (`()`) and for each path in it.

    The origin of a mapping's entry is where its key stands; of a list's item, where that stands.
    """

    data: dict[str, object]
    origins: Mapping[KeyPath, ValueOrigin]

    def origin(self, path: KeyPath) -> ValueOrigin:
        """Return the origin of a path, or of the nearest thing around it that has one."""
        while path and path not in self.origins:
            path = path[:-1]
        return self.origins.get(path, ValueOrigin(layer="defaults", mark=None))


def dotted(path: KeyPath) -> str:
    """Write a path the way `--set` reads it: `environment."A.B"`; list items as `steps[0]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        key = part if PLAIN_KEY.fullmatch(part) else json.dumps(part, ensure_ascii=False)
        text += f".{key}" if text else key
    return text


def flatten(document: Document) -> list[tuple[str, object, ValueOrigin]]:
    """List each value that holds no others (an empty list or mapping too) with its origin."""
    return [
        (dotted(path), value, document.origin(path))
        for path, value in walk(document.data)
        if path and (not isinstance(value, dict | list) or not value)
    ]


def walk(value: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    """Yield a value and everything below it, each with its path, in the order written."""
    yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from walk(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from walk(inner, (*path, index))
