"""The file of a prediction that `lab storm -o` writes and `report` reads: one model for both."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from dlcontainer.lab.storm.alternatives import (
    WAYS,
    AlternativeRow,
    StormCase,
    Way,
    curve,
    launches_to_pay,
    nodes_to_pay,
)
from dlcontainer.lab.storm.loads import LoadMeasurement
from dlcontainer.lab.storm.parameters import Fact
from dlcontainer.lab.storm.storm_model import SHORT_BY, Number, Prediction, Seconds, StormJob

SCHEMA = "dlcontainer/storm/1"
# A later version may write more than this one knows.
_OURS = ConfigDict(extra="ignore", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class WayRow:
    """One way to give ranks their files; `saturates_at` None: the server never fills."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    way: Way
    seconds: Seconds
    prediction: Prediction
    saturates_at: Seconds | None
    staging: tuple[str, Seconds] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Storm:
    """A storm's prediction; `curve` has seconds of each way over nodes."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    job: StormJob
    measured: LoadMeasurement
    facts: tuple[Fact, ...]
    rows: tuple[WayRow, ...]
    launches_until_staging_pays: Number | None
    nodes_until_it_pays: Mapping[Way, Number | None]
    curve: tuple[Mapping[str, Seconds], ...]
    # Of held-out imports, least and most: shares of the prediction.
    measured_longer_by: tuple[float, float] | None = None


def of(
    case: StormCase,
    job: StormJob,
    rows: list[AlternativeRow],
    measured: LoadMeasurement,
    facts: tuple[Fact, ...],
) -> Storm:
    """Return a prediction as it is written."""
    return Storm(
        job=job,
        measured=measured,
        facts=facts,
        rows=tuple(map(_row, rows)),
        launches_until_staging_pays=launches_to_pay(rows),
        nodes_until_it_pays={way: nodes_to_pay(case, job, way) for way in WAYS if way != "tree"},
        curve=tuple(curve(case, job)),
        measured_longer_by=SHORT_BY,
    )


def _row(row: AlternativeRow) -> WayRow:
    return WayRow(
        way=row.way,
        seconds=row.seconds,
        prediction=row.prediction,
        # JSON has no infinity.
        saturates_at=row.saturates_at if math.isfinite(row.saturates_at) else None,
        staging=row.staging,
    )
