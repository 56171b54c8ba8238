"""A matrix's file and what is read from it."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.report import inputs, json_report, markdown_report
from dlcontainer.bench.report.sections import predictions
from dlcontainer.bench.samples.declared_file import digest
from dlcontainer.bench.scale import matrix_analysis, matrix_file
from dlcontainer.bench.scale.cells import MatrixCell
from dlcontainer.bench.scale.matrix_records import (
    CellLaunch,
    ColdState,
    MatrixDeclaration,
    MatrixHeader,
    OmittedRecord,
)
from dlcontainer.errors import BenchDataError

COLD = ColdState(method="drop_caches", resident=0.0, data=True, names=True)


def cell(**own: Any) -> MatrixCell:
    return MatrixCell(where="shared", state="cold", start="storm", nodes=1, **own)


CELLS = tuple(
    cell(subject=subject, open=opened, mount=mount, ranks=ranks)
    for ranks in (1, 2)
    for subject, opened, mount in (
        ("native", "files", "none"),
        ("image", "engine", "rank"),
        ("<b>=evil|", "engine", "node"),
    )
)


def header() -> MatrixHeader:
    declared = MatrixDeclaration(
        matrix={"reference": {"subject": "native", "open": "files"}, "stand_in": None},
        cells=CELLS,
        rounds=6,
        seed=1,
        module="json",
        site="local",
        subjects={},
        launchers={},
    )
    return MatrixHeader(
        declared=declared,
        declared_sha256=digest(declared),
        left_out=(OmittedRecord(cell="image, tmpfs", why="no <tmpfs>"),),
        machine={"node": "n1", "cores": 2},
        started="2026-01-01T00:00:00Z",
        dlcontainer="0",
    )


def launched(cell: int, number: int, seconds: float | None, **more: Any) -> CellLaunch:
    ranks: tuple[dict[str, Any], ...] = ()
    if seconds is not None:
        ranks = tuple(
            {"rank": n, "node": "n1", "values": {"wall_s": seconds / (n + 1)}} for n in range(2)
        )
    values: dict[str, Any] = {
        "cell": cell, "round": number, "started": "x", "t_last_s": seconds, "ready_s": 0.5,
        "before": COLD, "read_bytes": 4096, "ranks": ranks,
        "mounted": {"image_mounts": 2, "fuse_processes": 1},
    }  # fmt: skip
    return CellLaunch(**{**values, **more})


# Seconds of each cell; a little scatter, the same for none.
TIMES = (1.0, 0.5, 1.01, 2.0, 3.0, 2.0)


def seconds(cell: int, number: int) -> float:
    return TIMES[cell] * (1 + 0.01 * ((number * 7 + cell * 3) % 5))


def write(path: Path, rounds: int = 6, **odd: CellLaunch) -> Path:
    with matrix_file.FORMAT.writer(path, header()) as writer:
        for number in range(rounds):
            for cell in range(len(CELLS)):
                writer.write(launched(cell, number, seconds(cell, number)))
        for one in odd.values():
            writer.write(one)
        writer.end(complete=True, reason="all rounds measured")
    return path


def test_words_follow_the_whole_interval_and_holm(tmp_path: Path) -> None:
    rows = matrix_analysis.rows(matrix_file.read(write(tmp_path / "m.jsonl")))
    rest = "not shown either way"
    words = [row.contrast.word if row.contrast else None for row in rows]
    assert words == [None, "FASTER", rest, None, "SLOWER", rest]
    faster = rows[1].contrast
    assert faster is not None
    assert faster.reference == 0
    assert faster.rounds == 6
    assert faster.interval.low < 0.5 < faster.interval.high < 1
    assert rows[4].contrast is not None
    assert rows[4].contrast.reference == 3
    assert rows[0].ranks[-1] == max(rows[0].times)
    assert len(rows[0].ranks) == 12


def test_few_rounds_have_no_word(tmp_path: Path) -> None:
    rows = matrix_analysis.rows(matrix_file.read(write(tmp_path / "m.jsonl", rounds=3)))
    assert {row.contrast.word for row in rows if row.contrast} == {"no word: fewer than 4 rounds"}


def test_p_agrees_with_the_t_test() -> None:
    import scipy.stats

    values = [0.1, -0.02, 0.3, 0.07, 0.11]
    assert matrix_analysis.p_of(values) == pytest.approx(scipy.stats.ttest_1samp(values, 0).pvalue)
    assert matrix_analysis.p_of([0.0] * 5) == 1.0
    assert matrix_analysis.p_of([0.2] * 5) < 1e-6


@pytest.mark.parametrize(
    ("count", "low", "level"),
    [(1, 0, 0.0), (5, 0, 0.9375), (6, 0, 0.96875), (9, 1, 0.9609375), (20, 5, 0.9586)],
)
def test_a_median_lies_between_order_statistics(count: int, low: int, level: float) -> None:
    found = matrix_analysis.median([float(number) for number in range(count)])
    assert (found.low, found.high) == (low, count - 1 - low)
    assert found.level == pytest.approx(level, abs=1e-4)
    assert found.middle == (count - 1) / 2


def test_a_failed_launch_is_no_sample(tmp_path: Path) -> None:
    bad = launched(1, 6, None, error="rank 1: exit code 3")
    rows = matrix_analysis.rows(matrix_file.read(write(tmp_path / "m.jsonl", odd=bad)))
    assert rows[1].failed == "rank 1: exit code 3"
    assert len(rows[1].launches) == 6
    assert math.isfinite(rows[1].last.middle if rows[1].last else math.nan)


def test_the_section_names_everything_and_escapes_it(tmp_path: Path) -> None:
    bad = launched(2, 6, None, error="<script>")
    found = inputs.read(write(tmp_path / "a <m>.jsonl", odd=bad))
    (section,) = predictions.exhibits([found])
    names = [table.name for table in section.tables]
    assert names == [
        "Against the reference cell",
        "Cells",
        "Cold and mounts",
        "Failed",
        "The words",
    ]
    assert "1 faster, 1 slower" in section.headline
    assert section.tables[2].rows[0][1:3] == ("proved: drop_caches; 0.0 % in memory", "0.00 MB")
    assert section.tables[3].rows == ((CELLS[2].name, "<script>"),)
    assert ("image, tmpfs", "no <tmpfs>") in section.folded[1].rows
    assert all("<script>" not in plate.svg and "<b>" not in plate.svg for plate in section.plates)
    assert "FASTER" in markdown_report.summary([], [found])


def test_programs_get_the_same_figures(tmp_path: Path) -> None:
    found = inputs.read(write(tmp_path / "m.jsonl", rounds=1))
    said = json.loads(json.dumps(json_report.report([], [found]), allow_nan=False))["findings"][0]
    assert len(said["cells"]) == len(CELLS)
    one = said["cells"][1]
    assert one["contrast"]["reference"] == CELLS[0].name
    # One round has an interval without an end, and JSON has no infinity.
    assert one["contrast"]["high"] is None
    assert one["node_max_s"] == [{"n1": seconds(1, 0)}]


def test_cold_is_called_unproved_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    with matrix_file.FORMAT.writer(path, header()) as writer:
        writer.write(launched(0, 0, 1.0, before=replace(COLD, names=False)))
    found = inputs.read(path)
    (section,) = predictions.exhibits([found])
    assert "Cold is proved in 0 of 1 cold cell." in section.words
    assert "left before its end" in section.words
    assert any(cell.startswith("unproved") for cell in section.tables[1].rows[0])


def test_an_edited_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl")
    text = path.read_text()
    path.write_text(text.replace('"t_last_s":0.5', '"t_last_s":0.4', 1))
    with pytest.raises(BenchDataError, match="hash chain is broken"):
        matrix_file.read(path)


def test_a_launch_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchDataError, match="there twice"):
        matrix_file.read(write(tmp_path / "m.jsonl", odd=launched(0, 0, 1.0)))


@pytest.mark.parametrize("odd", [-1.0, math.nan, math.inf])
def test_no_time_is_written_that_could_not_be_read(tmp_path: Path, odd: float) -> None:
    with (
        pytest.raises((BenchDataError, ValueError)),
        matrix_file.FORMAT.writer(tmp_path / "m.jsonl", header()) as writer,
    ):
        writer.write(launched(0, 0, odd))


def test_a_cut_file_goes_on(tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]) + lines[-2][:20])
    cut = matrix_file.read(path)
    assert (len(cut.launches), cut.dropped, cut.end) == (35, 20, None)
    with matrix_file.FORMAT.writer(path, cut.header, after=cut) as writer:
        writer.write(launched(5, 5, 2.0))
        writer.end(complete=True, reason="all rounds measured")
    whole = matrix_file.read(path)
    assert len(whole.launches) == 36
    assert whole.end is not None
    assert whole.end.launches == 36
