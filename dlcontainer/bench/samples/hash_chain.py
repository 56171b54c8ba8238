"""JSON lines that are chained by hashes, so that an edited, reordered or cut file is noticed.

The chain finds accidents and careless edits. Who recomputes every hash is not stopped: a report
therefore prints the last one, and a claim that cites it can be held against the file.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO, NamedTuple

from dlcontainer.errors import BenchDataError
from dlcontainer.system import foreign_files

KEY = "chain"
_NEXT = "restore the file from where it was measured, or measure again"
_SUFFIX = f',"{KEY}":"'.encode()
# A launch of 10,000 ranks with the losses of each is below it.
_LONGEST = 64_000_000
_HASH, _END = 64, b'"}\n'
_LENGTH = len(_SUFFIX) + _HASH + len(_END)
# What a line has beyond its text: the chain's key and value, and the line feed.
BEYOND = _LENGTH - len("}")


class ChainLine(NamedTuple):
    """One verified line: its number in the file (from 1), its text without chain, its chain."""

    number: int
    text: bytes
    chain: str


def canonical(value: object) -> str:
    """Return the one spelling of a JSON value: no spaces, ASCII, keys in their given order.

    The order is kept because that of phases means something. JSON has no NaN: a value that isn't
    finite becomes the string "NaN", "Infinity" or "-Infinity".
    """
    return json.dumps(
        _finite(value), separators=(",", ":"), ensure_ascii=True, allow_nan=False, sort_keys=False
    )


def plain_json(value: object) -> dict[str, object]:
    """Return a mapping as it would come back from a file."""
    plain = json.loads(canonical(value))
    if not isinstance(plain, dict):
        raise TypeError(type(value).__name__)
    return plain


def digest(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def encode(fields: Mapping[str, object], previous: str) -> tuple[str, str]:
    """Return the line of a record (with its line feed) and its chain."""
    text = canonical(dict(fields))
    chain = digest(previous + text)
    return f'{text[:-1]},"{KEY}":"{chain}"}}\n', chain


def decode(
    lines: Iterable[bytes], where: str, *, start: int = 1, previous: bytes = b""
) -> Iterator[ChainLine]:
    """Yield the lines of a file, each verified against the one before; one is held at a time.

    They begin at line `start`, behind one whose chain is `previous`. A last line without line feed
    was cut while it was written: it is left out. Raises BenchDataError with the line's number for
    everything else that isn't as it was written.
    """
    for number, raw in enumerate(lines, start=start):
        # The bytes are hashed as they stand: what they mean is not asked before they are known
        # to be what was written.
        begin = len(raw) - _LENGTH
        text = raw[:begin] + b"}"
        chain = hashlib.sha256(previous + text).hexdigest()
        previous = chain.encode()
        if begin < 2 or raw[begin:] != _SUFFIX + previous + _END:
            if not raw.endswith(b"\n"):
                return
            raise _mismatch(raw, f"{where}:{number}")
        yield ChainLine(number, text, chain)


def lines(file: BinaryIO, where: str) -> Iterator[bytes]:
    """Yield the lines of an open file, each with its line feed; none is longer than a session's."""
    number = 0
    while raw := file.readline(_LONGEST + 1):
        number += 1
        if len(raw) > _LONGEST:
            raise _no_record(f"{where}:{number}")
        yield raw


def _mismatch(raw: bytes, where: str) -> BenchDataError:
    begin = len(raw) - _LENGTH
    if begin < 2 or not raw.startswith(_SUFFIX, begin) or not raw.endswith(_END):
        return _no_record(where)
    return BenchDataError(
        "the hash chain is broken at this line",
        where=where,
        why="a line was changed, moved, added or removed after the measurement",
        next_step=_NEXT,
    )


def at(file: BinaryIO, offset: int, number: int, where: str) -> ChainLine | None:
    """Return the line of this number, verified, that begins at this byte behind another line.

    None without a complete line; raises BenchDataError as `decode`.
    """
    file.seek(offset - _HASH - len(_END))
    previous = file.read(_HASH + len(_END))[:_HASH]
    return next(decode(file, where, start=number, previous=previous), None)


def parse(line: ChainLine, where: str) -> dict[str, object]:
    """Return a line's fields."""
    try:
        fields = foreign_files.loads(line.text)
    except ValueError as error:
        raise BenchDataError(
            "this line is not JSON", where=where, why=str(error), next_step=_NEXT
        ) from None
    if not isinstance(fields, dict):
        raise _no_record(where)
    return fields


def _no_record(where: str) -> BenchDataError:
    return BenchDataError(
        "this line is not a benchmark record",
        where=where,
        why=f"a record is one line, a JSON object that ends with its '{KEY}'",
        next_step="give a file written by `dlcontainer bench`; or " + _NEXT,
    )


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
