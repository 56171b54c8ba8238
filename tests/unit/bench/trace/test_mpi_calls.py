"""Calls of MPI that were made by hand: who waits for whom, which worlds there are, what is told."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.trace import costs, critical_path, trace_analysis, trace_text, wait_words
from dlcontainer.bench.trace.mpi_calls import mpi_text
from dlcontainer.bench.trace.mpi_calls.call_file import Content
from dlcontainer.bench.trace.trace_records import MpiTrace, MpiWorld, SideTrace
from dlcontainer.errors import BenchDataError
from tests import madetraces, madewatches
from tests.madecalls import MadeCall, MadeProcess, call, content, leave
from tests.unit.bench.trace.test_trace import LATE, QUICK

S = 1e-3


def side(folder: Path, *processes: MadeProcess, ranks: int = 2) -> SideTrace:
    return trace_analysis.read(leave(folder / "trace", *processes), "native", ranks, "ended")


def mpi(folder: Path, *processes: MadeProcess) -> MpiTrace:
    trace = side(folder, *processes).mpi
    assert trace is not None
    return trace


def world(folder: Path, first: list[MadeCall], second: list[MadeCall], **more: Any) -> MpiWorld:
    (one,) = mpi(
        folder,
        MadeProcess(rank=0, calls=first, **more),
        MadeProcess(rank=1, calls=second, **more),
    ).worlds
    return one


def waits(of: MpiWorld) -> dict[int, dict[int, float]]:
    return {
        row.rank: {who: round(1e3 * seconds, 6) for who, seconds in row.waiting_for.items()}
        for row in of.ranks
    }


def test_a_rank_waits_for_the_last_one(tmp_path: Path) -> None:
    told = world(
        tmp_path,
        [call("Allreduce", 10, 250, sent=8000, turn=1)],
        [call("Allreduce", 210, 250, sent=8000, turn=1)],
    )
    assert waits(told) == {0: {1: 200.0}, 1: {}}
    first, second = told.ranks
    assert (first.total_s, first.computing_s) == pytest.approx((250 * S, 10 * S))
    assert (first.transfer_s, second.transfer_s) == pytest.approx((40 * S, 40 * S))
    reduced = told.calls[0]
    assert (reduced.kind, reduced.bytes, reduced.calls) == ("MPI_Allreduce", 8000, 2)
    assert (reduced.seconds, reduced.waiting_s) == pytest.approx((280 * S, 200 * S))
    assert mpi_text.longest_wait(told) == "rank 0 of sim waits for rank 1, 200.0 of 250.0 ms"
    assert list(mpi_text.notes(told)) == []


def test_collectives_are_told_by_their_communicator_and_turn(tmp_path: Path) -> None:
    told = world(
        tmp_path,
        [
            call("Allreduce", 0, 30, sent=4, turn=1),
            call("Allreduce", 40, 90, sent=4, turn=1, comm=1),
        ],
        [
            call("Allreduce", 20, 30, sent=4, turn=1),
            call("Allreduce", 80, 90, sent=4, turn=1, comm=1),
        ],
    )
    assert waits(told) == {0: {1: 60.0}, 1: {}}


@pytest.mark.parametrize(
    ("kind", "root", "expected"),
    [
        ("Bcast", 1, {0: {1: 50.0}, 1: {}}),
        ("Bcast", 0, {0: {}, 1: {}}),
        ("Reduce", 0, {0: {1: 50.0}, 1: {}}),
        ("Reduce", 1, {0: {}, 1: {}}),
    ],
)
def test_a_root(
    tmp_path: Path, kind: str, root: int, expected: dict[int, dict[int, float]]
) -> None:
    first = call(kind, 0, 60, sent=8, turn=1, peer=root)
    assert (
        waits(world(tmp_path, [first], [call(kind, 50, 60, sent=8, turn=1, peer=root)])) == expected
    )


def test_a_late_sender_and_a_send_that_is_held_up(tmp_path: Path) -> None:
    told = world(
        tmp_path,
        [
            call("Recv", 0, 101, got=40, peer=1, tag=3, post=1),
            call("Send", 110, 300, sent=9, peer=1, tag=3, post=2),
        ],
        [
            call("Send", 100, 102, sent=40, peer=0, tag=3, post=1),
            call("Recv", 290, 301, got=9, peer=0, tag=3, post=2),
        ],
    )
    assert waits(told) == {0: {1: 280.0}, 1: {}}


def test_a_message_is_awaited_where_the_wait_is(tmp_path: Path) -> None:
    told = world(
        tmp_path,
        [
            call("Irecv", 0, 1, peer=1, tag=3, post=1),
            call("Wait", 50, 81),
            MadeCall(
                kind="MPI_Irecv", begin=50, end=81, got=4, peer=1, tag=3, post=1,
                what=Content.RECEIVED,
            ),
        ],
        [
            call("Isend", 80, 81, sent=4, peer=0, tag=3, post=1),
            call("Wait", 82, 83),
            MadeCall(
                kind="MPI_Isend", begin=82, end=83, sent=4, peer=0, tag=3, post=1,
                what=Content.SENT,
            ),
        ],
    )  # fmt: skip
    assert waits(told) == {0: {1: 30.0}, 1: {}}
    assert told.apart == 0


def test_a_collective_that_is_started_is_awaited_later(tmp_path: Path) -> None:
    def rank(begin: float, wait: float) -> list[MadeCall]:
        awaited = MadeCall(
            kind="MPI_Iallreduce", begin=wait, end=100, sent=8, turn=1, what=Content.COLLECTED
        )
        started = call("Iallreduce", begin, begin + 1, sent=8, turn=1)
        return [started, call("Wait", wait, 100), awaited]

    assert waits(world(tmp_path, rank(0, 20), rank(90, 95))) == {0: {1: 70.0}, 1: {}}


def test_messages_that_can_t_be_paired_blame_nobody(tmp_path: Path) -> None:
    received = [call("Recv", 0, 101, got=40, peer=1, post=1)]
    unequal = world(tmp_path / "a", received, [call("Send", 100, 102, sent=44, peer=0, post=1)])
    assert (waits(unequal), unequal.apart) == ({0: {}, 1: {}}, 2)
    more = [call("Send", 100 + i, 100 + i, sent=40, peer=0, post=i) for i in (1, 2)]
    assert world(tmp_path / "b", received, more).apart == 3
    # A rank that was killed has no more: what is there is joined.
    assert waits(world(tmp_path / "c", received, more, end=None))[0] == {1: 101.0}


def test_a_killed_rank(tmp_path: Path) -> None:
    calls = [call("Allreduce", 10 * i, 10 * i + 5, sent=8, turn=i) for i in (1, 2)]
    trace = leave(
        tmp_path / "trace",
        MadeProcess(rank=0, calls=calls),
        MadeProcess(rank=1, calls=calls[:1], end=None),
    )
    path = trace / "n-1.mpi"
    path.write_bytes(path.read_bytes()[:-10])
    told = trace_analysis.read(trace, "native", 2, "killed").mpi
    assert told is not None
    (one,) = told.worlds
    assert [row.ended for row in one.ranks] == ["finalize", "cut"]
    assert one.apart == 2
    assert "rank 1 was killed, or its disk was full: its last calls are missing" in list(
        mpi_text.notes(one)
    )


def test_worlds_are_told_apart(tmp_path: Path) -> None:
    def pair(**more: Any) -> list[MadeProcess]:
        return [MadeProcess(rank=rank, **more) for rank in range(2)]

    later = pair(launch="SLURM=1.0", begin=-0.5, program="post")
    worlds = mpi(tmp_path / "a", *pair(), *pair(launch="SLURM=1.1", program="two"), *later).worlds
    assert sorted(of.program for of in worlds) == ["post", "sim", "two"]
    assert all(len(of.ranks) == 2 and not of.reason for of in worlds)
    # Two at once, and nothing that numbers them.
    calls = [call("Allreduce", 0, 99, sent=8, turn=1)]
    beside = pair(launch="", calls=calls)
    worlds = mpi(tmp_path / "b", *beside, *pair(launch="", begin=-0.5, calls=calls)).worlds
    assert {of.reason for of in worlds} == {
        "several worlds ran at once, and their launcher did not number them"
    }
    assert worlds[0].calls[0].waiting_s is None


def test_a_rank_without_calls(tmp_path: Path) -> None:
    (one,) = mpi(tmp_path, MadeProcess(rank=1, ranks=3)).worlds
    assert one.missing == (0, 2)
    assert mpi_text.headline(one) == "MPI, 1 of 3 ranks of sim"


def test_clocks_of_two_nodes(tmp_path: Path) -> None:
    calls = [call("Allreduce", 10, 20, sent=8, turn=1)]
    late = [call("Allreduce", 18, 20, sent=8, turn=1)]
    told = side(
        tmp_path,
        MadeProcess(rank=0, calls=calls),
        MadeProcess(rank=1, calls=late, boot="two", ahead_ms=500.0),
    )
    moved = told.clocks[1]
    assert moved.bound_s is not None
    assert abs(moved.moved_s + 0.5) <= moved.bound_s <= 12 * S
    assert told.mpi is not None
    (waiting,) = told.mpi.worlds[0].ranks[0].waiting_for.values()
    assert 0 < waiting <= 10 * S


def test_calls_beyond_the_events_are_in_sums(tmp_path: Path) -> None:
    sums = [("MPI_Allreduce", 10, 100.0)]
    calls = [call("Allreduce", 0, 10, sent=8, turn=1)]
    told = world(tmp_path, calls, calls, sums=sums, left_out=9)
    beyond, kept = (row for row in told.calls if row.kind == "MPI_Allreduce")
    assert (beyond.bytes, beyond.calls, kept.bytes, kept.calls) == (None, 18, 8, 2)
    assert (beyond.seconds, kept.seconds) == pytest.approx((180 * S, 20 * S))
    assert [row.calls for row in told.ranks] == [10, 10]
    assert "up to 9 calls of a rank are in sums alone" in " ".join(mpi_text.notes(told))


def test_a_sister_with_wider_counts_is_the_same_call(tmp_path: Path) -> None:
    calls = [
        call("Allreduce", 0, 10, sent=8, turn=1),
        call("Allreduce_c", 10, 20, sent=8, turn=2),
    ]
    sums = [("MPI_Allreduce", 1, 10.0), ("MPI_Allreduce_c", 1, 10.0)]
    told = world(tmp_path, calls, calls, sums=sums)
    assert [(row.kind, row.calls) for row in told.calls if row.bytes] == [("MPI_Allreduce", 4)]
    assert [row.calls for row in told.ranks] == [2, 2]


def parts(of: MpiWorld) -> list[tuple[int | None, str, float]]:
    assert of.path is not None
    return [(part.rank, part.collective, round(1e3 * part.seconds)) for part in of.path.parts]


def test_the_critical_path_goes_back_from_the_last_end(tmp_path: Path) -> None:
    told = world(
        tmp_path,
        [
            call("Allreduce", 10, 250, sent=8000, turn=1),
            call("Send", 330, 335, sent=4, peer=1, tag=3, post=1),
        ],
        [
            call("Allreduce", 210, 250, sent=8000, turn=1),
            call("Recv", 260, 340, got=4, peer=0, tag=3, post=1),
            call("Test", 340, 360),
        ],
    )
    # Back over the sender, which had waited for rank 1 itself.
    expected = [
        (1, "", 210), (None, "MPI_Allreduce", 40), (0, "", 80), (None, "MPI_Recv", 10),
        (1, "", 20),
    ]  # fmt: skip
    assert parts(told) == expected
    assert told.path is not None
    sums = [(part.rank, part.collective) for part in told.path.sums]
    assert sums == [(1, ""), (0, ""), (None, "MPI_Allreduce"), (None, "MPI_Recv")]
    assert told.path.sums[0].seconds == pytest.approx(230 * S)
    assert told.path.sums[0].computing_s == pytest.approx(210 * S)
    assert told.path.seconds == pytest.approx(360 * S)
    assert wait_words.program_path(told.program, told.path) == (
        "sim, 360.0 ms: rank 1 210.0 ms (outside of MPI 210.0, in MPI 0.000) -> "
        "MPI_Allreduce 40.0 ms -> rank 0 80.0 ms (outside of MPI 80.0, in MPI 0.000) -> "
        "MPI_Recv 10.0 ms -> rank 1 20.0 ms (outside of MPI 0.000, in MPI 20.0)"
    )


def test_a_critical_path_of_many_short_parts_is_said_by_their_sums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The ranks take turns in being late: the second is at the end, the first is waited for.
    first, second = (
        [
            call("Allreduce", 100 * t - (10, 80)[(t + rank) % 2], 100 * t, sent=8, turn=t)
            for t in range(1, 21)
        ]
        for rank in range(2)
    )
    second.append(call("Test", 2000, 2001))
    whole = world(tmp_path / "a", first, second)
    monkeypatch.setattr(critical_path, "_MOST_PARTS", 10)
    told = world(tmp_path / "b", first, second)
    assert whole.path is not None
    assert told.path is not None
    assert (len(whole.path.parts), whole.path.left_out) == (41, 0)
    assert (len(told.path.parts), told.path.left_out) == (10, 31)
    assert sum(part.seconds for part in whole.path.parts) == pytest.approx(2001 * S)
    assert told.path.left_out_s == pytest.approx(1101 * S)
    for of in (whole.path, told.path):
        assert wait_words.program_path("sim", of) == (
            "sim, 2001.0 ms: 41 parts, in all "
            "rank 1 901.0 ms (outside of MPI 900.0, in MPI 1.000), "
            "rank 0 900.0 ms (outside of MPI 900.0, in MPI 0.000), MPI_Allreduce 200.0 ms"
        )


def test_without_all_ranks_there_is_no_critical_path(tmp_path: Path) -> None:
    calls = [call("Allreduce", 10, 20, sent=8, turn=1)]
    (missing,) = mpi(tmp_path / "a", MadeProcess(rank=0, calls=calls)).worlds
    (alone,) = mpi(tmp_path / "b", MadeProcess(rank=0, calls=calls, ranks=1)).worlds
    assert (missing.path, alone.path) == (None, None)
    # Nothing happened behind MPI_Init.
    assert world(tmp_path / "c", [], []).path is None


def test_polls_count_as_calls(tmp_path: Path) -> None:
    told = world(tmp_path, [call("Test", 0, 10, polls=7)], [])
    assert (told.calls[0].kind, told.calls[0].calls) == ("MPI_Test", 7)


def test_why_there_are_no_calls(tmp_path: Path) -> None:
    madetraces.leave(
        tmp_path / "trace",
        [madetraces.MadeRank(spans=QUICK), madetraces.MadeRank(spans=LATE)],
    )
    (tmp_path / "mpi").mkdir()
    (tmp_path / "mpi/n1.none").write_text("there is no mpicc on PATH\n")
    told = side(tmp_path, MadeProcess(rank=-1, ranks=0, reason="another family"))
    assert told.mpi == MpiTrace(
        reasons=(
            "calls of MPI were not traced: there is no mpicc on PATH",
            "sim was not traced: another family (Open MPI v5.0.11, made)",
        )
    )
    assert list(trace_text.notes(told))[-2:] == list(told.mpi.reasons)


def test_a_file_of_a_full_disk(tmp_path: Path) -> None:
    (leave(tmp_path / "trace") / "n-7.mpi").write_bytes(b'{"schema')
    told = mpi(tmp_path, MadeProcess(rank=0))
    assert told.reasons == ("1 process of MPI could not write: the disk was full",)
    assert told.worlds[0].missing == (1,)


def test_nothing_at_all(tmp_path: Path) -> None:
    with pytest.raises(BenchDataError, match="none called MPI") as failure:
        side(tmp_path)
    assert failure.value.why is not None
    assert "calls of MPI are seen where they pass a shared library" in failure.value.why


def test_a_simulation_beside_a_training(tmp_path: Path) -> None:
    ranks = [madetraces.MadeRank(spans=QUICK), madetraces.MadeRank(spans=LATE), None]
    madetraces.leave(tmp_path / "trace", ranks)
    calls = [call("Allreduce", 0, 10, sent=8, turn=1)]
    told = side(tmp_path, *(MadeProcess(rank=r, calls=calls, place="2") for r in (0, 1)), ranks=3)
    # The launcher's third rank is one of MPI.
    assert told.missing == ()
    assert [row.rank for row in told.ranks] == [0, 1]
    assert told.slowest is not None
    assert told.mpi is not None
    assert len(told.mpi.worlds) == 1
    assert any(name.endswith(".mpi") for name in told.files)


def test_a_rank_that_started_a_simulation_and_was_killed_is_missing(tmp_path: Path) -> None:
    madetraces.leave(tmp_path / "trace", [madetraces.MadeRank(spans=QUICK)] * 2)
    path = next((tmp_path / "trace").glob("rank-00001*.trace"))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:4]))
    told = side(tmp_path, *(MadeProcess(rank=rank, place="1") for rank in (0, 1)))
    assert [rank.rank for rank in told.missing] == [1]


def test_a_side_without_steps_has_no_slowest(tmp_path: Path) -> None:
    told = side(tmp_path, *(MadeProcess(rank=rank) for rank in (0, 1)))
    assert (told.slowest, told.ranks, told.missing, told.steps) == (None, (), (), 0)
    assert trace_text.headline(told) == "native, no steps of PyTorch: MPI, 2 ranks of sim"
    assert trace_text.longest_wait(told) == "no rank of sim is known to wait for another"


GOOD = MadeProcess(rank=0, calls=[call("Allreduce", 10, 20, sent=8, turn=1)])


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (b"{}\n", "Field required"),
        (content(MadeProcess(rank=0, calls=[call("Allreduce", 20, 10)])), "ends before it begins"),
        (content(MadeProcess(rank=0, end=3)), "there is no kind 3"),
        (content(GOOD) + bytes(48) + b"\x63" + bytes(15), "99 is not a valid"),
    ],
)
def test_a_damaged_file(tmp_path: Path, broken: bytes, why: str) -> None:
    folder = leave(tmp_path / "trace")
    (folder / "n-0.mpi").write_bytes(broken)
    with pytest.raises(BenchDataError, match="calls of a process of MPI can't be read") as failure:
        trace_analysis.read(folder, "native", 2, "ended")
    assert failure.value.where == str(folder / "n-0.mpi")
    assert failure.value.why is not None
    assert why in failure.value.why


def test_what_costs_the_time_of_a_program(tmp_path: Path) -> None:
    processes = [
        MadeProcess(rank=0, calls=[call("Allreduce", 10, 250, sent=8000, turn=1)]),
        MadeProcess(rank=1, calls=[call("Allreduce", 210, 250, sent=8000, turn=1)]),
    ]
    traces = leave(tmp_path / "trace", *processes)
    # Rank 1 sleeps from 12 to 200 ms.
    madewatches.leave(traces, 0, [(1, 8, 3, "running", None)])
    madewatches.leave(traces, 1, [(12, 200, 19, "asleep", None)])
    told = trace_analysis.read(traces, "native", 2, "ended")
    assert trace_text.cost_lines(told) == []
    (of,) = trace_text.worlds(told)
    first, second, *_ = costs.of_world(of)
    assert first.what == "rank 0 waits for rank 1, which is asleep"
    # Its 200 ms, and the same 200 ms of the rank that slept.
    assert first.seconds == pytest.approx(200 * S, rel=0.01)
    assert first.looks > 30
    assert second.what == "MPI_Allreduce of 8,000 bytes is under way, and nothing beside it"
    assert second.seconds == pytest.approx(40 * S)
    assert trace_text.world_cost_lines(of)[0].startswith("1. rank 0 waits for rank 1")


def test_without_looks_nobody_is_said_to_compute(tmp_path: Path) -> None:
    told = world(
        tmp_path,
        [call("Allreduce", 10, 250, sent=8000, turn=1)],
        [call("Allreduce", 210, 250, sent=8000, turn=1)],
    )
    said = [line.what for line in costs.of_world(told)]
    assert "all ranks do what no look saw" in said
    assert not any("compute" in what for what in said)
