"""A trace on a page: the slowest step of each side, and the same in JSON and Markdown."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest

from dlcontainer.bench.report import html_report, inputs, json_report, markdown_report
from dlcontainer.bench.report.figures import timeline
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.trace import trace_analysis, trace_records
from dlcontainer.bench.trace.trace_records import JobTrace, SideName, SlowestStep, TimelineBar
from dlcontainer.errors import BenchDataError
from tests import madecalls
from tests.madecalls import call
from tests.madetraces import MadeRank, leave
from tests.unit.bench.report.test_html_report import TEMPLATES
from tests.unit.bench.trace.test_trace import ALONE, LATE, QUICK

RANKS = (MadeRank(spans=QUICK), MadeRank(spans=LATE))


def written(folder: Path, *ranks: MadeRank, **changes: object) -> Path:
    """Write the trace of two sides; what is changed is of the file's text."""
    names: tuple[SideName, SideName] = ("native", "container")
    sides = tuple(
        trace_analysis.read(leave(folder / side / "trace", ranks or RANKS), side, 2, "ended")
        for side in names
    )
    trace = JobTrace(
        created="2026-11-27T20:00:00Z", dlcontainer="0.14.0", site="local", image="p.sif",
        command=("python", "<train>.py"), sides=sides,
    )  # fmt: skip
    path = folder / "trace.json"
    body = {"schema": trace_records.SCHEMA, **json.loads(json.dumps(asdict(trace))), **changes}
    path.write_text(json.dumps(body))
    return path


@pytest.fixture
def finding(tmp_path: Path) -> InputFinding:
    return inputs.read(written(tmp_path))


def test_a_page_draws_the_slowest_step_of_each_side(finding: InputFinding) -> None:
    page = html_report.html([], TEMPLATES, [finding])
    for side in ("native", "container"):
        assert f"The slowest step, {side}" in page
        assert f"{side}: 100.0 ms a step, " in page
    assert page.count("Rank 0 waits longest: 56") == 2
    assert "&lt;train&gt;.py" in page
    assert page.count("waiting for a rank 1: 2 ms") == 2
    assert page.count("waiting for a rank 1: 54 ms") == 2


def test_without_operations_a_page_says_nothing_of_computing(tmp_path: Path) -> None:
    ranks = [MadeRank(spans=spans, operations=False) for spans in ALONE]
    page = html_report.html([], TEMPLATES, [inputs.read(written(tmp_path, *ranks))])
    assert "What is left blank is outside of collectives." in page
    assert "outside of collectives, ms" in page
    for absent in ("computing, ms", "hidden, ms", "communication, exposed", "of operations:"):
        assert absent not in page


def test_a_trace_as_markdown_and_json(finding: InputFinding) -> None:
    text = markdown_report.summary([], [finding])
    assert "critical path" in text
    bodies = json_report.report([], [finding])["findings"]
    assert isinstance(bodies, list)
    assert bodies[0]["trace"]["sides"][0]["collectives"][0]["bytes"] == 4000


def test_of_many_ranks_those_that_are_waited_for_are_drawn(tmp_path: Path) -> None:
    ranks = [MadeRank(spans=QUICK)] * timeline.MOST_RANKS + [MadeRank(spans=LATE)]
    side = trace_analysis.read(leave(tmp_path / "trace", ranks), "native", len(ranks), "ended")
    assert side.slowest is not None
    drawn = timeline.figure("native", side.slowest)
    assert "missing" not in drawn
    last = timeline.MOST_RANKS
    assert f"rank {last}</text>" in drawn
    assert f"rank {last - 1}</text>" not in drawn


def test_a_simulation_has_its_tables_and_figure(tmp_path: Path) -> None:
    processes = [
        madecalls.MadeProcess(rank=0, calls=[call("Allreduce", 10, 250, sent=8000, turn=1)]),
        madecalls.MadeProcess(rank=1, calls=[call("Allreduce", 210, 250, sent=8000, turn=1)]),
    ]
    traces = madecalls.leave(tmp_path / "trace", *processes)
    side = trace_analysis.read(traces, "native", 2, "ended")
    path = written(tmp_path, sides=[json.loads(json.dumps(asdict(side)))])
    page = html_report.html([], TEMPLATES, [inputs.read(path)])
    page = page.replace("\N{NO-BREAK SPACE}", " ")
    assert "native: rank 0 of sim waits for rank 1, 200.0 of 250.0 ms" in page
    assert "MPI, 2 ranks of sim, native" in page
    arrow = "\N{RIGHTWARDS ARROW}"
    said = f"rank 1 210.0 ms (outside of MPI 210.0, in MPI 0.000) {arrow} MPI_Allreduce 40.0 ms"
    assert f"Critical path, sim, 250.0 ms: {said}" in page
    assert "The slowest step" not in page
    assert "MPI, 2 ranks of sim, native: what each rank did" in page
    assert "MPI_Allreduce" in page


def step(bars: Mapping[int, tuple[TimelineBar, ...]], seconds: float = 1.0) -> SlowestStep:
    return SlowestStep(step=3, seconds=seconds, path=(), bars=bars)


def computing(begin: float, end: float) -> TimelineBar:
    return TimelineBar(activity="computing", begin_s=begin, end_s=end)


def widths(drawn: str) -> list[float]:
    """Give the widths of what is drawn as computing, but for the legend's square."""
    return [float(each) for each in re.findall(r'class="p2" [^>]*? width="([0-9.]+)"', drawn)][1:]


def test_both_sides_have_one_scale_of_time() -> None:
    bars = {0: (computing(0, 1),)}
    (alone,) = widths(timeline.figure("native", step(bars)))
    (beside,) = widths(timeline.figure("native", step(bars), longest_s=4.0))
    assert beside == pytest.approx(alone / 4, rel=0.01)


def test_a_rank_that_left_nothing_has_its_row() -> None:
    drawn = timeline.figure("native", step({0: (computing(0, 1),)}), missing=(1,))
    assert "rank 1</text>" in drawn
    assert "missing: it left no trace" in drawn


def test_bars_that_are_too_narrow_become_shares() -> None:
    # Half of each 2 ms of half a minute.
    many = tuple(computing(n / 500, n / 500 + 0.001) for n in range(15_000))
    slowest = step({0: many}, seconds=30.0)
    assert timeline.is_columns(slowest)
    drawn = timeline.figure("native", slowest)
    assert "seconds of the step" in drawn
    assert "milliseconds" not in drawn
    heights = {float(each) for each in re.findall(r'class="p2" [^>]*? height="([0-9.]+)"', drawn)}
    # Half of a bar's 14; the legend's square has 10.
    assert {round(height) for height in heights} == {7, 10}
    assert drawn.count("computing 50%") > 100


def test_a_step_without_length_is_drawn() -> None:
    assert "rank 0</text>" in timeline.figure("native", step({0: ()}, seconds=0.0))


@pytest.mark.parametrize("changes", [{"sides": []}, {"sides": 7}, {"more": 1}, {"site": None}])
def test_a_trace_that_was_changed_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(BenchDataError, match="not a file that `report` reads"):
        inputs.read(written(tmp_path, **changes))
