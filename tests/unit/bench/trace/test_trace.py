"""What a trace says, of traces whose truth is known."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.trace import overhead, trace_analysis, trace_text, wait_words
from dlcontainer.bench.trace.process_trace import AFTER, BEFORE, TRACED
from dlcontainer.bench.trace.trace_records import SideTrace, TraceOverhead
from dlcontainer.errors import BenchDataError
from tests.madetraces import FLOATS, STEPS, MadeRank, leave

# In each step rank 1 sleeps for 60 ms, then all reduce; beside 4 ms of it rank 0 computes.
WAITED, SIZE = 60.0, 4 * FLOATS


def stepped(*spans: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Repeat the spans of a step in each of them."""
    return [
        (name, 100 * step + begin, 100 * step + end, *rest)
        for step in range(STEPS)
        for name, begin, end, *rest in spans
    ]


QUICK = stepped(("aten::mm", 0, 10), ("gloo:all_reduce", 10, 75), ("aten::add", 12, 16))
LATE = stepped(("aten::mm", 0, 10), ("gloo:all_reduce", 70, 75))


def read(folder: Path, ranks: Sequence[MadeRank | None]) -> SideTrace:
    return trace_analysis.read(leave(folder / "trace", ranks), "native", len(ranks), "ended")


def test_a_planted_wait_is_named_with_its_rank(tmp_path: Path) -> None:
    side = read(tmp_path, [MadeRank(spans=QUICK), MadeRank(spans=LATE)])
    quick, late = side.ranks
    assert side.missing == ()
    assert quick.waiting_for == {1: pytest.approx(STEPS * (WAITED - 4) / 1e3)}
    assert late.waiting_for == {}
    assert quick.computing_s == pytest.approx(0.084)
    assert quick.hidden_s == pytest.approx(0.024)
    assert late.other_s == pytest.approx(STEPS * 0.085)
    for row in side.ranks:
        parts = row.computing_s + sum(row.waiting_for.values()) + row.exposed_s + row.other_s
        assert parts == pytest.approx(row.total_s) == pytest.approx(0.6)
    (collective,) = side.collectives
    assert (collective.kind, collective.bytes, collective.calls) == ("all_reduce", SIZE, STEPS)
    # Means over the two ranks.
    assert collective.in_flight_s == pytest.approx(STEPS * (65 + 5) / 2e3)
    assert collective.hidden_s == pytest.approx(STEPS * 4 / 2e3)
    assert collective.waiting_s == pytest.approx(STEPS * 56 / 2e3)


def test_the_critical_path_goes_over_the_rank_that_was_waited_for(tmp_path: Path) -> None:
    lengths = {TRACED: [100.0] * (STEPS - 1) + [120.0]}
    ranks = [MadeRank(spans=QUICK, lengths_ms=lengths), MadeRank(spans=LATE)]
    slowest = read(tmp_path, ranks).slowest
    assert slowest is not None
    assert slowest.step == 2 * STEPS
    parts = [(part.rank, part.collective, round(1e3 * part.seconds)) for part in slowest.path]
    assert parts == [(1, "", 70), (None, "all_reduce", 5), (0, "", 45)]
    assert "rank 1 70.0 ms (computing 10.0, communication 0.000, other 60.0) -> " in (
        wait_words.step_path(slowest)
    )
    assert [bar.activity for bar in slowest.bars[0]] == [
        "computing", "waiting", "computing", "waiting", "transfer",
    ]  # fmt: skip


# As PyTorch leaves them without operations: rank 0 computes, which nothing tells.
ALONE = [[span for span in spans if "gloo" in span[0]] for spans in (QUICK, LATE)]


def test_without_operations_computing_is_not_told(tmp_path: Path) -> None:
    side = read(tmp_path, [MadeRank(spans=spans, operations=False) for spans in ALONE])
    quick, late = side.ranks
    assert quick.waiting_for == {1: pytest.approx(STEPS * WAITED / 1e3)}
    assert quick.other_s == pytest.approx(STEPS * 0.035)
    assert late.waiting_for == {}
    assert late.other_s == pytest.approx(STEPS * 0.095)
    assert trace_text.shares(side) == (
        "native: 100.0 ms a step, 30 % waiting, 5 % communication, 65 % outside of collectives"
    )
    assert trace_text.ranks(side).rows[0][2:] == ("100.0", "60.0", "rank 1 60.0", "5.000", "35.0")
    assert trace_text.ranks(side).head[-2:] == ("communication, ms", "outside of collectives, ms")
    assert trace_text.collectives(side).head[-2:] == ("in flight, ms", "of it waiting, ms")
    assert trace_text.collectives(side).rows == (("all_reduce", "4,000", "1", "35.0", "30.0"),)
    assert "at most that" in "\n".join(trace_text.notes(side))
    assert side.slowest is not None
    path = wait_words.step_path(side.slowest, is_computing_known=False)
    assert "rank 1 70.0 ms (outside of collectives 70.0, in them 0.000) -> " in path
    assert not any("nothing beside it" in line for line in trace_text.cost_lines(side))


def test_without_operations_a_device_tells_when_it_computed(tmp_path: Path) -> None:
    spans = [[*own, *stepped(("ampere_sgemm", 10, 30, 7))] for own in ALONE]
    ranks = [MadeRank(spans=own, operations=False, kernels=("ampere_sgemm",)) for own in spans]
    side = read(tmp_path, ranks)
    assert side.is_computing_known
    assert side.ranks[0].computing_s == pytest.approx(STEPS * 0.02)


def test_a_trace_that_costs_too_much_names_the_way_out(tmp_path: Path) -> None:
    side = read(tmp_path, [MadeRank(spans=QUICK), MadeRank(spans=LATE)])
    for low, is_said in ((1.06, True), (1.0, False)):
        dear = TraceOverhead(ratio=1.1, low=low, high=1.2, steps=9)
        notes = "\n".join(trace_text.notes(replace(side, overhead=dear)))
        assert ("--no-operations" in notes) is is_said


@pytest.mark.parametrize("ahead_ms", [50.0, -50.0, 3.0])
def test_clocks_are_joined_by_what_no_rank_can_end_alone(tmp_path: Path, ahead_ms: float) -> None:
    ranks = [MadeRank(spans=QUICK), MadeRank(spans=LATE, ahead_ms=ahead_ms, boot="two")]
    side = read(tmp_path, ranks)
    moved = side.clocks[1]
    assert moved.bound_s is not None
    assert abs(moved.moved_s + ahead_ms / 1e3) <= moved.bound_s + 1e-6
    if ahead_ms == 50.0:
        # All reduce at once, in 5 ms: the true move is known within those, and one end is taken.
        assert moved.moved_s == pytest.approx(-0.045)
    told = "\n".join(trace_text.notes(side))
    assert "the clock of node of two was moved by" in told


def test_a_clock_that_nothing_joins(tmp_path: Path) -> None:
    spans = stepped(("gloo:broadcast", 10, 20))
    side = read(tmp_path, [MadeRank(spans=spans), MadeRank(spans=spans, boot="two")])
    assert side.clocks[1].bound_s is None
    assert "can't be joined" in "\n".join(trace_text.notes(side))
    # A broadcast may end at a rank before it began at another: nobody was waited for.
    assert all(row.waiting_for == {} for row in side.ranks)


@pytest.mark.parametrize(
    ("groups", "says"), [(2, "several process groups"), (None, "how many process groups")]
)
def test_of_several_groups_nobody_is_blamed(tmp_path: Path, groups: int | None, says: str) -> None:
    ranks = [MadeRank(spans=spans, groups=groups) for spans in (QUICK, LATE)]
    side = read(tmp_path, ranks)
    assert says in "\n".join(side.notes)
    assert side.ranks[0].waiting_for == {}
    assert side.collectives[0].waiting_s is None
    assert trace_text.collectives(side).rows[0][-1] == "not told"


def test_groups_that_are_named_are_joined(tmp_path: Path) -> None:
    ranks = [
        MadeRank(spans=spans, groups=2, arguments={"Process Group Name": name})
        for name in ("tp", "dp")
        for spans in (QUICK, LATE)
    ]
    side = read(tmp_path, ranks)
    assert [sorted(row.waiting_for) for row in side.ranks] == [[1], [], [3], []]


def test_a_collective_without_a_counterpart_is_counted(tmp_path: Path) -> None:
    more = [*LATE, ("gloo:all_reduce", 90, 95)]
    side = read(tmp_path, [MadeRank(spans=QUICK), MadeRank(spans=more)])
    assert side.notes[0] == "1 span of collectives without a counterpart at other ranks"
    assert side.ranks[0].waiting_for == {1: pytest.approx(0.336)}


def test_ranks_that_are_missing_are_named(tmp_path: Path) -> None:
    killed = leave(tmp_path / "trace", [MadeRank(spans=QUICK), MadeRank(end=None), None])
    (killed / "rank-00001-n1-2-7.kineto.json").unlink()
    side = trace_analysis.read(killed, "native", 3, "rank 1 ended with exit code 137")
    assert [missing.rank for missing in side.missing] == [1, 2]
    told = list(trace_text.notes(side))
    assert told[0].startswith("rank 1 is missing: killed: its last block that was written ended")
    assert told[1].startswith("rank 2 is missing: it left nothing")
    assert "there is one rank" in told[2]
    assert side.ranks[0].computing_s == pytest.approx(0.084)


def test_a_program_that_profiles_itself(tmp_path: Path) -> None:
    ended = MadeRank(spans=QUICK, end="the program profiles itself")
    side = read(tmp_path, [ended])
    assert "a trace ended early: the program profiles itself" in side.notes


def test_no_trace_at_all(tmp_path: Path) -> None:
    with pytest.raises(BenchDataError, match="no optimizer of PyTorch stepped"):
        read(tmp_path, [None, None])


def test_no_profile_at_all(tmp_path: Path) -> None:
    folder = leave(tmp_path / "trace", [MadeRank(end="the program ended")])
    next(folder.glob("*.kineto.json")).unlink()
    with pytest.raises(BenchDataError, match="no rank left a profile") as caught:
        trace_analysis.read(folder, "native", 1, "ended")
    assert "the program ended" in str(caught.value.why)


@pytest.mark.parametrize(
    "text", ["", "{}\n", '{"schema": "x"}\n', "\N{SNOWMAN}", '{"schema": 1}\n{"step": 1}\n']
)
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    folder = leave(tmp_path / "trace", [MadeRank(spans=QUICK)])
    next(folder.glob("*.trace")).write_text(text)
    with pytest.raises(BenchDataError, match="the trace of a process can't be read"):
        trace_analysis.read(folder, "native", 1, "ended")


def test_a_file_outside_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = leave(tmp_path / "trace", [MadeRank(spans=QUICK)])
    path = next(folder.glob("*.trace"))
    path.write_text(path.read_text().replace('"rank-00000-n0-1-7.k', '"../rank-0.k'))
    with pytest.raises(BenchDataError, match="can't be read"):
        trace_analysis.read(folder, "native", 1, "ended")


@pytest.mark.parametrize(
    ("traced", "word"),
    [
        ([100, 103, 102, 103, 102, 103], "at most 5 %"),
        ([100, 122, 120, 121, 119, 120], "ABOVE 5 %"),
        ([100, 130, 90, 120, 80, 125], "CAN'T TELL"),
    ],
)
def test_overhead_is_marked(tmp_path: Path, traced: list[float], word: str) -> None:
    side = read(tmp_path, [MadeRank(spans=QUICK, lengths_ms={TRACED: traced})])
    assert word in trace_text.headline(side)


def test_a_drift_is_no_overhead(tmp_path: Path) -> None:
    # Each step takes 2 % longer than the one before, and a little more or less.
    ratios = [1.02**i * (1 + 0.001 * (-1) ** (i * i // 3)) for i in range(3 * STEPS)]
    blocks = {b: [100 * r for r in ratios[b * STEPS : (b + 1) * STEPS]] for b in range(3)}
    cost = read(tmp_path, [MadeRank(spans=QUICK, lengths_ms=blocks)]).overhead
    assert cost.low is not None
    assert cost.high is not None
    assert 0.99 < cost.low < 1 < cost.high < 1.01


def test_a_machine_that_changed_between_the_blocks(tmp_path: Path) -> None:
    # Each block is steady, and the last one 30 % slower: so may the middle one have been.
    steady = [100.0, 100.5, 100.1, 100.4, 100.2, 100.3]
    lengths = {BEFORE: steady, TRACED: [1.15 * s for s in steady], AFTER: [1.3 * s for s in steady]}
    cost = read(tmp_path, [MadeRank(spans=QUICK, lengths_ms=lengths)]).overhead
    assert cost.low is not None
    assert cost.high is not None
    assert cost.low < 0.9
    assert cost.high > 1.1


def test_an_overhead_that_can_t_be_told(tmp_path: Path) -> None:
    side = read(tmp_path, [MadeRank(spans=QUICK, lengths_ms={AFTER: []})])
    assert "can't be told: too few steps without the profiler" in trace_text.headline(side)
    assert "equal to the last digit" in overhead.words(
        read(tmp_path / "b", [MadeRank(spans=QUICK)]).overhead
    )
    assert overhead.words(TraceOverhead(reason="x")) == "the cost of tracing can't be told: x"


def test_a_trace_says_what_of_a_step_is_lost(tmp_path: Path) -> None:
    side = read(tmp_path, [MadeRank(spans=QUICK), MadeRank(spans=LATE)])
    said = trace_text.shares(side)
    assert said.startswith("native: 100.0 ms a step, ")
    assert sum(map(int, re.findall(r"([0-9]+) %", said))) == pytest.approx(100, abs=2)
    assert trace_text.longest_wait(side) == "rank 0 waits longest: 56 %, for rank 1"
    # 600 ms are six steps of 100.
    assert trace_text.ranks(side).rows[0][2] == "100.0"
    assert trace_text.collectives(side).rows[0][2] == f"{side.collectives[0].calls / STEPS:.3g}"
    alone = replace(side, ranks=(replace(side.ranks[0], waiting_for={}),))
    assert trace_text.longest_wait(alone) == "one rank"
    assert "no length" in trace_text.shares(replace(side, ranks=()))
