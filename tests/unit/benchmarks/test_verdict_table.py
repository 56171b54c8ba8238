"""The table of how often a verdict is right: its rows can fail, it replaces the one in a page."""

import numpy
import pytest

from benchmarks import verdict_table
from benchmarks.simulation import Ended
from benchmarks.verdict_table import BEGIN, END, UNITS, Row, replaced
from tests.values import ROOT


def row(planted: str, unit: int = 0) -> Row:
    world = verdict_table.PLANTED[planted]
    return Row(unit=UNITS[unit], planted=planted, world=world, sessions=400)


def test_what_can_be_told_apart_keeps_its_promise_and_the_rest_is_in_bold() -> None:
    carried = list(row("carry-over 4 %").cells(3))
    assert not any("**" in cell for cell in carried)
    placed = list(row("placement of a session, sd 1 %").cells(3))
    assert placed[1].startswith("**")
    slow = list(row("5 % of container launches 1.5x").cells(3))
    assert slow[2].startswith("**")


def test_every_unit_has_every_plant_and_enough_sessions() -> None:
    every = list(verdict_table.rows(2000, 20_000))
    assert {one.planted for one in every} >= set(verdict_table.PLANTED)
    for unit in UNITS:
        mine = [one for one in every if one.unit is unit]
        assert {one.planted for one in mine} >= set(verdict_table.PLANTED)
        assert [one.sessions for one in mine if one.planted == "nothing"] == [20_000 // unit.of]
    assert min(one.sessions for one in every) >= 1000


def test_a_procedure_that_never_decides_shows() -> None:
    undecided = numpy.zeros(1000, dtype=numpy.int64)
    ended = Ended(undecided, undecided, undecided > 0)
    unit = verdict_table.Unit(
        name="none", design=verdict_table.PAIRS, sd=0.01, ended=lambda *_: ended
    )
    cells = list(Row(unit=unit, planted="", world=row("nothing").world, sessions=1).cells(1))
    assert cells[3].startswith("0.0")


def test_the_table_in_the_page_is_replaced() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert replaced(page, "new") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    with pytest.raises(SystemExit):
        replaced("a page without marks", "new")


def test_the_docs_have_the_scripts_table() -> None:
    page = (ROOT / "docs/measurements/verdict.md").read_text()
    table = page.partition(BEGIN)[2].partition(END)[0]
    errors, decisions = (part.splitlines() for part in table.strip().split("\n\n")[1:])
    for head, lines in zip(verdict_table.HEADS, (errors, decisions), strict=True):
        assert lines[:2] == head.splitlines()
        begins = [line.split(" | ")[:3] for line in lines[2:]]
        assert begins == [
            [f"| {one.unit.name}", f"{100 * one.world.sd:g} %", one.planted]
            for one in verdict_table.rows(1, 1)
        ]


def test_a_row_is_split_into_errors_and_decisions() -> None:
    cells = [f"{number}.0 [0.0, 1.0]" for number in range(6)]
    first, second = verdict_table.tables(
        [verdict_table.line(row("nothing"), [*cells, "11.0"])]
    ).split("\n\n")
    assert first.splitlines()[-1] == f"| pairs | 1 % | nothing | {' | '.join(cells[:3])} |"
    assert second.splitlines()[-1] == f"| pairs | 1 % | nothing | {' | '.join(cells[3:])} | 11.0 |"
