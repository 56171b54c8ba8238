"""Page faults beside times: slopes and what is left, in sessions where both are known."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import page_faults
from dlcontainer.bench.samples.records import Sample
from dlcontainer.bench.samples.resident.resident_records import Turn
from dlcontainer.errors import BenchDataError
from tests import benchseries, residents
from tests.residents import Truth

SLOPE = 0.06
NUMBER = r"-?[\d,]+\.?\d*"


def faulting(sample: Sample) -> Sample:
    """Give each turn the faults that would make its steps as long as they are."""
    return replace(
        sample,
        residents=tuple(
            replace(one, turns=tuple(map(of_its_faults, one.turns))) for one in sample.residents
        ),
    )


def of_its_faults(turn: Turn) -> Turn:
    steps = len(turn.steps_s)
    thousands = 3 + math.log(turn.wall_s / steps / 0.025) / SLOPE
    return replace(turn, faults=round(1000 * thousands * steps))


def lines_of(*paths: Path) -> list[str]:
    return list(page_faults.tables([page_faults.of(path) for path in paths]))


def test_what_faults_make_is_found_at_each_level(tmp_path: Path) -> None:
    truth = Truth(change=faulting, between=0.015, turns=0.01)
    paths = [
        residents.write(tmp_path / f"{seed}.jsonl", replace(truth, seed=seed)) for seed in (1, 2, 3)
    ]
    said = lines_of(*paths)
    levels = {line.split(" | ")[0].lstrip("| "): line for line in said[2:5]}
    assert tuple(levels) == page_faults.LEVELS
    for line in levels.values():
        assert "100% of the variance" in line
        assert "+6.0% (over sessions 6.0% [6.0%, 6.0%])" in line
        assert "1.50 µs" in line
        assert line.endswith("| 0.0% |")
    # 3 sessions, 8 groups, 4 processes, 8 rounds.
    assert [int(re.findall(NUMBER, line)[0].replace(",", "")) for line in levels.values()] == [
        768, 96, 24,
    ]  # fmt: skip


def test_what_is_left_of_a_ratio_at_equal_faults(tmp_path: Path) -> None:
    path = residents.write(tmp_path / "slower.jsonl", Truth(change=faulting, ratio=1.05))
    row = next(line for line in lines_of(path) if line.startswith("| slower.jsonl"))
    ratio, left = (float(found) for found in re.findall(r"\d\.\d{4}", row))
    assert ratio == pytest.approx(1.05, abs=0.02)
    assert left == pytest.approx(1.0, abs=1e-3)


def test_time_that_is_not_of_faults_stays(tmp_path: Path) -> None:
    def more(sample: Sample) -> Sample:
        """Give the candidate's turns no fault for what they take longer."""
        found = faulting(sample)
        if sample.arm == "native":
            return found
        less = round(1000 * math.log(1.05) / SLOPE) * len(found.residents[0].turns[0].steps_s)
        return replace(
            found,
            residents=tuple(
                replace(
                    one,
                    turns=tuple(replace(turn, faults=turn.faults - less) for turn in one.turns),
                )
                for one in found.residents
            ),
        )

    path = residents.write(tmp_path / "slower.jsonl", Truth(change=more, ratio=1.05))
    row = next(line for line in lines_of(path) if line.startswith("| slower.jsonl"))
    assert float(re.findall(r"\d\.\d{4}", row)[1]) == pytest.approx(1.05, abs=1e-3)


def test_faults_that_are_all_alike_explain_nothing(tmp_path: Path) -> None:
    said = lines_of(residents.write(tmp_path / "alike.jsonl", Truth()))
    assert all(line.endswith("| - | - | - | - |") for line in said[2:5])
    row = next(line for line in said if line.startswith("| alike.jsonl"))
    ratio, left = re.findall(r"\d\.\d{4}", row)
    assert ratio == left


def test_two_groups_are_too_few_for_a_slope(tmp_path: Path) -> None:
    said = lines_of(residents.write(tmp_path / "two.jsonl", Truth(change=faulting, pairs=2)))
    assert [line.endswith("| - | - | - | - |") for line in said[2:5]] == [False, False, True]


def test_a_session_of_launches_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = benchseries.write(tmp_path / "launches.jsonl", benchseries.Plan())
    with pytest.raises(BenchDataError, match="nothing scatters"):
        page_faults.of(path)
    monkeypatch.setattr("sys.argv", ["page_faults.py", str(path)])
    assert page_faults.main() == BenchDataError("").exit_code
    assert "next: give sessions of bench train" in capsys.readouterr().err
