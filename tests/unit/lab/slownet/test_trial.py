"""What refuses a network before a command runs; ranks on hosts; mounts by host."""

import json
from pathlib import Path

import pytest

from dlcontainer.lab.filesystem import mount_watch
from dlcontainer.lab.slownet import mounts, rank_starter, trial
from dlcontainer.lab.slownet.network import Link
from dlcontainer.lab.slownet.trial import LinkTrial

LINK = Link(one=0, other=1, latency_s=1e-3, rate=100e6)


def found(*, trip: float = 2.1e-3, rate: float = 98e6) -> LinkTrial:
    return LinkTrial(begin=1, end=0, round_trip_s=trip, rate=rate)


def test_a_link_as_it_was_asked_for() -> None:
    assert trial.problem(LINK, found()) == ""
    free = Link(one=0, other=1, latency_s=0.0, rate=0.0)
    assert trial.problem(free, found(rate=1.0)) == ""


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (found(trip=1.7e-3), "round trip takes 1700 us"),
        (found(trip=2.8e-3), "twice the latency are 2000 us"),
        (found(rate=89e6), "89 Mbit/s in place of 100"),
        (found(rate=111e6), "111 Mbit/s in place of 100"),
    ],
)
def test_a_link_that_is_not(bad: LinkTrial, words: str) -> None:
    assert words in trial.problem(LINK, bad)
    assert trial.problem(LINK, bad).startswith("n2 to n1: ")


def test_ranks_lie_in_blocks() -> None:
    ranks = rank_starter.placed(3, 2, {"n1": 11, "n2": 12})
    assert [(one.number, one.local, one.host) for one in ranks] == [
        (0, 0, "n1"), (1, 1, "n1"), (2, 0, "n2")
    ]  # fmt: skip


@pytest.mark.parametrize("numbers", [[5, 2], [0, 1], [2, 0]])
def test_ranks_that_do_not_fit(numbers: list[int]) -> None:
    with pytest.raises(ValueError, match="do not fit on 2 hosts"):
        rank_starter.placed(numbers[0], numbers[1], {"n1": 11, "n2": 12})


def test_mounts_are_not_looked_at_before_hosts_stand(tmp_path: Path) -> None:
    watch = mounts.HostMountWatch(tmp_path / "ready.json")
    watch.look()
    assert (watch.most, watch.looks) == ({}, 0)


def test_mounts_of_our_own_are_no_host_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ready.json").write_text(json.dumps({"hosts": {"n1": 11, "n2": 12}}))
    spaces = {11: "net:1", 12: "net:2", 13: "net:1", 14: "net:1", 15: "net:9"}
    seen = {"self": {"7:0": Path("/x")}, 13: {"7:0": Path("/x"), "7:1": Path("/y")}}
    seen |= {14: {"7:2": Path("/z")}, 15: {"7:3": Path("/w")}}
    monkeypatch.setattr(mounts, "processes", lambda: {1: [11, 12, 13], 13: [14, 15]})
    monkeypatch.setattr(
        mounts, "_space", lambda pid, kind: spaces[pid] if kind == "net" else f"mnt:{pid}"
    )
    monkeypatch.setattr(mount_watch, "image_mounts", lambda pid: seen.get(pid, {}))
    watch = mounts.HostMountWatch(tmp_path / "ready.json")
    watch.look()
    assert watch.most == {"n1": 2, "n2": 0}
