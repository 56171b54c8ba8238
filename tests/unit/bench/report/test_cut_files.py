"""Every kind of file that `report` reads, cut after each of its first lines, and within them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dlcontainer.bench.job import job_session
from dlcontainer.bench.report import given, json_report
from dlcontainer.cli import report as command
from dlcontainer.errors import BenchDataError
from tests import (
    benchseries,
    benchtriples,
    findings,
    kernelseries,
    residents,
    rowseries,
    stepseries,
)
from tests.jobsessions import Clockwork, context
from tests.unit.bench.scale.test_analysis import write as write_matrix

FIRST = 9

KINDS: Mapping[str, Callable[[Path], Path]] = {
    "job": lambda folder: job_session.run(context(folder, Clockwork())),
    "matrix": lambda folder: write_matrix(folder / "matrix.jsonl", rounds=2),
    "launches": lambda folder: benchseries.write(
        folder / "import.jsonl", benchseries.Plan(probe="import", pairs=8, joiner_pairs=8)
    ),
    "training": lambda folder: benchseries.write(folder / "train.jsonl", benchseries.Plan(pairs=8)),
    "triples": lambda folder: benchtriples.write(folder / "triples.jsonl", benchtriples.Triples()),
    "rows": lambda folder: rowseries.write(folder / "rows.jsonl", rowseries.Plant()),
    "kernels": lambda folder: kernelseries.write(folder / "kernels.jsonl", kernelseries.Plant()),
    "steps": lambda folder: stepseries.write(folder / "steps.jsonl", stepseries.Plant()),
    "groups": lambda folder: residents.write(folder / "groups.jsonl", residents.Truth()),
}


def reported(path: Path) -> str:
    """Write and print all that `report` can; give the reason where it refuses the file."""
    page = path.with_name("page.html")
    try:
        command.report([path], target=page)
        json.dumps(json_report.report(*given.read([path])), allow_nan=False)
    except BenchDataError as error:
        return error.what
    assert page.stat().st_size > 1000
    return ""


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_file_is_reported_or_refused(kind: str, tmp_path: Path) -> None:
    lines = KINDS[kind](tmp_path).read_bytes().splitlines(keepends=True)
    assert len(lines) > 3
    outcomes = {}
    for number, line in enumerate(lines[:FIRST], start=1):
        for part in (line, line[: len(line) // 2]):
            cut = tmp_path / f"cut-{number}-{len(part)}.jsonl"
            cut.write_bytes(b"".join([*lines[: number - 1], part]))
            outcomes[number, len(part) == len(line)] = reported(cut)
    # A session that was killed leaves complete lines, with the first launch among them.
    killed = {n: why for (n, is_complete), why in outcomes.items() if is_complete}
    measured = next(n for n, why in killed.items() if not why)
    assert set(killed.values()) <= {"", "no samples"}
    assert not any(why for n, why in killed.items() if n > measured)
    assert measured <= (1 if kind in {"job", "matrix"} else 5)


def test_a_cut_object_is_refused(tmp_path: Path) -> None:
    for path in findings.all_of(tmp_path):
        body = path.read_bytes()
        assert not reported(path)
        for length in {1, 2, 20, len(body) // 2, len(body.rstrip()) - 1}:
            cut = tmp_path / "cut.json"
            cut.write_bytes(body[:length])
            assert reported(cut), body[:length]
