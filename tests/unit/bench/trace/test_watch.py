"""What is said of a job's processes, and what costs its time, of watches whose truth is known."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.trace import costs, trace_analysis, trace_text
from dlcontainer.bench.trace.rank_activities import RankActivities
from dlcontainer.bench.trace.trace_records import SideTrace
from dlcontainer.bench.trace.watch import rank_doing, watch_file, watch_text
from dlcontainer.errors import BenchDataError
from tests import madewatches
from tests.madetraces import BASE_NS, MS, STEPS, MadeRank, leave
from tests.madewatches import DEVICE, Runs
from tests.unit.bench.trace.test_trace import LATE, QUICK

BEHIND = "waits at a pipe, beside which another thread or a child reads /data (slowfs)"
# Rank 1 computes for 10 ms of each step of 100, sleeps or reads until 70, reduces until 75.
BUSY = "running"


def late_runs(doing: str, device: str | None = None) -> Runs:
    return [
        run
        for step in range(STEPS)
        for run in (
            (100 * step + 12, 100 * step + 66, 10, doing, device),
            (100 * step + 78, 100 * step + 98, 5, BUSY, None),
        )
    ]


QUICK_RUNS: Runs = [(100 * step + 78, 100 * step + 98, 5, BUSY, None) for step in range(STEPS)]


def side(folder: Path, late: Runs = (), quick: Runs = QUICK_RUNS, **changes: Any) -> SideTrace:
    traces = leave(folder / "trace", [MadeRank(spans=QUICK), MadeRank(spans=LATE)])
    madewatches.leave(traces, 0, quick)
    madewatches.leave(traces, 1, late, **changes)
    return trace_analysis.read(traces, "native", 2, "ended")


@pytest.mark.parametrize(
    ("doing", "device", "words"),
    [
        ("asleep", None, "rank 0 waits for rank 1, which is asleep"),
        ("read", DEVICE, "rank 0 waits for rank 1, which reads /data (slowfs)"),
        ("path", None, "rank 0 waits for rank 1, which opens or stats files"),
        ("pipe", DEVICE, f"rank 0 waits for rank 1, which {BEHIND}"),
    ],
)
def test_a_wait_is_named_once_with_its_cause(
    tmp_path: Path, doing: str, device: str | None, words: str
) -> None:
    table = costs.lines(side(tmp_path, late_runs(doing, device)))
    first = table[0]
    # Rank 0's waiting, and the same moments of rank 1: over two ranks and 6 steps.
    assert first.what == words
    assert first.seconds == pytest.approx(STEPS * (56 + 56) / 2e3, rel=0.1)
    assert first.low_s < first.seconds < first.high_s
    assert first.looks > 0
    assert sum(line.share for line in table) == pytest.approx(1.0, abs=1e-6)
    assert sum(line.seconds for line in table) == pytest.approx(0.6, abs=1e-6)
    assert [line.seconds for line in table] == sorted((x.seconds for x in table), reverse=True)


def test_without_looks_nothing_is_put_down_to_anything(tmp_path: Path) -> None:
    ranks = [MadeRank(spans=QUICK), MadeRank(spans=LATE)]
    bare = trace_analysis.read(leave(tmp_path / "trace", ranks), "native", 2, "ended")
    assert bare.watch is None
    for traced in (bare, side(tmp_path, quick=())):
        table = costs.lines(traced)
        assert "rank 0 waits for rank 1" in [line.what for line in table]
        assert not any("asleep" in line.what for line in table)
        assert sum(line.share for line in table) == pytest.approx(1.0, abs=1e-6)


def test_looks_of_another_boot_are_not_this_rank_s(tmp_path: Path) -> None:
    traced = side(tmp_path, late_runs("asleep"), boot="two")
    assert traced.watch is not None
    assert {row.rank for row in traced.watch.doings} == {0}
    assert traced.watch.causes == ()


def test_a_rank_s_other_time_is_split_by_looks(tmp_path: Path) -> None:
    watch = side(tmp_path, late_runs("asleep")).watch
    assert watch is not None
    rows = {(row.rank, row.doing): row for row in watch.doings}
    late = rows[1, "asleep"]
    assert (late.time.looks, late.time.of) == (60, 90)
    assert late.time.seconds == pytest.approx(STEPS * 0.085 * 2 / 3)
    assert rows[1, "computing"].time.of == 0
    assert rows[0, "running"].time.seconds == pytest.approx(STEPS * 0.025)
    assert rows[0, "running"].waited_s == 0


def test_without_a_profile_of_computing_all_beside_calls_is_split(tmp_path: Path) -> None:
    """As calls of MPI alone tell it: what a rank did outside of them."""
    folder = madewatches.leave(
        tmp_path, 1, [(0, 90, 10, "running", None), (100, 190, 10, "asleep", None)]
    )
    activities = RankActivities(
        rank=1, window=(BASE_NS, BASE_NS + 200 * MS), computing=[(BASE_NS, BASE_NS + 200 * MS)],
        waiting={}, transfer=[], in_flight=[], waits=[],
    )  # fmt: skip
    process = rank_doing.TracedProcess(
        rank=1, boot="one", pid=2, moved_ns=0, is_computing_known=False
    )
    doings, causes = rank_doing.of([process], {1: activities}, watch_file.read(folder))
    assert causes == ()
    assert [row.doing for row in doings] == ["computing", "asleep"]
    assert [row.time.seconds for row in doings] == [pytest.approx(0.1)] * 2
    times = costs.RankParts(
        rank=1, total_s=0.2, computing_s=0.2, waiting_for={}, transfer_s=0.0, other_s=0.0
    )
    table = costs.of_ranks([times], {}, doings, causes)
    assert [line.what for line in table] == [
        "rank 1 computes",
        "rank 1 is asleep",
    ]


def test_a_side_without_a_profile_says_what_its_programs_did(tmp_path: Path) -> None:
    traced = replace(side(tmp_path), ranks=(), collectives=())
    first, second = costs.lines(traced)
    assert first.what == "the program python is asleep"
    assert first.seconds == pytest.approx(1.5)
    assert first.share == pytest.approx(0.75)
    assert second.what == "the program python reads /data (slowfs)"


def test_rows_and_notes(tmp_path: Path) -> None:
    hostile = madewatches.process(9, name="a\x1b[2Jb", bytes=None, peak_kib=None, many=3, main=[])
    traced = side(
        tmp_path, late_runs("asleep"), is_over=False, runs_left_out=7, is_adopting=False,
        calls_told=False, notes=["OSError: gone"],
        processes=[madewatches.process(2, calls_closed=True), hostile],
    )  # fmt: skip
    assert traced.watch is not None
    files, processes = watch_text.tables(traced.watch, 9)
    assert files[1][0][:5] == (
        "/data (slowfs)", "0", "2.0", "0.0", "0.500 s [0.254, 0.824], 10 looks",
    )  # fmt: skip
    assert processes[1][-1][0] == "a\x1b[2Jb, 3 of them"  # what prints it shows the code
    assert processes[1][-1][7:] == (*["not told"] * 4, "no look")
    assert processes[1][0][-1].startswith("asleep 1.500 s [")
    notes = list(trace_text.notes(traced))
    for part in (
        "processes were looked at 80 times, for 0.04 s of a processor (2.0 %",
        "the watch of rank 1 was killed",
        "system calls are not told apart",
        "1 process showed no system calls",
        "could leave the watch",
        "7 looks late in the job",
        "OSError: gone",
    ):
        assert any(part in note for note in notes), part


def test_a_file_system_that_nobody_could_name(tmp_path: Path) -> None:
    """What was opened by a path that could not be read has no device, and its row no name."""
    nameless: dict[str, Any] = {
        "device": None, "point": "", "within": [], "type": "", "source": "",
        "read_bytes": 0, "written_bytes": 0, "waits": {"path": [1, 0.1, 0.1]},
    }  # fmt: skip
    traced = side(tmp_path, late_runs("futex"), file_systems=[nameless])
    assert costs.lines(traced)[0].what == "rank 0 waits for rank 1, which waits for a thread"
    assert traced.watch is not None
    assert "not told" in {system.name for system in traced.watch.file_systems}


def test_a_run_that_was_cut_and_files_that_are_damaged(tmp_path: Path) -> None:
    folder = madewatches.leave(tmp_path, 0, [(0, 100, 3, "asleep", None)])
    runs = folder / "watch-0-n-1.runs"
    runs.write_text(runs.read_text() + "[1,5,[[0,1")
    (left,) = watch_file.read(folder)
    (run,) = left.runs[1, 5]
    assert [moment - run.begin for moment in run.moments()] == [0, 50_000_000, 100_000_000]
    for text in ("[]\n", '[1,5,[[0,100,0,"asleep",null]]]\n', '[1,5,[[0,1,1,"dancing",null]]]\n'):
        runs.write_text(text)
        with pytest.raises(BenchDataError, match="can't be read"):
            watch_file.read(folder)
    runs.unlink()
    assert watch_file.read(folder)[0].runs == {}
    (folder / "watch-0-n-1.watch").write_text("{}")
    with pytest.raises(BenchDataError, match="can't be read"):
        watch_file.read(folder)


def test_processes_alone_are_told(tmp_path: Path) -> None:
    traces = madewatches.leave(tmp_path / "trace", 0, QUICK_RUNS)
    told = trace_analysis.read(traces, "native", 1, "ended")
    assert told.no_trace is not None
    assert "no optimizer of PyTorch stepped in any process" in told.no_trace.what
    assert trace_text.headline(told) == "native, no steps of PyTorch, and no calls of MPI"
    assert trace_text.cost_lines(told)[0].startswith("1. the program python is asleep")
    with pytest.raises(BenchDataError, match="no optimizer of PyTorch stepped"):
        # Of a job that failed its own failure is told, with its last lines.
        trace_analysis.read(traces, "native", 1, "the job ended as FAILED")
