"""The collectives probe: known results, the gates before any time counts, rows in rounds."""

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.probes import PROBES, collectives
from dlcontainer.bench.probes.probe import ParameterContext, ProbeCell, ProbeSubject
from dlcontainer.bench.samples.rows import agreement, joining
from dlcontainer.config.resources import PROBE
from dlcontainer.errors import ChecksFailedError, UsageError
from tests import rowseries
from tests.rowseries import Plant
from tests.unit.probe.test_probe import copied

TORCH = ProbeSubject(image="x.sif", recipe="demo", modules=("torch", "numpy"))
OPERATIONS = collectives.OPERATIONS

# A backend of plain Python: every rank says what it has, and takes its part. FAULT plants one.
BACKEND = """
import json
import os

import barrier

FAULT = os.environ.get("FAULT", "")


class Group(object):
    framework = None

    def __init__(self, place, backend, patience):
        self.rank, self.size, self._acts = place.rank, place.size, 0
        environ = dict(os.environ, DLC_RANKS_MEET=os.environ["OTHER_MEET"])
        self._meeting = barrier.Meeting(place, environ)
        if FAULT == "alone":
            self.rank, self.size = 0, 1

    def prepare(self, elements):
        self._first, self._second = [0.0] * max(elements, 7), [0.0] * max(elements, 7)

    def fill(self, pattern):
        count = len(self._first)
        self._first = ((pattern or [0.0]) * count)[:count]
        self._second = [-1.0] * count

    def act(self, operation, elements):
        self._acts += 1
        if FAULT == "killed" and self.rank == 1 and self._acts == 30:
            os.kill(os.getpid(), 9)
        if operation == "barrier":
            return FAULT == "barrier" or self._meeting.wait()
        mine = json.dumps(self._first[:elements])
        said = [json.loads(line) for line in self._meeting.exchange(mine)]
        block, me = elements // self.size, self.rank
        sums = [sum(parts) for parts in zip(*said)]
        if operation == "broadcast":
            self._first[:elements] = said[0]
        elif operation == "all_reduce":
            self._first[:elements] = sums
        elif operation == "reduce_scatter":
            self._second[:block] = sums[me * block : (me + 1) * block]
        elif operation == "all_gather":
            self._second[:elements] = [x for one in said for x in one[:block]]
        elif operation == "all_to_all":
            parts = [one[me * block : (me + 1) * block] for one in said]
            self._second[:elements] = [x for part in parts for x in part]
        else:
            self._second[:elements] = said[(me - 1) % self.size]
        if FAULT == operation and self.rank == 1:
            own = self._first if operation in ("broadcast", "all_reduce") else self._second
            own[elements // self.size - 1] += 1

    def wrong(self, operation, part):
        own = self._first if operation in ("broadcast", "all_reduce") else self._second
        known = (part.pattern() * part.count)[: part.count]
        return sum(a != b for a, b in zip(own[part.at :], known))

    def transport(self):
        return {"backend": "plain"}

    def close(self):
        pass
"""


def settled(ranks: int = 2, **typed: Any) -> ProbeCell:
    values = PROBES["collectives"].values(typed, ParameterContext(contents=TORCH, ranks=ranks))
    return ProbeCell(values=values, threads=1, ranks=ranks)


def test_session_and_probe_have_the_same_lists(probe: Any) -> None:
    inside = probe("probe_collectives")
    assert inside.OPERATIONS == collectives.OPERATIONS
    assert inside.SPLIT == collectives.SPLIT
    assert inside.ABSENT == collectives.ABSENT
    assert set(inside.BACKENDS) == set(collectives.BACKENDS)
    for name in set(inside.BACKENDS.values()):
        assert (PROBE / f"collectives_{name}.py").is_file()


@pytest.mark.parametrize("ranks", [2, 3, 8, 6144])
@pytest.mark.parametrize("quick", [False, True])
def test_session_and_probe_list_the_same_rows(probe: Any, ranks: int, *, quick: bool) -> None:
    cell = settled(ranks, quick=quick)
    words = PROBES["collectives"].words(cell)
    inside = probe("probe_collectives")
    wanted = inside.options(list(words[1:]))
    plan = PROBES["collectives"].rows(cell)
    assert plan is not None
    assert inside.declared(wanted.operations, wanted.sizes, ranks) == list(plan.rows)
    assert wanted.rounds == plan.rounds == (3 if quick else 5)
    sizes = {int(row["bytes"]) for row in plan.rows}
    assert max(sizes) >= (4 << 20 if quick else 64 << 20)
    # A rank's part is whole elements.
    assert not [row for row in plan.rows if int(row["bytes"]) % 4]
    split = [row for row in plan.rows if row["operation"] in collectives.SPLIT]
    assert not [row for row in split if int(row["bytes"]) % (4 * ranks)]


def by_hand(operation: str, elements: int, rank: int, count: int) -> list[int]:
    """Give a rank's result: value i of rank r is (r % 8 + 1) * (i % 7 + 1)."""
    given = [[(r % 8 + 1) * (i % 7 + 1) for i in range(elements)] for r in range(count)]
    block = elements // count
    own = slice(rank * block, (rank + 1) * block)
    return {
        "broadcast": given[0],
        "all_reduce": [sum(column) for column in zip(*given, strict=True)],
        "reduce_scatter": [sum(column) for column in zip(*given, strict=True)][own],
        "all_gather": [value for one in given for value in one[:block]],
        "all_to_all": [value for one in given for value in one[own]],
        "send_recv": given[(rank - 1) % count],
    }[operation]


@pytest.mark.parametrize("operation", OPERATIONS[:-1])
@pytest.mark.parametrize("count", [2, 3, 9])
def test_the_known_results_by_hand(probe: Any, operation: str, count: int) -> None:
    inside, elements = probe("probe_collectives"), 12 * count
    for rank in range(count):
        found: list[int] = []
        for part in inside.expected(operation, elements, rank, count):
            assert part.at == len(found)
            found += (part.pattern() * part.count)[: part.count]
        assert found == by_hand(operation, elements, rank, count)


def test_results_of_ranks_differ(probe: Any) -> None:
    inside = probe("probe_collectives")
    for operation in ("reduce_scatter", "all_to_all", "send_recv"):
        each = [str([vars(p) for p in inside.expected(operation, 64, r, 4)]) for r in range(4)]
        assert len(set(each)) == 4, operation


def test_rows_are_visited_in_rounds(probe: Any) -> None:
    visited: list[int] = []
    checked: list[int] = []

    def visit(row: dict[str, int]) -> list[float]:
        assert len(checked) == 3
        visited.append(row["size"])
        return [0.5 + len(visited), 0.25]

    def check(row: dict[str, int]) -> int:
        checked.append(row["size"])
        return 5

    listed = [{"size": size} for size in (1, 2, 3)]
    found = probe("rows").measured(listed, 4, 7, check, visit)
    rounds = [visited[at : at + 3] for at in range(0, 12, 3)]
    assert all(sorted(one) == [1, 2, 3] for one in rounds)
    assert len({tuple(one) for one in rounds}) > 1
    assert [row["parameters"] for row in found] == listed
    assert {(row["n"], row["best"], row["checked"]) for row in found} == {(8, 0.25, 5)}
    assert len(joining.read(found)) == 3
    again: list[int] = []

    def again_visit(row: dict[str, int]) -> list[float]:
        again.append(row["size"])
        return [1.0]

    probe("rows").measured(listed, 4, 7, check, again_visit)
    assert again == visited


@pytest.mark.parametrize(("values", "middle"), [([3, 1, 2], 2), ([4, 1, 3, 2], 2.5), ([7], 7)])
def test_the_median(probe: Any, values: list[float], middle: float) -> None:
    assert probe("rows").median(values) == middle


def test_steal_is_what_the_kernel_counts(probe: Any, tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  10 20 30 40 50 60 70 250 90 100\ncpu0 1 2 3\n")
    assert probe("rows").stolen(str(stat)) == 250 / os.sysconf("SC_CLK_TCK")
    assert probe("rows").stolen(str(tmp_path / "none")) == 0.0


def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def launched(folder: Path, fault: str = "", ranks: int = 2, **typed: Any) -> list[Any]:
    """Start ranks with the plain backend; give what each said, or how it ended."""
    code = copied(folder / "p")
    (code / "collectives_torch.py").write_text(BACKEND)
    results = folder / "results"
    results.mkdir()
    words = PROBES["collectives"].words(settled(ranks, **{"quick": True, "largest": "64", **typed}))
    common = {
        "DLC_RANKS": str(ranks), "DLC_RANKS_RESULTS": str(results), "FAULT": fault,
        "DLC_RANKS_MEET": f"127.0.0.1:{port()}", "OTHER_MEET": f"127.0.0.1:{port()}",
        "DLC_RANKS_PATIENCE": "30",
    }  # fmt: skip
    started = [
        subprocess.Popen(
            [sys.executable, "-S", str(code), *words],
            env={**common, "DLC_RANK": str(rank), "DLC_LOCAL_RANK": str(rank)},
            stderr=subprocess.DEVNULL,
        )
        for rank in range(ranks)
    ]
    codes = [one.wait(120) for one in started]
    files = [results / f"rank-{rank:05d}.json" for rank in range(ranks)]
    pairs = zip(files, codes, strict=True)
    return [json.loads(file.read_text()) if file.exists() else code for file, code in pairs]


@pytest.mark.usefixtures("real_processes")
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_measure_all_rows(tmp_path: Path, ranks: int) -> None:
    bodies = launched(tmp_path, ranks=ranks)
    plan = PROBES["collectives"].rows(settled(ranks, quick=True, largest="64"))
    assert plan is not None
    for rank, body in enumerate(bodies):
        assert body["error"] is None
        assert body["seen"] == {"rank": rank, "size": ranks}
        found = joining.read(body["rows"])
        assert agreement.problem(plan, found) == ""
        assert {row.n for row in found} == {60}
        stamps = body["stamps_ns"]
        assert stamps["import"] <= stamps["process_group"] <= stamps["checked"] <= stamps["rows"]
    assert PROBES["collectives"].gate(bodies) == ""


@pytest.mark.usefixtures("real_processes")
@pytest.mark.parametrize("operation", ["all_reduce", "all_to_all"])
def test_a_wrong_value_ends_the_launch_before_any_time(tmp_path: Path, operation: str) -> None:
    _, wrong = launched(tmp_path, operation, operations=operation)
    assert wrong["error"].startswith(f"WrongError: {operation} of ")
    assert "1 of " in wrong["error"]
    assert "rows" not in wrong


@pytest.mark.usefixtures("real_processes")
def test_a_barrier_that_does_not_wait(tmp_path: Path) -> None:
    for body in launched(tmp_path, "barrier", operations="barrier"):
        assert body["error"] == "WrongError: barrier: rank 0 did not wait for the last one"


@pytest.mark.usefixtures("real_processes")
def test_an_mpi_that_sees_each_rank_alone(tmp_path: Path) -> None:
    bodies = launched(tmp_path, "alone", ranks=3)
    for rank in (1, 2):
        assert "gloo sees rank 0 of 1, and the launcher started rank" in bodies[rank]["error"]
        assert f"rank {rank} of 3" in bodies[rank]["error"]


@pytest.mark.usefixtures("real_processes")
def test_a_rank_that_is_killed_ends_the_others_and_is_named(tmp_path: Path) -> None:
    first, second = launched(tmp_path, "killed")
    assert second == -signal.SIGKILL
    # So a launch's reason names it last: it only waited.
    assert first["error"].startswith("RanksError: waiting for")


def test_a_library_s_error_is_another_rank_s_end(
    probe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLC_RANKS_RESULTS", str(tmp_path))
    inside, ranks = probe("probe_collectives"), probe("ranks")
    monkeypatch.setattr(inside.time, "sleep", lambda _s: None)
    inside._require_others(RuntimeError("Connection closed by peer"))
    (tmp_path / "rank-00001.exit").write_text("137\n")
    with pytest.raises(ranks.RanksError, match="waiting for rank 1: it has ended"):
        inside._require_others(RuntimeError("Connection closed by peer"))


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        ([(0, 2), (1, 2)], ""),
        ([(0, 1), (0, 1)], "2 ranks were asked for, and their library sees ranks 0 of 1, 0 of 1"),
        ([(1, 2), (1, 2)], "sees ranks 1 of 2, 1 of 2"),
        ([], "the ranks don't say which ranks their library sees"),
    ],
)
def test_size_asked_is_size_seen(seen: list[Any], says: str) -> None:
    bodies: list[Any] = [{"seen": {"rank": rank, "size": size}} for rank, size in seen]
    found = PROBES["collectives"].gate(bodies or [{}, {}])
    assert found == says if not says else says in found


@pytest.mark.parametrize(
    ("typed", "ranks", "says"),
    [
        ({}, 0, "needs at least 2 ranks"),
        ({}, 1, "needs at least 2 ranks"),
        ({"operations": "all_reduce,gather"}, 2, "gloo has no operation 'gather'"),
        ({"operations": ""}, 2, "gloo has no operation ''"),
        ({"largest": "2"}, 2, "4 bytes to 1G"),
        ({"largest": "2G"}, 2, "4 bytes to 1G"),
        ({"largest": "M"}, 2, "4 bytes to 1G"),
        ({"largest": "1.5M"}, 2, "4 bytes to 1G"),
    ],
)
def test_what_can_not_be_measured(typed: dict[str, str], ranks: int, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        settled(ranks, **typed)


def test_the_backend_is_that_of_the_image() -> None:
    probe = PROBES["collectives"]

    def backend(modules: tuple[str, ...], **typed: Any) -> object:
        contents = ProbeSubject(image="x.sif", recipe="demo", modules=modules)
        return probe.values(typed, ParameterContext(contents=contents, ranks=2))["backend"]

    assert backend(("numpy", "torch")) == "gloo"
    assert backend(("mpi4py",)) == "mpi4py"
    assert backend(("horovod", "torch")) == "gloo"
    assert backend(("horovod", "torch"), backend="horovod") == "horovod"
    assert backend(("torch",), backend="nccl") == "nccl"
    with pytest.raises(ChecksFailedError, match=r"no module of x\.sif has collective operations"):
        backend(("numpy",))
    with pytest.raises(ChecksFailedError, match="verify horovod and torch"):
        backend(("tensorflow", "horovod"), backend="horovod")
    with pytest.raises(ChecksFailedError, match=r"--backend mpi4py: x\.sif does not verify"):
        backend(("torch",), backend="mpi4py")


def test_a_session_goes_on_with_the_same_rows() -> None:
    cell = settled(quick=True, largest="1K", operations="barrier,all_reduce")
    probe = PROBES["collectives"]
    begun = replace(rowseries.session(Plant()).declared, workload=dict(probe.declared(cell)))
    again = probe.values({}, ParameterContext(contents=TORCH, begun=begun, ranks=2))
    assert again == cell.values


def test_horovod_has_no_send() -> None:
    contents = ProbeSubject(image="x.sif", recipe="demo", modules=("horovod", "torch"))
    setting, typed = ParameterContext(contents=contents, ranks=2), {"backend": "horovod"}
    values = PROBES["collectives"].values(typed, setting)
    assert "send_recv" not in str(values["operations"])
    with pytest.raises(UsageError, match="horovod has no operation 'send_recv'"):
        PROBES["collectives"].values({**typed, "operations": "send_recv"}, setting)


def test_sizes_grow_by_a_factor() -> None:
    assert collectives.sizes(settled(largest="1K").values) == (4, 16, 64, 256, 1024)
    assert collectives.sizes(settled(quick=True).values) == (4, 64, 1024, 16384, 262144, 4194304)
    assert collectives.sizes(settled().values)[-1] == 64 << 20
