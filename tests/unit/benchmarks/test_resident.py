"""The script of real sessions whose truth is known: its order, its counts, its plant."""

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import resident
from benchmarks.bounds import clopper_pearson
from benchmarks.resident import CELLS
from benchmarks.slower_steps import PLANT
from tests import residents
from tests.residents import Truth

if TYPE_CHECKING:
    from dlcontainer.cli.bench.session_options import SessionOptions


def test_sessions_of_all_kinds_are_spread_over_the_run() -> None:
    order = list(resident.interleaved(CELLS))
    assert Counter(cell.name for cell, _ in order) == {
        "nothing-5": 40, "nothing-2": 10, "slower-3": 10,
    }  # fmt: skip
    assert {cell.name for cell, _ in order[:6]} == {cell.name for cell in CELLS}
    assert [number for cell, number in order if cell.name == "slower-3"] == list(range(10))


def test_the_words_that_would_be_wrong() -> None:
    wrong = {cell.name: cell.wrong for cell in CELLS}
    assert wrong["nothing-5"] == wrong["nothing-2"] == {"SLOWER", "FASTER", "NOT COMPARABLE"}
    assert wrong["slower-3"] == {"EQUIVALENT", "FASTER", "NOT COMPARABLE"}


@pytest.mark.parametrize(
    ("hits", "count", "bounds"),
    # 1 - 0.05 ** (1 / 40); the others by scipy.stats.beta.ppf.
    [(0, 40, [0.0, 0.0722]), (2, 40, [0.0090, 0.1492]), (10, 10, [0.7411, 1.0])],
)
def test_bounds_of_counts(hits: int, count: int, bounds: list[float]) -> None:
    assert clopper_pearson(hits, count) == pytest.approx(bounds, abs=1e-4)


def test_counts_are_printed_with_their_bounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, ratio in enumerate((1.0, 1.0, 1.2)):
        truth = Truth(seed=number + 1, ratio=ratio, between=0.004, turns=0.004)
        residents.write(tmp_path / f"nothing-5-{number:02d}-groups.jsonl", truth)
    resident.print_cell(tmp_path, CELLS[0])
    said = capsys.readouterr().out
    assert "groups: 3 complete of 40, 0 cut: {'EQUIVALENT': 2, 'SLOWER': 1}" in said
    assert "wrong: 1 of 3, at least 1.7%, at most 86.5%" in said
    assert "lost {'native': 0, 'container': 0}" in said
    assert "launches: none is complete" in said


def test_the_plant_burns_a_share_of_processor_time_and_none_of_a_wait() -> None:
    class SGD:
        def step(self) -> str:
            return "done"

    names: dict[str, Any] = {"SGD": SGD}
    exec(PLANT.replace("SHARE", "0.5"), names)
    one = SGD()
    assert one.step() == "done"
    time.sleep(0.05)
    begin = time.process_time()
    one.step()
    assert time.process_time() - begin < 0.02
    until = time.process_time() + 0.04
    while time.process_time() < until:
        pass
    begin = time.process_time()
    one.step()
    assert time.process_time() - begin >= 0.02


def test_a_session_that_cannot_go_on_is_measured_in_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[SessionOptions] = []
    monkeypatch.setattr(resident, "run", lambda _probe, options, _slower: asked.append(options))
    place = resident.Place(
        image=tmp_path / "a.sif", site="local", recipe=None, folder=tmp_path, threads=1, group=2
    )
    (first, again, *_) = resident.paths_of(tmp_path, CELLS[0], 0, "groups")
    resident.one_session(place, CELLS[0], 0, "groups")
    assert (asked[0].target, asked[0].resume) == (first, None)
    # Nothing was measured in it but its header: it can't go on.
    whole = residents.write(tmp_path / "whole.jsonl", Truth()).read_text()
    first.write_text(whole.splitlines(keepends=True)[0])
    resident.one_session(place, CELLS[0], 0, "groups")
    assert asked[1].target == again
    again.write_text("".join(whole.splitlines(keepends=True)[:6]))
    resident.one_session(place, CELLS[0], 0, "groups")
    assert asked[2].resume == again
    again.write_text(whole)
    resident.one_session(place, CELLS[0], 0, "groups")
    assert len(asked) == 3
