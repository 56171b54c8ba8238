"""The events of a Kineto file, one after another: the file may be larger than memory.

Kineto writes one object: values that describe the trace, then `traceEvents`, then little more.
Times are microseconds since `baseTimeNanoseconds`, of CLOCK_REALTIME; in files of releases without
that key, since the epoch.
"""

import codecs
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from dlcontainer.errors import BenchDataError
from dlcontainer.system import foreign_files

_CHUNK = 2**20
# Kineto writes some kB before its events, and an event is at most as long as its stacks and shapes.
_LONGEST = 16 * 2**20
_BEGIN = '"traceEvents": ['
_FARTHEST_US = 1e16


@dataclass(frozen=True, kw_only=True, slots=True)
class KinetoSpan:
    """A span: its times in nanoseconds since the epoch, its thread or stream, its arguments."""

    name: str
    category: str
    thread: int | str
    begin: int
    end: int
    arguments: Mapping[str, Any] = field(default_factory=dict)


class KinetoFile:
    """A Kineto file, read once from its start; `groups` is None where it does not say."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.groups: int | None = None
        self._base_ns = 0
        self._buffer, self._at, self._is_over = "", 0, False

    def spans(self) -> Iterator[KinetoSpan]:
        """Yield the file's spans in their order; raises BenchDataError where it is no such file."""
        try:
            with foreign_files.opened(self.path) as binary:
                text = _Text(binary)
                self._head(text)
                while (event := self._event(text)) is not None:
                    span = self._span(event)
                    if span is not None:
                        yield span
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise BenchDataError(
                "not a trace of Kineto", where=str(self.path), why=str(error)[:300]
            ) from None

    def _head(self, text: "_Text") -> None:
        while (end := self._buffer.find(_BEGIN)) < 0:
            self._more(text, "it has no traceEvents")
        head = json.loads(f"{self._buffer[:end].rstrip().rstrip(',')}}}")
        self._at = end + len(_BEGIN)
        self._base_ns = int(head.get("baseTimeNanoseconds", 0))
        about = head.get("distributedInfo")
        count = about.get("pg_count") if isinstance(about, dict) else None
        self.groups = count if isinstance(count, int) else None

    def _event(self, text: "_Text") -> "dict[str, Any] | None":
        while True:
            begin = self._at
            while begin < len(self._buffer) and self._buffer[begin] in " \t\r\n,":
                begin += 1
            if begin < len(self._buffer) and self._buffer[begin] == "]":
                return None
            try:
                event, self._at = _DECODER.raw_decode(self._buffer, begin)
            except json.JSONDecodeError:
                self._more(text, "it is cut")
                continue
            if not isinstance(event, dict):
                raise TypeError("an event is no object")
            return event

    def _more(self, text: "_Text", why: str) -> None:
        chunk = text.read()
        self._buffer, self._at = self._buffer[self._at :] + chunk, 0
        if not chunk or len(self._buffer) > _LONGEST:
            raise ValueError(why)

    def _span(self, event: Mapping[str, Any]) -> KinetoSpan | None:
        if event.get("ph") != "X":
            return None
        ts, duration = float(event["ts"]), float(event["dur"])
        if not (0 <= duration < _FARTHEST_US and abs(ts) < _FARTHEST_US):
            raise ValueError(f"a span at {ts} µs, of {duration} µs")
        begin = self._base_ns + round(1000 * ts)
        thread, arguments = event.get("tid", 0), event.get("args", {})
        return KinetoSpan(
            name=str(event["name"])[:400],
            category=str(event.get("cat", "")),
            thread=thread if isinstance(thread, int) else str(thread),
            begin=begin,
            end=begin + round(1000 * duration),
            arguments=arguments if isinstance(arguments, dict) else {},
        )


class _Text:
    """A binary file as text, by chunks that end with whole characters."""

    def __init__(self, binary: IO[bytes]) -> None:
        self._binary = binary
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self) -> str:
        chunk = self._binary.read(_CHUNK)
        return self._decoder.decode(chunk, final=not chunk)


_DECODER = json.JSONDecoder()
