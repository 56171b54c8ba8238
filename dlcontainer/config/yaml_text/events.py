"""YAML events to plain data, without recursion and within limits."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn

import yaml

from dlcontainer.config.document import MAX_DEPTH, KeyPath, ValueOrigin
from dlcontainer.config.yaml_text.scalars import OLD_BOOLEANS, kind, refused_in_value, resolve
from dlcontainer.errors import ConfigError, Mark

MAX_VALUES = 50_000
MAX_KEY = 1024
CORE = "tag:yaml.org,2002:"
CORE_KINDS: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "bool": (bool,),
    "int": (int,),
    "float": (float,),
}


@dataclass(kw_only=True, slots=True)
class _Open:
    """A mapping or list whose end has not come yet."""

    value: dict[str, object] | list[object]
    path: KeyPath
    key: str | None = None


@dataclass(kw_only=True, slots=True)
class ValueBuilder:
    """Builds one value from events; `origins` fills up beside it."""

    layer: str
    display: str
    value: object = None
    origins: dict[KeyPath, ValueOrigin] = field(default_factory=dict)
    _open: list[_Open] = field(default_factory=list)
    _documents: int = 0

    def grow(self, events: Iterator[yaml.Event]) -> None:
        """Take all events of a stream."""
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._documents += 1
                if self._documents > 1:
                    self._refuse(
                        event, "a second document starts here: a file must hold one document"
                    )
            elif isinstance(event, yaml.CollectionEndEvent):
                self._open.pop()
            elif isinstance(event, yaml.NodeEvent):
                self._take(event)

    def _take(self, event: yaml.NodeEvent) -> None:
        self._refuse_anchors(event)
        parent = self._open[-1] if self._open else None
        if parent is not None and isinstance(parent.value, dict) and parent.key is None:
            parent.key = self._key(event, parent)
            return
        path = self._path(parent)
        if len(self.origins) > MAX_VALUES:
            self._refuse(event, f"more than {MAX_VALUES} values")
        if isinstance(event, yaml.ScalarEvent):
            value: object = self._scalar(event)
            written = event.value if not isinstance(value, str) else None
        elif isinstance(event, yaml.CollectionStartEvent):
            value, written = self._collection(event, path), None
        else:  # an alias: refused above
            return
        # The key's place stands already, unless this is a list's item or the top.
        place = self.origins[path].mark if path in self.origins else self._mark(event)
        self.origins[path] = ValueOrigin(layer=self.layer, mark=place, written=written)
        self._attach(parent, value)

    def _collection(
        self, event: yaml.CollectionStartEvent, path: KeyPath
    ) -> dict[str, object] | list[object]:
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, CORE + ("map" if is_mapping else "seq")):
            self._refuse_tag(event)
        if len(self._open) >= MAX_DEPTH:
            self._refuse(event, f"nested more than {MAX_DEPTH} levels deep")
        value: dict[str, object] | list[object] = {} if is_mapping else []
        self._open.append(_Open(value=value, path=path))
        return value

    def _attach(self, parent: _Open | None, value: object) -> None:
        if parent is None:
            self.value = value
        elif isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is not None:
            parent.value[parent.key] = value
            parent.key = None

    def _key(self, event: yaml.NodeEvent, parent: _Open) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            what = "a mapping" if isinstance(event, yaml.MappingStartEvent) else "a list"
            self._refuse(event, f"a key must be text, not {what}")
        word = event.value
        if event.implicit[0] and word == "<<":
            self._refuse(event, "merge keys (<<) are not supported: write the keys out")
        key = self._scalar(event)
        if not isinstance(key, str) or (event.implicit[0] and word in OLD_BOOLEANS):
            got = "true or false" if isinstance(key, str) else kind(key)
            self._refuse(event, f'a key must be text, and this is {got}; quote it: "{word}"')
        if len(key) > MAX_KEY:
            self._refuse(event, f"a key has more than {MAX_KEY} characters")
        path = (*parent.path, key)
        before = self.origins.get(path)
        if before is not None and before.mark is not None:
            self._refuse(event, f"duplicate key '{key}': on line {before.mark.line} and here")
        self.origins[path] = ValueOrigin(layer=self.layer, mark=self._mark(event))
        return key

    def _scalar(self, event: yaml.ScalarEvent) -> str | int | float | bool | None:
        refused = refused_in_value(event.value)
        if refused:
            self._refuse(event, f"character U+{ord(refused[0]):04X} is not allowed in a value")
        if event.tag is None:
            return resolve(event.value) if event.implicit[0] else str(event.value)
        if event.tag == CORE + "str":
            return str(event.value)
        value = resolve(event.value)
        if type(value) not in CORE_KINDS.get(event.tag.removeprefix(CORE), ()):
            self._refuse_tag(event)
        return value

    def _path(self, parent: _Open | None) -> KeyPath:
        if parent is None:
            return ()
        if isinstance(parent.value, list):
            return (*parent.path, len(parent.value))
        return parent.path if parent.key is None else (*parent.path, parent.key)

    def _refuse_anchors(self, event: yaml.NodeEvent) -> None:
        if isinstance(event, yaml.AliasEvent):
            self._refuse(event, f"aliases (*{event.anchor}) are not supported: write the value out")
        if event.anchor is not None:
            self._refuse(event, f"anchors (&{event.anchor}) are not supported: write the value out")

    def _refuse_tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> NoReturn:
        tag = str(event.tag).replace(CORE, "!!")
        self._refuse(event, f"tag {tag} is not supported: write plain values")

    def _refuse(self, event: yaml.Event, what: str) -> NoReturn:
        raise ConfigError(what, where=self._mark(event))

    def _mark(self, event: yaml.Event) -> Mark:
        mark = event.start_mark
        line, column = (mark.line, mark.column) if mark else (0, 0)
        return Mark(file=self.display, line=line + 1, column=column + 1)
