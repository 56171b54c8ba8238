"""What `report` takes beside sessions: counts, storm predictions, and predictions held to account.

The files of a matrix (bench import-matrix) and of jobs (bench job) have many lines, and modules of
their own. Each of the others is one JSON object that begins with its `schema`, and is read by the
model that is written:
`dlcontainer/count/1` (lab count -o), `dlcontainer/storm/1` (lab storm -o),
`dlcontainer/trace/1` (bench trace),
`dlcontainer/benchmark-storm/1`, the points of a validation: what was predicted, frozen by its
digest, and what was measured after; and `dlcontainer/not-measured/1`: what was left out, and why.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from dlcontainer.bench.job import job_file as jobfile
from dlcontainer.bench.job.job_records import JobSession
from dlcontainer.bench.scale import matrix_file as scalefile
from dlcontainer.bench.scale.matrix_records import MatrixSession
from dlcontainer.bench.study.judged_study import JudgedStudy
from dlcontainer.bench.trace import trace_records
from dlcontainer.bench.trace.trace_records import JobTrace
from dlcontainer.config.field_types import Line
from dlcontainer.errors import BenchDataError
from dlcontainer.lab.filesystem import count_file
from dlcontainer.lab.filesystem.count_file import CountingRun
from dlcontainer.lab.storm import prediction_file
from dlcontainer.lab.storm.prediction_file import Storm
from dlcontainer.system import foreign_files

_BEGIN = b"{"
_SCHEMA = b'"schema"'
# Far more than any of these has; a file of samples is no such file, and is streamed.
_MOST_BYTES = 64_000_000
# A reason is said in a line.
_LONGEST_REASON = 400
# Written by our own commands, with more in them than a report shows.
_OURS = ConfigDict(extra="ignore", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutPoint:
    """A held-out point: seconds predicted before, and measured after."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    name: str
    predicted: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    measured: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)]


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictionTrial:
    """Predictions held to account; `frozen` is the digest of all that was settled before."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    frozen: str
    predicted: Mapping[str, float]
    points: Annotated[tuple[HeldOutPoint, ...], Field(min_length=1)]
    machine: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Omission:
    """A measurement that was left out, and why; `command` is the one that would have made it."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    command: Literal["bench train", "bench import", "bench import-matrix"]
    why: Annotated[Line, Field(max_length=_LONGEST_REASON)]


Finding = (
    CountingRun
    | Storm
    | PredictionTrial
    | MatrixSession
    | JobSession
    | JobTrace
    | Omission
    | JudgedStudy
)
_READERS: Mapping[
    str,
    TypeAdapter[CountingRun]
    | TypeAdapter[Storm]
    | TypeAdapter[PredictionTrial]
    | TypeAdapter[JobTrace]
    | TypeAdapter[Omission],
] = {
    "dlcontainer/not-measured/1": TypeAdapter(Omission),
    count_file.SCHEMA: TypeAdapter(CountingRun),
    prediction_file.SCHEMA: TypeAdapter(Storm),
    "dlcontainer/benchmark-storm/1": TypeAdapter(PredictionTrial),
    trace_records.SCHEMA: TypeAdapter(JobTrace),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class InputFinding:
    """A finding, its file and the digest of that."""

    path: Path
    sha256: str
    finding: Finding

    @property
    def anchor(self) -> str:
        """Name the place of its raw values in a page."""
        return f"raw-{self.sha256[:12]}"


def is_one(path: Path) -> bool:
    """Return whether a file begins like a finding; a session's begins otherwise."""
    try:
        with foreign_files.opened(path) as file:
            begin = file.read(200).split()
    except OSError:
        return False
    text = b"".join(begin)
    return text.startswith(_BEGIN + _SCHEMA)


def read(path: Path) -> InputFinding:
    """Read one; raises BenchDataError for one that is edited, too new or no such file."""
    if scalefile.FORMAT.is_one(path):
        scale = scalefile.read(path)
        return InputFinding(path=path, sha256=scale.seal, finding=scale)
    if jobfile.FORMAT.is_one(path):
        job = jobfile.read(path)
        return InputFinding(path=path, sha256=job.seal, finding=job)
    try:
        data = foreign_files.read(path, _MOST_BYTES)
        body = foreign_files.loads(data)
        schema = str(body.pop("schema"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unfit(path, str(error)) from None
    if schema not in _READERS:
        raise _unfit(path, f"its schema is {schema}; known here: {', '.join(_READERS)}")
    try:
        finding = _READERS[schema].validate_python(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise _unfit(path, f"{name}: {first['msg'][0].lower()}{first['msg'][1:]}") from None
    if isinstance(finding, PredictionTrial):
        _hold(path, finding, body)
    return InputFinding(path=path, sha256=hashlib.sha256(data).hexdigest(), finding=finding)


def _hold(path: Path, trial: PredictionTrial, body: Mapping[str, object]) -> None:
    """Refuse predictions that are not those that were frozen."""
    apart = {"frozen", "points", "machine"}
    settled = {key: value for key, value in body.items() if key not in apart}
    digest = hashlib.sha256(json.dumps(settled, sort_keys=True).encode()).hexdigest()
    if digest != trial.frozen:
        raise _unfit(path, "what was settled before is not what its digest was made of")
    for point in trial.points:
        if trial.predicted.get(point.name) != point.predicted:
            raise _unfit(path, f"the prediction of {point.name} is not the frozen one")


def _unfit(path: Path, why: str) -> BenchDataError:
    return BenchDataError(
        "not a file that `report` reads",
        where=str(path),
        why=why,
        next_step="give sessions (bench import|train|job) or files written by "
        "`bench import-matrix -o`, `lab count -o` or `lab storm -o`",
    )
