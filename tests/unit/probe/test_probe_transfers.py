"""The transfers probe: what arrives, where memory lies, that a device is waited for."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dlcontainer.bench.probes import PROBES, transfers
from dlcontainer.bench.probes.probe import ProbeCell
from dlcontainer.bench.samples.rows import agreement, joining
from tests.unit.probe.test_probe import copied

# A PyTorch of plain Python. Copies with a device in them are done when that is waited for, so that
# a time taken before is told by its values. FAULT plants what is wrong.
TORCH = """
import os

FAULT = os.environ.get("FAULT", "")
int32 = "int32"
queues = {}
log = []


class Tensor(object):
    def __init__(self, memory, at, count, device, pinned):
        self.memory, self.at, self.count = memory, at, count
        self.device, self.pinned = device, pinned

    def __getitem__(self, part):
        return Tensor(self.memory, self.at, part.stop, self.device, self.pinned)

    def values(self):
        return self.memory[self.at : self.at + self.count]

    def put(self, values):
        self.memory[self.at : self.at + self.count] = list(values)
        return self

    def numel(self):
        return self.count

    def data_ptr(self):
        return id(self.memory)

    def is_pinned(self):
        return self.pinned and FAULT != "pageable"

    def fill_(self, value):
        return self.put([value] * self.count)

    def add_(self, value):
        return self.put([one + value for one in self.values()])

    def remainder_(self, value):
        return self.put([one % value for one in self.values()])

    def copy_(self, source, non_blocking=False):
        log.append((source.device, self.device, source.pinned or self.pinned, non_blocking))
        values = source.values()
        if FAULT == "last" and self.count > 1024:
            values[-1] += 1
        if FAULT == "nothing":
            return
        if FAULT == "elsewhere":
            values = values[1:] + values[:1]
        devices = [one for one in (source.device, self.device) if one != "cpu"]
        if devices:
            queues.setdefault(devices[-1], []).append((self, values))
        else:
            self.put(values)

    def __ne__(self, other):
        differs = [a != b for a, b in zip(self.values(), other.values())]
        return Tensor(differs, 0, self.count, "cpu", 0)

    def sum(self):
        return self

    def item(self):
        return sum(self.values())


def empty(count, dtype, device="cpu", pin_memory=False):
    return Tensor([0] * count, 0, count, device, pin_memory)


def empty_like(one):
    return empty(one.count, int32, one.device)


def arange(count, out):
    out.put(range(count))


def get_num_threads():
    return 3


def set_num_threads(count):
    log.append(count)


class cuda(object):
    @staticmethod
    def is_available():
        return True

    @staticmethod
    def device_count():
        return 2

    @staticmethod
    def synchronize(number):
        if FAULT != "no wait":
            for target, values in queues.pop("cuda:{}".format(number), []):
                target.put(values)

    @staticmethod
    def can_device_access_peer(one, other):
        return one < other
"""
GPUS: dict[str, Any] = {"device": "cuda", "gpus": 2, "numa": "0", "largest": 16384, "quick": False}
HOST: dict[str, Any] = {**GPUS, "device": "cpu", "gpus": 0}


def rows_of(values: dict[str, Any]) -> list[dict[str, Any]]:
    plan = PROBES["transfers"].rows(ProbeCell(values=values, threads=1))
    assert plan is not None
    return [dict(row) for row in plan.rows]


@pytest.fixture
def made(
    probe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., tuple[Any, Any]]]:
    """Give a maker of all transfers, with the fake PyTorch."""

    def make(values: dict[str, Any], fault: str = "", nodes: tuple[int, ...] = (0,)) -> Any:
        monkeypatch.setenv("FAULT", fault)
        (tmp_path / "torch.py").write_text(TORCH)
        monkeypatch.syspath_prepend(tmp_path)
        sys.modules.pop("torch", None)  # the patch would put the fake of the last call back
        places = probe("memory_nodes")
        monkeypatch.setattr(places, "known", lambda: list(nodes))
        monkeypatch.setattr(places, "of", lambda *_: None)
        module = probe("transfers_torch")
        return module.Transfers(rows_of(values), 1), module

    yield make
    sys.modules.pop("torch", None)


def test_session_and_probe_have_the_same_words(probe: Any) -> None:
    assert probe("probe_transfers").TRANSFERS == transfers.WAYS
    assert {row["transfer"] for row in rows_of(GPUS)} == set(transfers.WAYS) - {transfers.HOST}
    assert {row["transfer"] for row in rows_of(HOST)} == {transfers.HOST}


def test_everything_arrives_and_devices_are_waited_for(made: Any) -> None:
    own, module = made(GPUS)
    for row in rows_of(GPUS):
        assert own.check(row) == row["bytes"] // 4
        assert len(own.timed(row, 4)) == 4
        # What was timed was there at the end of the time: nothing is left to wait for.
        assert not any(module.torch.queues.values())
    ways = {way for way in module.torch.log if isinstance(way, tuple)}
    assert ways == {
        *(
            ("cpu", f"cuda:{n}", is_pinned, is_pinned)
            for n in (0, 1)
            for is_pinned in (True, False)
        ),
        *(
            (f"cuda:{n}", "cpu", is_pinned, is_pinned)
            for n in (0, 1)
            for is_pinned in (True, False)
        ),
        ("cuda:0", "cuda:1", False, False),
        ("cuda:1", "cuda:0", False, False),
    }
    facts = own.facts()
    assert facts["peer_access"] == {"gpu 0 gpu 1": True, "gpu 1 gpu 0": False}
    assert facts["memory_places"] == {"node 0": "not told"}
    own.close()
    assert [one for one in module.torch.log if isinstance(one, int)] == [1, 3]


@pytest.mark.parametrize("values", [GPUS, HOST], ids=["cuda", "cpu"])
@pytest.mark.parametrize("fault", ["last", "nothing", "elsewhere"])
def test_what_does_not_arrive_is_told(made: Any, probe: Any, values: Any, fault: str) -> None:
    own, _ = made(values, fault)
    row = rows_of(values)[-1]
    wrong = "1 of 4,096" if fault == "last" else "4,096 of 4,096"
    with pytest.raises(probe("rows").WrongError, match=f"16,384 bytes: {wrong} values did not"):
        own.check(row)


def test_a_device_that_is_not_waited_for_is_told(made: Any, probe: Any) -> None:
    own, _ = made(GPUS, "no wait")
    for row in rows_of(GPUS):
        with pytest.raises(probe("rows").WrongError):
            own.check(row)


def test_values_of_another_place_are_told(made: Any, probe: Any) -> None:
    own, module = made(GPUS)
    row = next(row for row in rows_of(GPUS) if row["from"] == "gpu 1" and row["to"] == "gpu 0")
    mine, other = (own._blocks[f"gpu {n}", "device"] for n in (1, 0))
    mine[0] = other[0]
    with pytest.raises(probe("rows").WrongError, match="gpu 1 to gpu 0"):
        own.check(row)
    assert module.PERIOD > 4096


def test_what_is_not_as_it_was_asked_for(made: Any) -> None:
    with pytest.raises(RuntimeError, match="asked for as pinned is pageable"):
        made(GPUS, "pageable")
    with pytest.raises(RuntimeError, match="gpu 2 is asked for, and PyTorch sees 2 GPUs"):
        made({**GPUS, "gpus": 3})


def test_memory_is_touched_and_copied_on_its_node(
    made: Any, probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, bound = probe("memory_nodes"), list[set[int]]()
    monkeypatch.setattr(places, "processors", lambda node: {node, 2 + node})
    monkeypatch.setattr(places, "bind", bound.append)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    two = {**HOST, "numa": "0,1"}
    own, _ = made(two, nodes=(0, 1))
    # Only the processors that the process may use.
    assert bound == [{0}, {1}]
    bound.clear()
    for row in rows_of(two):
        own.check(row)
        assert bound.pop() == {int(row["from"][-1])}
    own.close()
    assert bound == [{0, 1}]
    # Memory that came to lie elsewhere ends the launch.
    monkeypatch.setattr(places, "known", lambda: [0, 1])
    monkeypatch.setattr(places, "of", lambda *_: [0])
    module = probe("transfers_torch")
    with pytest.raises(RuntimeError, match=r"memory for node 1 lies on nodes \[0\]"):
        module.Transfers(rows_of(two), 1)


def test_lists_as_linux_writes_them(probe: Any, tmp_path: Path) -> None:
    places = probe("memory_nodes")
    assert places.listed("0-3,8\n") == {0, 1, 2, 3, 8}
    assert places.listed("\n") == set()
    for number, cpus in ((0, "0-1"), (10, "2-3"), (2, "4")):
        (tmp_path / f"node{number}").mkdir()
        (tmp_path / f"node{number}/cpulist").write_text(f"{cpus}\n")
    (tmp_path / "nodes").mkdir()
    assert places.known(str(tmp_path)) == [0, 2, 10]
    assert places.processors(10, str(tmp_path)) == {2, 3}
    assert places.known(str(tmp_path / "none")) == []


def test_where_memory_lies(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    places = probe("memory_nodes")
    block = ctypes.create_string_buffer(b"x" * (1 << 20))
    found = places.of(ctypes.addressof(block), len(block))
    # Where the kernel or a filter does not say, it is not told; else it is a node of this machine.
    assert found is None or set(found) <= set(places.known())
    monkeypatch.setattr(places, "platform", SimpleNamespace(machine=lambda: "vax"))
    assert places.of(ctypes.addressof(block), len(block)) is None


@pytest.mark.parametrize(("size", "wanted"), [(4096, 20), (65536, 20), (1 << 20, 10), (1 << 28, 3)])
def test_larger_ones_are_repeated_less(probe: Any, size: int, wanted: int) -> None:
    assert probe("probe_transfers").repeats(size) == wanted


@pytest.mark.usefixtures("real_processes")
@pytest.mark.parametrize("fault", ["", "last"])
def test_a_launch(tmp_path: Path, fault: str) -> None:
    cell, code = ProbeCell(values=HOST, threads=1), copied(tmp_path / "p")
    # Under another name: what is attested of PyTorch is asked of the real one.
    (code / "plain.py").write_text(TORCH)
    module = code / "transfers_torch.py"
    text = module.read_text().replace("import torch\n", "import plain as torch\n")
    module.write_text(text.replace("framework = torch\n", "framework = None\n"))
    argv = [sys.executable, "-S", str(code), *PROBES["transfers"].words(cell)]
    environment = {**os.environ, "FAULT": fault}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    if fault:
        assert done.returncode != 0
        assert "WrongError: host to host, pageable, node 0 to node 0, 16,384 bytes" in done.stderr
        assert not done.stdout
        return
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    plan = PROBES["transfers"].rows(cell)
    assert plan is not None
    found = joining.read(said["rows"])
    assert agreement.problem(plan, found) == ""
    assert [row.n for row in found] == [10 * 20, 10 * 20]
    assert [row.checked for row in found] == [1024, 4096]
    assert set(said["stack"]["memory_places"]) == {"node 0"}
    stamps = said["stamps_ns"]
    assert stamps["import"] <= stamps["placed"] <= stamps["checked"] <= stamps["rows"]
