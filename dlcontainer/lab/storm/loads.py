"""Measured loads of an import, and their file: `lab storm --keep` writes it, `--loads` reads it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from dlcontainer.errors import BenchDataError
from dlcontainer.lab.storm.alternatives import Way
from dlcontainer.lab.storm.repeats import MeasuringNode, ReadWaits, WarmImport
from dlcontainer.lab.storm.storm_model import ImportLoad
from dlcontainer.system import foreign_files, report_files

_MOST_BYTES = 64_000_000
SCHEMA = "dlcontainer/loads/1"
_AGAIN = "measure them: dlcontainer lab storm IMAGE|PREFIX --keep FILE.json"
# The last version that reads loads of versions before 0.7.0.
_LAST_READER = "0.9.1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """The times behind a load: warm imports, and cold ones with prompt and with late reads."""

    runs: tuple[WarmImport, ...]
    waits: ReadWaits


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadMeasurement:
    """The loads of each way, the image's size, and what they were counted with."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    loads: Mapping[Way, ImportLoad]
    image_mb: float | None
    profile: str
    subject: str
    node: MeasuringNode
    timings: Mapping[str, Timing]


def write(measured: LoadMeasurement, path: Path) -> None:
    """Keep what was measured, to predict from it again; raises BenchDataError where it can't."""
    body = {"schema": SCHEMA, **asdict(measured)}
    report_files.write(json.dumps(body, indent=1) + "\n", path, "--keep")


def read(path: Path) -> LoadMeasurement:
    """Read what was kept; raises BenchDataError for another kind of file."""
    try:
        body = foreign_files.loads(foreign_files.read(path, _MOST_BYTES))
        if body.pop("schema") != SCHEMA:
            raise KeyError("schema")
        is_earlier = "node" not in body
        measured = None if is_earlier else json.dumps(body)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unfit(path, str(error)) from None
    if measured is None:
        raise BenchDataError(
            f"{path}: dlcontainer no longer reads loads that versions before 0.7.0 measured",
            why="the file does not say on which node they were measured; processor times in it are "
            "times on the wall",
            next_step=f"{_AGAIN}; dlcontainer {_LAST_READER} is the last version that reads this "
            "file",
        )
    try:
        return TypeAdapter(LoadMeasurement).validate_json(measured, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        raise _unfit(path, f"{name}: {first['msg'][0].lower()}{first['msg'][1:]}") from None


def _unfit(path: Path, why: str) -> BenchDataError:
    return BenchDataError(f"{path} contains no measured loads", why=why, next_step=_AGAIN)
