"""A control that can tell nothing is not drawn, and gives no number of further pairs."""

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.analysis import qualification
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.analysis.verdict import SessionVerdict, Word
from dlcontainer.bench.report import html_report, json_report
from dlcontainer.bench.report.sections.notes import notes
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.records import Sample
from dlcontainer.bench.stats.paired import Interval
from tests import benchseries
from tests.benchseries import Plan
from tests.judging import analyse

SD = 1.5


def around(ratio: float, factor: float, level: float = 0.95) -> Interval:
    return Interval(ratio=ratio, low=ratio / factor, high=ratio * factor, level=level)


def between(low: float, high: float) -> Interval:
    return Interval(ratio=math.sqrt(low * high), low=low, high=high, level=0.99)


@pytest.mark.parametrize(
    ("word", "found", "control", "tells"),
    [
        # The control of a session of 0.8.1, and of two demos, beside a firm SLOWER.
        (
            "SLOWER",
            around(2.18, 1.05),
            Interval(ratio=1, low=0.089, high=11.273, level=0.99),
            False,
        ),
        ("SLOWER", around(1.7, 1.2), Interval(ratio=1, low=0.378, high=2.395, level=0.99), False),
        ("SLOWER", around(2, 1.2), Interval(ratio=1, low=1e-3, high=3449.637, level=0.99), False),
        ("SLOWER", around(2.0, 1.1), around(1.0, 1.9), True),
        ("FASTER", around(0.9, 1.02), around(1.0, 1.2), False),
        ("EQUIVALENT", around(1.0, 1.01), around(1.0, 1.05), True),
        ("INCONCLUSIVE", around(1.0, 1.06), around(1.0, 1.15), True),
        ("INCONCLUSIVE", around(1.0, 1.06), around(1.0, 2.0), False),
        # It refused the session: it told.
        ("NOT COMPARABLE", around(1.0, 1.01), around(3.0, 2.5), True),
    ],
)
def test_what_a_control_would_have_noticed(
    word: Word, found: Interval, control: Interval, tells: bool
) -> None:
    assert qualification.tells(control, SessionVerdict(word=word, difference=found), 0.02) is tells


def analysed(folder: Path, *, steady: bool) -> Analysis:
    """A session that is clearly slower; where it is not steady, its A/A launches scatter by SD."""
    noise = random.Random(5)

    def scattered(sample: Sample) -> Sample:
        factor = math.exp(noise.gauss(0, SD)) if sample.role == "control" and not steady else 1
        phases = {name: value * factor for name, value in sample.phases.items()}
        return replace(sample, phases=phases, wall_s=sum(phases.values()))

    plan = Plan(probe="import", pairs=16, control_pairs=8, change=scattered)
    return analyse(reader.read(benchseries.write(folder / "s.jsonl", plan)))


@pytest.mark.parametrize("steady", [True, False])
def test_a_control_that_can_t_tell_is_not_shown(steady: bool, tmp_path: Path) -> None:
    analysis = analysed(tmp_path, steady=steady)
    assert analysis.verdict.word == "SLOWER"
    assert analysis.verdict.control is not None
    page = html_report.page([analysis])
    (section,) = page.sections
    assert [one.tells for one in qualification.controls(analysis)] == [steady]
    assert any(name == "A/A ratio" for name, *_ in section.tiles) is steady
    drawn = "".join(str(plate.svg) for plate in section.plates[:2])
    assert ("A/A" in drawn) is steady
    standing = qualification.standings([analysis])[analysis.series.seal]
    said = " ".join(notes(analysis, standing))
    assert ("can't tell whether this machine was steady" in said) is not steady
    assert ("more A/A pairs" in said) is (steady and not standing.is_qualified)
    assert json_report.session(analysis)["controls_tell"] == {"control": steady}


def test_a_number_of_pairs_that_nobody_measures_is_no_advice(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, steady=False)
    standing = qualification.standings([analysis])[analysis.series.seal]
    assert standing.sd is not None
    assert standing.sd > 1
    assert standing.more is None
