"""A rank finds its place, meets the others, and leaves a result that is whole."""

import importlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from dlcontainer.bench.measure import ranks as team
from dlcontainer.bench.probes.train import WAYS
from dlcontainer.config.resources import PROBE


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(PROBE)
    yield importlib.import_module("ranks")
    for name in ("ranks", "barrier"):
        sys.modules.pop(name, None)


OMPI = {
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
}


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        (OMPI, (5, 8, 1)),
        # mpirun within a batch script of Slurm: the script's own variables are no rank's.
        ({**OMPI, "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0"}, (5, 8, 1)),
        ({"SLURM_PROCID": "6", "SLURM_NTASKS": "8", "SLURM_LOCALID": "2"}, (6, 8, 2)),
        ({"PMI_RANK": "6", "PMI_SIZE": "8", "SLURM_LOCALID": "2"}, (6, 8, 2)),
        ({"PMI_RANK": "6", "PMI_SIZE": "8", "DLC_RANKS_PER_NODE": "4"}, (6, 8, 2)),
        ({"PMIX_RANK": "7", "DLC_RANKS_PER_NODE": "2"}, (7, 8, 1)),
        ({"PALS_RANKID": "3", "PALS_LOCAL_RANKID": "3"}, (3, 8, 3)),
        (
            {
                "JSM_NAMESPACE_RANK": "2",
                "JSM_NAMESPACE_SIZE": "8",
                "JSM_NAMESPACE_LOCAL_RANK": "2",
            },
            (2, 8, 2),
        ),
        ({"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_LOCAL_RANK": "1"}, (1, 8, 1)),
        ({**OMPI, "DLC_RANK": "3", "DLC_LOCAL_RANK": "0"}, (3, 8, 0)),
    ],
)
def test_a_rank_finds_its_place(ranks: Any, environ: dict[str, str], found: Any) -> None:
    place = ranks.place({"DLC_RANKS": "8", **environ})
    assert (place.rank, place.size, place.local_rank) == found
    assert place.node == os.uname().nodename


SRUN = {"SLURM_PROCID": "6", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "8"}


@pytest.mark.parametrize(
    ("environ", "is_slurms"),
    [
        (SRUN, True),
        ({**SRUN, "PMI_RANK": "6", "PMI_SIZE": "8"}, True),
        # The batch script's own, handed on by another launcher: no step, or one of its daemons.
        ({**OMPI, "SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, False),
        ({**OMPI, **SRUN}, False),
        ({**OMPI, "SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "2"}, False),
    ],
)
def test_where_srun_started_a_rank_its_node_is_slurms(
    ranks: Any, environ: dict[str, str], is_slurms: bool
) -> None:
    place = ranks.place({"DLC_RANKS": "8", "SLURMD_NODENAME": "n3", **environ})
    assert place.node == ("n3" if is_slurms else os.uname().nodename)


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({}, "no variable of a launcher"),
        # Each process a world of its own: the launcher and the MPI do not know each other.
        ({"PMI_RANK": "0", "PMI_SIZE": "1"}, "rank 0 of 1 by PMI_RANK, and 8 ranks"),
        ({"SLURM_PROCID": "9"}, "rank 9 of 8"),
    ],
)
def test_ranks_that_were_not_asked_for(ranks: Any, environ: dict[str, str], says: str) -> None:
    with pytest.raises(ranks.RanksError, match=says):
        ranks.place({"DLC_RANKS": "8", **environ})


def test_a_single_process_is_rank_0_whatever_surrounds_it(ranks: Any) -> None:
    assert ranks.place({}).size == 1
    assert not ranks.asked({})


def free() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Meeters:
    """Ranks of a meeting, each in a thread."""

    def __init__(
        self, ranks: Any, size: int, patience: int = 5, folder: Path = Path("/none")
    ) -> None:
        self.ranks, self.size = ranks, size
        self.barrier = importlib.import_module("barrier")
        self.environ = {
            "DLC_RANKS_MEET": f"127.0.0.1:{free()}",
            "DLC_RANKS_TOKEN": "a" * 32,
            "DLC_RANKS_PATIENCE": str(patience),
            "DLC_RANKS_RESULTS": str(folder),
        }
        self.order: list[str] = []
        self.said: dict[int, list[str]] = {}
        self.errors: list[str] = []

    def rank(self, number: int, waits: int) -> None:
        own = self.ranks.Place(number, self.size, number, self.size, "n")
        try:
            meeting = self.barrier.Meeting(own, self.environ)
            self.said[number] = meeting.exchange(f"it is {number}")
            for _ in range(waits):
                self.order.append("before")
                meeting.wait()
                self.order.append("after")
            meeting.close()
        except self.ranks.RanksError as error:
            self.errors.append(f"{number}: {error}")

    def run(self, *waits: int) -> None:
        threads = [
            threading.Thread(target=self.rank, args=(number, count))
            for number, count in enumerate(waits)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)


def test_nobody_goes_on_before_all_are_there(ranks: Any) -> None:
    meeters = Meeters(ranks, 4)
    meeters.run(1, 1, 1, 1)
    assert meeters.errors == []
    assert meeters.order == ["before"] * 4 + ["after"] * 4


def test_a_barrier_can_be_met_again(ranks: Any) -> None:
    meeters = Meeters(ranks, 3)
    meeters.run(3, 3, 3)
    assert meeters.errors == []
    assert len(meeters.order) == 18


def test_a_rank_that_leaves_is_noticed_by_all(ranks: Any) -> None:
    meeters = Meeters(ranks, 3)
    meeters.run(2, 2, 1)
    assert sorted(text[:24] for text in meeters.errors) == [
        "0: waiting for rank 2: i", "1: waiting for rank 0: i",
    ]  # fmt: skip


def test_a_rank_that_never_comes_is_not_waited_for_for_ever(ranks: Any) -> None:
    meeters = Meeters(ranks, 3, patience=1)
    meeters.run(1, 1)
    assert len(meeters.errors) == 2
    assert all("waiting for" in text for text in meeters.errors)


def test_a_host_that_nobody_knows_is_not_waited_for(
    ranks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeters = Meeters(ranks, 2, patience=60)
    unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    made = Mock(**{"return_value.connect.side_effect": unknown})
    monkeypatch.setattr(meeters.barrier._socket, "socket", made)
    meeters.environ["DLC_RANKS_MEET"] = "nid001:5000"
    meeters.rank(1, 1)
    assert meeters.errors == ["1: rank 0 can't be found: no host nid001"]


@pytest.mark.parametrize("gone", [0, 2])
def test_a_rank_that_has_ended_is_not_waited_for(ranks: Any, tmp_path: Path, gone: int) -> None:
    (tmp_path / f"rank-{gone:05d}.exit").write_text("0\n")
    meeters = Meeters(ranks, 3, patience=3000, folder=tmp_path)
    there = [number for number in range(3) if number != gone]
    threads = [threading.Thread(target=meeters.rank, args=(number, 1)) for number in there]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert len(meeters.errors) == 2
    assert any(f"waiting for rank {gone}: it has ended" in text for text in meeters.errors)


def test_all_ranks_hear_what_each_says(ranks: Any) -> None:
    meeters = Meeters(ranks, 3)
    meeters.run(0, 0, 0)
    assert meeters.errors == []
    assert set(map(tuple, meeters.said.values())) == {("it is 0", "it is 1", "it is 2")}
    assert sorted(meeters.said) == [0, 1, 2]


def test_a_stranger_is_not_taken_for_a_rank(ranks: Any) -> None:
    meeters = Meeters(ranks, 2)
    host, _, port = meeters.environ["DLC_RANKS_MEET"].partition(":")

    def strange() -> None:
        while True:
            try:
                with socket.create_connection((host, int(port)), 5) as stranger:
                    stranger.sendall(b"GET / HTTP/1.1\r\nHost: somebody-else.example\r\n\r\n")
                    return
            except ConnectionRefusedError:
                continue

    zero = threading.Thread(target=meeters.rank, args=(0, 1))
    zero.start()
    strange()
    meeters.rank(1, 1)
    zero.join(30)
    assert meeters.errors == []


def test_a_result_appears_whole_or_not(ranks: Any, tmp_path: Path) -> None:
    environ = {"DLC_RANKS": "8", "DLC_RANKS_RESULTS": str(tmp_path), **OMPI}
    ranks.say({"error": None}, environ)
    (path,) = tmp_path.iterdir()
    assert path.name == "rank-00005.json"
    said = json.loads(path.read_text())
    assert said["place"] == {
        "rank": 5, "size": 8, "local_rank": 1, "node": os.uname().nodename,
    }  # fmt: skip


def test_a_rank_without_a_number_still_says_why(ranks: Any, tmp_path: Path) -> None:
    ranks.say({}, {"DLC_RANKS": "8", "DLC_RANKS_RESULTS": str(tmp_path)})
    (path,) = tmp_path.iterdir()
    assert "no variable of a launcher" in json.loads(path.read_text())["error"]


def test_one_rank_of_a_node_attests(ranks: Any) -> None:
    assert not ranks.attests({"DLC_RANKS": "8", **OMPI})
    assert ranks.attests({"DLC_RANKS": "8", **OMPI, "OMPI_COMM_WORLD_LOCAL_RANK": "0"})
    assert ranks.attests({})


def test_bench_knows_the_ways_that_the_probe_knows(
    ranks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe_train = importlib.import_module("probe_train")
    try:
        assert probe_train.WAYS == WAYS
        files = probe_train.FILES
        for framework, ways in WAYS.items():
            for way in ways:
                trainer = importlib.import_module(
                    f"train_{framework}_{files.get(way, way)}"
                ).Trainer
                assert {"step", "losses", "weights", "transport", "close"} <= set(dir(trainer))
        with pytest.raises(SystemExit):
            probe_train.options(["--framework", "mxnet", "--distributed", "ddp"])
    finally:
        for name in [name for name in sys.modules if name.startswith(("train_", "probe_train"))]:
            del sys.modules[name]


@pytest.mark.usefixtures("real_processes")
@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash --posix"])
def test_a_rank_is_handed_its_variables_as_they_are(tmp_path: Path, shell: str) -> None:
    """No engine evaluates them; what is no launcher's stays outside."""
    show = "import os; print(repr(os.environ.get('PMIX_X')), os.environ.get('SECRET'), "
    show += "os.environ['A'], 'DLC_RANKS_BEGIN' in os.environ)"
    inner = team.rank([sys.executable, "-c", show], {"A": "$(b) 'c'"}, cleared=True)
    value = "a b\n$(touch canary)`x` \"q\" 'r' \\"
    environ = {"PATH": os.defpath, "PMIX_X": value, "SECRET": "x", "PMI_RANK": "12"}
    # An engine that lets nothing through.
    argv = [*shell.split(), "-c", team.OUTER, "sh", str(tmp_path), "env", "-i", *inner]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == f"{value!r} None $(b) 'c' True\n"
    # It ended well, but left no result.
    assert {path.name for path in tmp_path.iterdir()} == {"rank-00012.err", "rank-00012.exit"}
    assert (tmp_path / "rank-00012.exit").read_text() == "0\n"


@pytest.mark.usefixtures("real_processes")
def test_how_a_rank_ended_is_kept(tmp_path: Path) -> None:
    inner = team.rank(["/bin/sh", "-c", "echo last >&2; kill -9 $$"], {}, cleared=False)
    argv = ["/bin/sh", "-c", team.OUTER, "sh", str(tmp_path), *inner]
    environ = {"PATH": os.defpath, "SLURM_PROCID": "123456"}
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 137
    assert (tmp_path / "rank-123456.exit").read_text() == "137\n"
    assert "last" in (tmp_path / "rank-123456.err").read_text()
