"""The script of real sessions whose truth is known: its order, its counts, its plant."""

import sys
import time
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import one_image, resident, session_rows
from benchmarks.bounds import clopper_pearson
from benchmarks.one_image import File, Place
from benchmarks.resident import CELLS
from benchmarks.slower_steps import PLANT
from tests import residents
from tests.residents import Truth
from tests.values import ROOT


def test_sessions_of_all_kinds_are_spread_over_the_run() -> None:
    order = list(resident.interleaved(CELLS))
    assert Counter(cell.name for cell, _ in order) == {
        "nothing-5": 40, "nothing-2": 10, "slower-3": 10, "copies-5": 10,
    }  # fmt: skip
    assert {cell.name for cell, _ in order[:7]} == {cell.name for cell in CELLS}
    assert [number for cell, number in order if cell.name == "slower-3"] == list(range(10))


def test_the_words_that_would_be_wrong() -> None:
    wrong = {cell.name: cell.wrong for cell in CELLS}
    assert wrong["nothing-5"] == wrong["nothing-2"] == {"SLOWER", "FASTER", "NOT COMPARABLE"}
    assert wrong["copies-5"] == wrong["nothing-5"]
    assert wrong["slower-3"] == {"EQUIVALENT", "FASTER", "NOT COMPARABLE"}


@pytest.mark.parametrize(
    ("hits", "count", "bounds"),
    # 1 - 0.05 ** (1 / 40); the others by scipy.stats.beta.ppf.
    [(0, 40, [0.0, 0.0722]), (2, 40, [0.0090, 0.1492]), (10, 10, [0.7411, 1.0])],
)
def test_bounds_of_counts(hits: int, count: int, bounds: list[float]) -> None:
    assert clopper_pearson(hits, count) == pytest.approx(bounds, abs=1e-4)


def measured(folder: Path, ratios: tuple[float, ...]) -> None:
    for number, ratio in enumerate(ratios):
        truth = Truth(seed=number + 1, ratio=ratio, between=0.004, turns=0.004)
        residents.write(folder / f"nothing-5-{number:02d}.jsonl", truth)


def test_counts_are_printed_with_their_bounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(tmp_path, (1.0, 1.0, 1.2))
    resident.print_cell(CELLS[0], resident.write(tmp_path))
    said = capsys.readouterr().out
    assert "3 complete of 40, 0 cut: {'EQUIVALENT': 2, 'SLOWER': 1}" in said
    # Processor time has a margin and a word of its own.
    assert "of processor time: {'EQUIVALENT': 2, 'SLOWER': 1}" in said
    assert "wrong: 1 of 3, at least 1.7%, at most 86.5%" in said
    assert "95 % interval over 3 sessions" in said
    assert "lost 0" in said


def test_the_guide_counts_the_recorded_sessions() -> None:
    rows = session_rows.read(ROOT / "benchmarks/recorded/resident" / resident.RESULTS)
    assert rows
    guide = (ROOT / "docs/measurements/verdict.md").read_text().splitlines()
    for line in (*resident.HEAD, *(resident.line(*each) for each in resident.by_cell(rows))):
        assert line in guide


def test_one_file_holds_all_that_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(tmp_path, (1.0, 1.2))
    rows = resident.write(tmp_path)
    for path in tmp_path.glob("nothing-*"):
        path.unlink()
    assert resident.write(tmp_path) == rows
    assert [(row.file, row.n) for row in rows] == [
        ("nothing-5-00.jsonl", 8), ("nothing-5-01.jsonl", 8),
    ]  # fmt: skip
    # A session that was measured further has another checksum, and another line.
    measured(tmp_path, (1.2,))
    assert resident.write(tmp_path)[0].ratio == pytest.approx(1.2, abs=0.02)
    for cell, mine in resident.by_cell(rows):
        resident.print_cell(cell, mine)
    assert capsys.readouterr().out.count("none is complete") == len(CELLS) - 1


def test_another_machine_goes_on_with_the_lines_of_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(tmp_path, (1.0, 1.2))
    residents.write(tmp_path / "nothing-5-02-again1.jsonl", Truth(seed=3))
    # Cut before its end: no complete session.
    cut = residents.write(tmp_path / "nothing-5-03.jsonl", Truth(seed=4))
    cut.write_text("".join(cut.read_text().splitlines(keepends=True)[:-1]))
    resident.write(tmp_path)
    for path in tmp_path.glob("nothing-*"):
        path.unlink()
    begun: list[str] = []

    def one_session(place: Place, cell: resident.Cell, number: int) -> bool:
        begun.append(resident.stem(cell, number))
        return True

    monkeypatch.setattr(resident, "one_session", one_session)
    words = ["--image", "a.sif", "--out", str(tmp_path), "--cells", "nothing-5", "--sessions", "2"]
    monkeypatch.setattr("sys.argv", ["resident.py", *words])
    resident.main()
    assert begun == ["nothing-5-03", "nothing-5-04"]


def test_the_plant_burns_a_share_of_processor_time_and_none_of_a_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class SGD:
        def step(self) -> str:
            return "done"

    for name in ("torch", "torch.optim", "torch.optim.sgd"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules["torch.optim.sgd"], "SGD", SGD, raising=False)
    exec(PLANT.replace("SHARE", "0.5"), {})
    one = SGD()
    spent = [0.0]

    def clock() -> float:
        spent[0] += 0.0001
        return spent[0]

    # Nothing but a look and planted work passes on this clock: a wait does not.
    monkeypatch.setattr(time, "process_time", clock)

    def of_a_step() -> float:
        begin = spent[0]
        assert one.step() == "done"
        return spent[0] - begin

    assert of_a_step() < 0.001
    assert of_a_step() < 0.001
    spent[0] += 0.04
    # What one step burned too much is taken from the next.
    assert 0.0195 < of_a_step() < 0.022
    assert of_a_step() < 0.001


def test_a_session_that_cannot_go_on_is_measured_in_another_file(tmp_path: Path) -> None:
    (first, again, *_) = one_image.paths_of(tmp_path, "nothing-5-00")

    def file() -> File | None:
        return one_image.file_of(tmp_path, "nothing-5-00")

    assert file() == File(path=first)
    # Nothing was measured in it but its header: it can't go on.
    whole = residents.write(tmp_path / "whole.jsonl", Truth()).read_text()
    first.write_text(whole.splitlines(keepends=True)[0])
    assert file() == File(path=again)
    again.write_text("".join(whole.splitlines(keepends=True)[:6]))
    assert file() == File(path=again, is_cut=True)
    again.write_text(whole)
    assert file() is None


def test_a_session_is_asked_for_as_a_user_would(tmp_path: Path) -> None:
    place = Place(
        image=tmp_path / "a.sif", site="local", recipe=None, folder=tmp_path, threads=1, group=2
    )
    new = place.options(seed=3, margin=0.05, file=File(path=tmp_path / "x.jsonl"))
    assert (new.margin, new.target, new.resume) == ("5%", tmp_path / "x.jsonl", None)
    cut = File(path=tmp_path / "x.jsonl", is_cut=True)
    assert place.options(seed=3, margin=0.02, file=cut).resume == cut.path


def test_each_arm_gets_a_copy_of_its_own(tmp_path: Path) -> None:
    image = tmp_path / "a.sif"
    image.write_bytes(b"one image")
    one, other = one_image.copies_of(image, tmp_path)
    assert one != other
    assert one.read_bytes() == other.read_bytes() == b"one image"
    changed = one.stat().st_mtime_ns
    assert one_image.copies_of(image, tmp_path)[0].stat().st_mtime_ns == changed
    image.write_bytes(b"another")
    assert {copy.read_bytes() for copy in one_image.copies_of(image, tmp_path)} == {b"another"}
