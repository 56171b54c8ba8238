"""Inputs as they are drawn: laws, seeds, the input that rules."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import pytest

from dlcontainer.bench.study.advice import drawn_inputs
from dlcontainer.bench.study.advice.drawn_inputs import DrawnInput

WIDE = DrawnInput(key="wide", unit="s", source="", independent="yes", low=1, high=9)
NARROW = DrawnInput(key="narrow", unit="s", source="", independent="yes", low=4, high=5)
KNOWN = DrawnInput(key="known", unit="s", source="", independent="yes", low=2, high=2)


def sums(drawn: Sequence[Mapping[str, float]]) -> list[float]:
    return [draw["wide"] + draw["narrow"] for draw in drawn]


def test_draws_are_the_same_for_a_seed_whatever_else_is_drawn() -> None:
    first = drawn_inputs.draws([WIDE, NARROW], seed=1)
    assert first == drawn_inputs.draws([WIDE, NARROW], seed=1)
    assert first != drawn_inputs.draws([WIDE, NARROW], seed=2)
    alone = drawn_inputs.draws([WIDE], seed=1)
    assert [draw["wide"] for draw in alone] == [draw["wide"] for draw in first]


def test_each_part_of_a_range_is_drawn_once() -> None:
    wide = sorted(draw["wide"] for draw in drawn_inputs.draws([WIDE], count=80))
    for place, number in enumerate(wide):
        assert 1 + place * 0.1 <= number <= 1 + (place + 1) * 0.1


def test_a_normal_law_holds_nine_of_ten_between_its_ends() -> None:
    law = replace(WIDE, law="normal")
    drawn = [draw["wide"] for draw in drawn_inputs.draws([law], count=1000)]
    inside = sum(1 <= number <= 9 for number in drawn)
    assert inside == pytest.approx(900, abs=5)
    # Of the logarithm: as far above as below, in factors.
    assert law.middle == pytest.approx(3)
    share = replace(WIDE, low=0, high=1, law="normal")
    assert min(draw["wide"] for draw in drawn_inputs.draws([share])) == 0


def test_choices_are_drawn_as_often() -> None:
    choice = replace(WIDE, choices=(1.0, 2.0, 4.0))
    drawn = [draw["wide"] for draw in drawn_inputs.draws([choice], count=300)]
    assert {number: drawn.count(number) for number in (1, 2, 4)} == {1: 100, 2: 100, 4: 100}


def test_the_widest_input_rules_and_what_is_left_without_it() -> None:
    inputs = [NARROW, WIDE, KNOWN]
    drawn = drawn_inputs.draws(inputs)

    def again(held: DrawnInput) -> list[float]:
        return sums([{**draw, held.key: held.middle} for draw in drawn])

    ruling = drawn_inputs.ruling(inputs, drawn, sums(drawn), again)
    assert ruling is not None
    assert ruling.key == "wide"
    # 64 / 65 of the variance; the narrow one is an eighth as wide.
    assert ruling.share == pytest.approx(64 / 65, abs=0.03)
    assert ruling.narrowed == pytest.approx(1 / 8, abs=0.03)


def test_nothing_rules_where_nothing_varies() -> None:
    drawn = drawn_inputs.draws([KNOWN])
    assert drawn_inputs.ruling([KNOWN], drawn, [2.0] * len(drawn), lambda _: [2.0]) is None


def test_an_input_without_effect_has_no_share() -> None:
    inputs = [WIDE, NARROW]
    drawn = drawn_inputs.draws(inputs)
    wide = [draw["wide"] for draw in drawn]
    narrow = drawn_inputs._share(NARROW, drawn, wide, 16 / 3)
    assert fmean(wide) == pytest.approx(5, abs=0.1)
    assert narrow < 0.08
