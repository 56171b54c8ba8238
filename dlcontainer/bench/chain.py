"""JSON lines that are chained by hashes, so that an edited, reordered or cut file is noticed.

The chain finds accidents and careless edits. Who recomputes every hash is not stopped: a report
therefore prints the last one, and a claim that cites it can be held against the file.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dlcontainer.errors import BenchDataError

KEY = "chain"
_NEXT = "restore the file from where it was measured, or measure again"


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One verified line: its number in the file (from 1), its fields, its text without chain."""

    number: int
    fields: dict[str, object]
    text: str
    chain: str


def canonical(value: object) -> str:
    """Give the one spelling of a JSON value: no spaces, ASCII, keys in their given order.

    The order is kept because that of phases means something. JSON has no NaN: a value that isn't
    finite becomes the string "NaN", "Infinity" or "-Infinity".
    """
    return json.dumps(
        _finite(value), separators=(",", ":"), ensure_ascii=True, allow_nan=False, sort_keys=False
    )


def digest(text: str) -> str:
    """Give the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def encode(fields: Mapping[str, object], previous: str) -> tuple[str, str]:
    """Give the line of a record (with its line feed) and its chain."""
    text = canonical(dict(fields))
    chain = digest(previous + text)
    return f'{text[:-1]},"{KEY}":"{chain}"}}\n', chain


def decode(data: bytes, where: str) -> Iterator[Line]:
    """Give the lines of a file, each verified against the one before.

    A last line without line feed was cut while it was written: it is left out. Raises
    BenchDataError with the line's number for everything else that isn't as it was written.
    """
    previous = ""
    whole = data[: data.rfind(b"\n") + 1]
    for number, raw in enumerate(whole.split(b"\n")[:-1], start=1):
        place = f"{where}:{number}"
        fields, stated = _parse(raw, place)
        text = canonical(fields)
        expected, chain = encode(fields, previous)
        if stated != chain or raw != expected[:-1].encode():
            raise BenchDataError(
                "this line is not what was measured",
                where=place,
                why="its chained hash does not match: a line was changed, moved, added or removed",
                next_step=_NEXT,
            )
        previous = chain
        yield Line(number=number, fields=fields, text=text, chain=chain)


def _parse(raw: bytes, place: str) -> tuple[dict[str, object], object]:
    try:
        fields = json.loads(raw.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise BenchDataError(
            "this line is not JSON", where=place, why=str(error), next_step=_NEXT
        ) from None
    if not isinstance(fields, dict) or KEY not in fields or len(fields) == 1:
        raise BenchDataError(
            "this line is no record of a benchmark",
            where=place,
            why=f"a record is a JSON object with a '{KEY}'",
            next_step="give files that `dlcontainer bench` has written",
        )
    stated = fields.pop(KEY)
    return fields, stated


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
