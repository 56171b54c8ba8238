"""Rows in a session's file: kept as declared, and refused where a line contradicts the plan."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.encoding import declared_sha256
from dlcontainer.bench.samples.records import ROWS_VERSION, Sample
from dlcontainer.bench.samples.rows import agreement
from dlcontainer.bench.samples.rows.row_records import SampleRow
from dlcontainer.bench.samples.traits import ROWS_METRIC
from dlcontainer.errors import BenchDataError
from tests import benchseries, rowseries
from tests.rowseries import PLAN, Plant, row
from tests.unit.bench.samples.test_reader import chained, fields

ROWS = tuple(row(number, 1e-3) for number in range(len(PLAN.rows)))


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    series = reader.read(rowseries.write(tmp_path / "a.jsonl", Plant()))
    assert series.session.declared.version == ROWS_VERSION
    assert series.session.declared.rows == PLAN
    drawn = rowseries.draw(Plant())
    assert [sample.rows for sample in series.samples] == [sample.rows for sample in drawn]
    launch = series.launches[3]
    assert launch.figure("rows.2.median") == drawn[3].rows[2].median
    assert launch.figure("rows.2.best") == drawn[3].rows[2].best
    assert launch.figure("rows.99.best") is None


def test_the_plan_is_part_of_what_is_hashed() -> None:
    declared = rowseries.session(Plant()).declared
    fewer = replace(declared, rows=replace(PLAN, rows=PLAN.rows[1:]))
    assert declared_sha256(declared) != declared_sha256(fewer)


def test_a_session_without_rows_is_hashed_and_written_as_ever(tmp_path: Path) -> None:
    (path,) = [benchseries.write(tmp_path / "a.jsonl", benchseries.Plan(pairs=4))]
    first, *_, last = fields(path)
    declared = first["declared"]
    assert isinstance(declared, dict)
    assert "rows" not in declared
    assert "rows" not in last
    assert first["schema"] == "dlcontainer/bench/3"


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (ROWS[1:], "a row is missing: operation all_reduce, bytes 4"),
        ((*ROWS, ROWS[2]), "a row is there 2 times: operation all_reduce, bytes 65536"),
        (
            (*ROWS[:-1], replace(ROWS[-1], parameters={"operation": "gather", "bytes": 4})),
            "a row that was not declared: operation gather, bytes 4",
        ),
        ((ROWS[1], ROWS[0], *ROWS[2:]), "not in the order"),
        ((replace(ROWS[0], best=2e-3), *ROWS[1:]), "the best time is above the median"),
        # As text it is another value: 4 is not "4".
        (
            (replace(ROWS[0], parameters={"operation": "all_reduce", "bytes": "4"}), *ROWS[1:]),
            "a row that was not declared",
        ),
    ],
)
def test_rows_that_are_not_those_declared(rows: tuple[SampleRow, ...], says: str) -> None:
    assert says in agreement.problem(PLAN, rows)


def test_rows_as_declared() -> None:
    assert agreement.problem(PLAN, ROWS) == ""
    assert agreement.mean(ROWS[:2]) == pytest.approx(1e-3)
    assert agreement.mean((row(0, 1e-3), row(1, 4e-3))) == pytest.approx(2e-3)


def on_line(index: int, **changes: object) -> Callable[[Sample], Sample]:
    def change(sample: Sample) -> Sample:
        return replace(sample, **changes) if sample.index == index else sample  # type: ignore[arg-type]

    return change


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rows": ROWS[:-1]}, "a row is missing: operation barrier, bytes 0"),
        ({"rows": ()}, "a row is missing"),
        ({"values": {ROWS_METRIC: 0.5, "elapsed_s": 8.0}}, "the rows' geometric mean is"),
        ({"values": {"elapsed_s": 8.0}}, "rows_s is None"),
        ({"wall_s": 1e-5}, "and wall_s is 1e-05"),
    ],
)
def test_a_file_that_contradicts_its_plan_is_refused(
    tmp_path: Path, changes: dict[str, object], says: str
) -> None:
    path = rowseries.write(tmp_path / "a.jsonl", Plant(change=on_line(3, **changes)))
    with pytest.raises(BenchDataError) as caught:
        reader.read(path)
    assert says in str(caught.value.why)
    assert caught.value.where == f"{path}:7"


def test_a_launch_that_failed_needs_no_rows(tmp_path: Path) -> None:
    change = on_line(3, rows=(), error="rank 1: gone", returncode=1)
    series = reader.read(rowseries.write(tmp_path / "a.jsonl", Plant(change=change)))
    assert not series.launches[3].ok


@pytest.mark.parametrize(
    ("key", "value"),
    [("n", 0), ("best", 0), ("median", "1"), ("unit", "ms"), ("checked", 0), ("novelty", 1)],
)
def test_a_row_is_strict(tmp_path: Path, key: str, value: object) -> None:
    path = rowseries.write(tmp_path / "a.jsonl", Plant())
    records = fields(path)
    rows = records[4]["rows"]
    assert isinstance(rows, list)
    rows[0][key] = value
    with pytest.raises(BenchDataError, match=r"rows\.0"):
        reader.read(chained(path, records))


@pytest.mark.parametrize("schema", ["dlcontainer/bench/3", "dlcontainer/bench/4"])
def test_a_version_that_has_no_rows(tmp_path: Path, schema: str) -> None:
    path = rowseries.write(tmp_path / "a.jsonl", Plant())
    records = fields(path)
    records[0]["schema"] = schema
    with pytest.raises(BenchDataError, match="has a declaration of dlcontainer/bench/5"):
        reader.read(chained(path, records))
