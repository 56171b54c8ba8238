"""TOML with the place of each value: Python's reader has none.

A second, lax pass over the text notes where each key path stands; what is wrong with the text is
the first reader's to say. Source: toml.io, TOML 1.0.0.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dlcontainer.authoring.readers.source_text import SourceText
from dlcontainer.config.document import KeyPath
from dlcontainer.errors import ConfigError, Mark

_DEEPEST, _MOST_DOTS = 50, 50
_TOKEN = re.compile(
    r"""
    (?P<blank> [ \t\r]+ | \#[^\n]* )
  | (?P<newline> \n )
  | (?P<long> \"{3} (?: \\. | [^\\] )*? \"{3,5} | '{3} .*? '{3,5} )
  | (?P<endless> \"{3} | '{3} )
  | (?P<string> " (?: \\. | [^"\\\n] )* " | ' [^'\n]* ' )
  | (?P<open> ["'] )
  | (?P<sign> [\[\]{}=,.] )
  | (?P<bare> [^\s\[\]{}=,.#"']+ )
  | (?P<odd> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_AT = re.compile(r" \(at line (\d+), column (\d+)\)$|  ?\(at end of document\)$")


class TomlToken(NamedTuple):
    """A word of the text, and where it stands."""

    kind: str
    text: str
    offset: int


END = TomlToken("end", "", 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class TomlText:
    """The data of a file, and the places of its values."""

    source: SourceText
    data: dict[str, Any]
    offsets: Mapping[KeyPath, int]

    def mark(self, path: KeyPath) -> Mark:
        """Return the place of a value, or of the nearest thing around it."""
        while path and path not in self.offsets:
            path = path[:-1]
        return self.source.mark(self.offsets.get(path, 0))

    def origin(self, path: KeyPath) -> str:
        """Return the place as `file:line`."""
        mark = self.mark(path)
        return f"{mark.file}:{mark.line}"


def read(source: SourceText) -> TomlText:
    """Read TOML; raises ConfigError for what is none, and for what nests too deeply."""
    places = _Places(source)
    places.run()
    try:
        data = tomllib.loads(source.text)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
        at = _AT.search(reason)
        where: Mark | str = source.display
        if at and at[1]:
            where = Mark(file=source.display, line=int(at[1]), column=int(at[2]))
        raise ConfigError(
            f"not valid TOML: {_AT.sub('', reason)}", where=where, next_step="correct the line"
        ) from error
    return TomlText(source=source, data=data, offsets=places.offsets)


class _Places:
    """Walks over the words of a text; stops where they are no TOML."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.offsets: dict[KeyPath, int] = {}
        self.arrays: dict[KeyPath, int] = {}
        self.words = self._tokens()
        self.token = END
        self.advance()

    def _tokens(self) -> Iterator[TomlToken]:
        text = self.source.text
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup or "odd"
            if kind in ("open", "endless"):
                return  # a string without an end: nothing after it can be told
            if kind != "blank":
                yield TomlToken("string" if kind == "long" else kind, match[0], match.start())

    def advance(self) -> TomlToken:
        """Return the word here, and go on to the next."""
        before, self.token = self.token, next(self.words, END)
        return before

    def run(self) -> None:
        """Note the places of all values."""
        table: KeyPath = ()
        while self.token is not END:
            if self.token.kind == "newline":
                self.advance()
            elif self.token.text == "[" and self.token.kind == "sign":
                table = self._header()
            elif not self._pair(table, depth=0):
                self.advance()

    def _header(self) -> KeyPath:
        offset = self.advance().offset
        is_array = self.token.text == "["
        if is_array:
            self.advance()
        keys = self._key()
        path: KeyPath = ()
        for at, key in enumerate(keys):
            path = (*path, key)
            self.offsets.setdefault(path, offset)
            if is_array and at == len(keys) - 1:
                self.arrays[path] = self.arrays.get(path, -1) + 1
            if path in self.arrays:
                path = (*path, self.arrays[path])
        self.offsets.setdefault(path, offset)
        while self.token.text == "]":
            self.advance()
        return path

    def _key(self) -> list[str]:
        parts: list[str] = []
        while self.token.kind in ("bare", "string"):
            word = self.advance()
            parts.append(word.text if word.kind == "bare" else _unquoted(word.text))
            if len(parts) > _MOST_DOTS:
                self._refuse(word, f"a key of more than {_MOST_DOTS} parts")
            if self.token.text != "." or self.token.kind != "sign":
                break
            self.advance()
        return parts

    def _pair(self, table: KeyPath, depth: int) -> bool:
        """Take `key = value`; return whether there was one."""
        offset, keys = self.token.offset, self._key()
        if not keys or self.token.text != "=":
            return bool(keys)
        self.advance()
        path = (*table, *keys)
        for end in range(len(table) + 1, len(path)):
            self.offsets.setdefault(path[:end], offset)
        self.offsets[path] = offset
        self._value(path, depth)
        return True

    def _value(self, path: KeyPath, depth: int) -> None:
        word = self.token
        if depth > _DEEPEST:
            self._refuse(word, f"nested more than {_DEEPEST} levels deep")
        if word.kind != "sign" or word.text not in "[{":
            while self.token.kind in ("bare", "string") or self.token.text == ".":
                self.advance()
            return
        self.advance()
        index, end = 0, "]" if word.text == "[" else "}"
        while self.token is not END and self.token.text != end:
            if self.token.kind == "newline" or self.token.text == ",":
                self.advance()
            elif end == "}":
                if not self._pair(path, depth + 1):
                    self.advance()
            else:
                self.offsets[*path, index] = self.token.offset
                before = self.token
                self._value((*path, index), depth + 1)
                index += 1
                if self.token is before:
                    self.advance()
        self.advance()

    def _refuse(self, word: TomlToken, what: str) -> None:
        raise ConfigError(what, where=self.source.mark(word.offset))


def _unquoted(text: str) -> str:
    try:
        return str(tomllib.loads(f"k = {text}")["k"])
    except (ValueError, KeyError):
        return text
