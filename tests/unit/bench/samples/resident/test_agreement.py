"""A session of groups, edited with every hash recomputed: values nobody can have measured."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.samples import reader
from dlcontainer.errors import BenchDataError
from tests.benchrunner import Bench
from tests.residents import ResidentRunner, short
from tests.unit.bench.samples.test_reader import chained, fields

Record = dict[str, Any]
# The lines of the session below: the header, two stacks, two warm-up samples, then the groups.
FIRST, SECOND, THIRD = 5, 6, 7


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    folder = tmp_path_factory.mktemp("groups")
    with pytest.MonkeyPatch.context() as patch:
        short(patch)
        path = Bench(folder, unit="groups").run(
            ResidentRunner(), probe="train", threads=1, looks=(2,)
        )
    return fields(path)


def turn(records: list[Record], line: int = FIRST, number: int = 0) -> Record:
    found: Record = records[line]["residents"][0]["turns"][number]
    return found


def other_order(records: list[Record]) -> None:
    for line in (FIRST, SECOND):
        records[line]["order"] = "cn" if records[line]["order"] == "nc" else "nc"


def turns_swapped(records: list[Record]) -> None:
    one, other = (records[FIRST]["residents"][number]["turns"][0] for number in (0, 1))
    one["place"], other["place"] = other["place"], one["place"]


def quicker_turn(records: list[Record]) -> None:
    turn(records)["wall_s"] *= 0.9


def quicker_arm(records: list[Record]) -> None:
    records[FIRST]["wall_s"] *= 0.99


def slower_steps(records: list[Record]) -> None:
    found = turn(records)
    # On a busy machine the session waited long: no wait is as long as this.
    found["steps_s"] = [10_000 * step for step in found["steps_s"]]
    more = 9_999 * found["wall_s"]
    found["wall_s"] += more
    records[FIRST]["wall_s"] += more


def less_processor_time(records: list[Record]) -> None:
    records[FIRST]["values"]["cpu_s_per_step"] *= 0.9


def a_step_less(records: list[Record]) -> None:
    found = turn(records)
    gone = found["steps_s"].pop()
    found["wall_s"] -= gone
    records[FIRST]["wall_s"] -= gone


def a_round_less(records: list[Record]) -> None:
    gone = records[FIRST]["residents"][0]["turns"].pop()
    records[FIRST]["wall_s"] -= gone["wall_s"]


def started_at_one_instant(records: list[Record]) -> None:
    for line in (FIRST, SECOND):
        for one in records[line]["residents"]:
            one["started_s"] = 100.0


def turns_at_one_instant(records: list[Record]) -> None:
    for line in (FIRST, SECOND):
        for one in records[line]["residents"]:
            for each in one["turns"]:
                each["start_s"] = 100.0


def a_process_less(records: list[Record]) -> None:
    gone = records[FIRST]["residents"].pop()
    records[FIRST]["wall_s"] -= sum(each["wall_s"] for each in gone["turns"])


def a_group_too_many(records: list[Record]) -> None:
    for line in (THIRD, THIRD + 1):
        records[line]["pair"] = 3


def longer_than_it_took(records: list[Record]) -> None:
    records[FIRST]["values"]["elapsed_s"] = 0.001


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (other_order, "the seed draws"),
        (turns_swapped, "where the seed draws another"),
        (quicker_turn, "not the sum of its steps"),
        (quicker_arm, "the turns sum up to"),
        (slower_steps, "longer than the session waited"),
        (less_processor_time, "and the turns' is"),
        (a_step_less, "4 steps, and 5 declared"),
        (a_round_less, "not one turn in each of 4 rounds"),
        (started_at_one_instant, "did not start one after the other"),
        (turns_at_one_instant, "before the turn before it ended"),
        (a_process_less, "the processes of"),
        (a_group_too_many, "pair 3 is not in the declared schedule"),
        (longer_than_it_took, "longer than the whole group took"),
    ],
)
def test_what_contradicts_itself_is_refused(
    measured: list[Record], tmp_path: Path, edit: Callable[[list[Record]], None], why: str
) -> None:
    records = copy.deepcopy(measured)
    edit(records)
    path = chained(tmp_path / "a.jsonl", records)
    with pytest.raises(BenchDataError, match="contradicts the session's declaration") as caught:
        reader.read(path)
    assert why in str(caught.value)
    assert str(caught.value.where).startswith(f"{path}:")


def test_what_was_measured_is_read(measured: list[Record], tmp_path: Path) -> None:
    series = reader.read(chained(tmp_path / "a.jsonl", measured))
    assert len(series.launches) == 6


def test_the_first_lines_form(measured: list[Record]) -> None:
    assert measured[0]["schema"] == "dlcontainer/bench/4"
    assert [record["kind"] for record in measured[1:]] == [
        "stack", "sample", "stack", "sample", *["sample"] * 4, "end",
    ]  # fmt: skip


def test_a_form_that_is_not_the_declarations(measured: list[Record], tmp_path: Path) -> None:
    records = copy.deepcopy(measured)
    records[0]["schema"] = "dlcontainer/bench/3"
    with pytest.raises(BenchDataError, match="bench/3 has a declaration of dlcontainer/bench/4"):
        reader.read(chained(tmp_path / "a.jsonl", records))
