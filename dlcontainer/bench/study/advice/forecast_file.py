"""The file of a forecast: `dlcontainer/forecast/1`, frozen by its digest. One model for both ways.

As predictions of storms are: `frozen` is the SHA-256 of all the rest as JSON with sorted keys. What
was changed afterwards is refused, whoever reads it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dlcontainer.bench.study.advice.forecast_records import SCHEMA, Forecast
from dlcontainer.errors import BenchDataError
from dlcontainer.system import foreign_files

# Far more than the largest forecast has.
_MOST_BYTES = 64_000_000
_BEGIN = b'{"schema":"dlcontainer/forecast/'
_READER = TypeAdapter(Forecast)


@dataclass(frozen=True, kw_only=True, slots=True)
class FrozenForecast:
    """A forecast that was read, and the digest that it was frozen with."""

    path: Path
    frozen: str
    forecast: Forecast


def body(forecast: Forecast) -> Mapping[str, Any]:
    """Return a forecast as it is written, its digest first."""
    settled = json.loads(json.dumps(asdict(forecast)))
    return {"frozen": digest(settled), **settled}


def digest(settled: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what is frozen: all of the file but its schema and the digest."""
    return hashlib.sha256(json.dumps(settled, sort_keys=True).encode()).hexdigest()


def is_one(path: Path) -> bool:
    """Return whether a file begins like a forecast."""
    try:
        with foreign_files.opened(path) as file:
            return b"".join(file.read(200).split()).startswith(_BEGIN)
    except OSError:
        return False


def read(path: Path) -> FrozenForecast:
    """Read a forecast; raises BenchDataError for one that was changed, or is no forecast."""
    try:
        content = foreign_files.loads(foreign_files.read(path, _MOST_BYTES))
    except (OSError, ValueError) as error:
        raise _unfit(path, str(error)) from None
    return of_content(path, content)


def of_content(path: Path, content: object) -> FrozenForecast:
    """Return the forecast of a file's JSON; raises BenchDataError as `read` does."""
    settled = dict(content) if isinstance(content, dict) else {}
    schema, frozen = settled.pop("schema", None), settled.pop("frozen", None)
    if schema != SCHEMA:
        raise _unfit(path, f"its schema is {schema}; known here: {SCHEMA}")
    if frozen != digest(settled):
        raise BenchDataError(
            "the forecast was changed after it was frozen",
            where=str(path),
            why=f"its digest was made of other content: {str(frozen)[:12]}, not "
            f"{digest(settled)[:12]}",
            next_step="forecast again with -o, before the next measurement",
        )
    try:
        forecast = _READER.validate_python(settled)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise _unfit(path, f"{name}: {first['msg'][0].lower()}{first['msg'][1:]}") from None
    return FrozenForecast(path=path, frozen=str(frozen), forecast=forecast)


def _unfit(path: Path, why: str) -> BenchDataError:
    return BenchDataError(
        "not a forecast",
        where=str(path),
        why=why,
        next_step="write one with `dlcontainer bench forecast STUDY|FACTS.yaml -o FILE.json`",
    )
