"""`bench trace` of a program whose costs are known: a slow file system, a sleep, other programs."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.report import inputs
from dlcontainer.bench.trace import costs
from dlcontainer.bench.trace.trace_records import JobTrace
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.lab.slowfs import mounting
from dlcontainer.lab.slowfs.passthrough import Delay
from dlcontainer.lab.slowfs.server import StandIn
from dlcontainer.system.machine import find_program
from dlcontainer.system.process import ProcessRunner
from tests.integration.test_bench_trace import traced
from tests.integration.world import Built, World, missing

STEPS = 5 + 3 * 6 + 2 + 3
READ = 512 * 1024
# Rank 1 reads or sleeps in each step. Rank 0 first starts a program without PyTorch that uses a
# second of the processor and says how much it took, and waits for it only in the end.
PROGRAM = """\
import os, signal, subprocess, sys, time
import torch, torch.distributed as dist
from torch import nn

how, steps, folder, size = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
burner = None
if rank == 0:
    burner = subprocess.Popen([sys.executable, "-S", sys.argv[5]])
model = nn.parallel.DistributedDataParallel(nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
inputs = torch.randn(8, 64)
if rank == 1 and how != "sleep":
    number = os.open(os.path.join(folder, "input.bin"), os.O_RDONLY)
for step in range(steps):
    if rank == 1 and how == "sleep":
        time.sleep(0.4)
    elif rank == 1:
        left = size
        while left:
            left -= len(os.read(number, left))
    if rank == 1 and how == "killed" and step == 14:
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.zero_grad()
    model(inputs).sum().backward()
    optimizer.step()
dist.barrier()
if burner is not None:
    # It is there, ended, for a while: nobody may count on being looked at in time.
    while open("/proc/%d/stat" % burner.pid).read().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.05)
    time.sleep(3)
    burner.wait()
dist.destroy_process_group()
"""
BURNER = """\
import os
while sum(os.times()[:2]) < 1.0:
    pass
with open({where!r}, "w") as file:
    file.write(repr(sum(os.times()[:2])))
"""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def running(launching: World, engine: Apptainer, tmp_path: Path) -> World:
    """Give a user with a training program, whose jobs find the engine and start two ranks."""
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "burner.py").write_text(BURNER.format(where=str(tmp_path / "burned")))
    path = f"{engine.program.parent}:{launching.environ['PATH']}"
    return launching.having(PATH=path, APPTAINER_USERNS="1")


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Path]:
    """Give a folder whose reads are slow; its one file is as large as all steps read."""
    if not os.access(mounting.DEVICE, os.R_OK | os.W_OK):
        missing("/dev/fuse that you may open")
    if find_program("fusermount3", os.environ) is None:
        missing("fusermount3 (package fuse3)")
    source, point = tmp_path / "source", tmp_path / "slow data"
    source.mkdir()
    point.mkdir()
    (source / "input.bin").write_bytes(os.urandom(STEPS * READ))
    runner = ProcessRunner(environ=dict(os.environ))
    with StandIn(source=source, delay=Delay(read_s=0.1)).mounted(point, runner):
        yield point


def seen(
    user: World, folder: Path, how: str, place: Path, *words: object, code: int | None = 0
) -> dict[str, Any]:
    """Trace the program; give the one side."""
    more = (place, READ, folder / "burner.py")
    (side,) = traced(user, folder, how, *words, code=code, steps=STEPS, more=more)
    return side


def first_cost(folder: Path) -> str:
    trace = inputs.read(folder / "t/trace.json").finding
    assert isinstance(trace, JobTrace)
    return costs.lines(trace.sides[0])[0].what


def require_burner(side: dict[str, Any], folder: Path) -> None:
    """Hold the program without PyTorch to the processor time that it took by its own account."""
    rows = {row["pid"]: row for row in side["watch"]["processes"]}
    told = float((folder / "burned").read_text())
    burned = [
        row
        for row in rows.values()
        if row["rank"] == 0 and abs(row["user_s"] + row["system_s"] - told) < 5 * TICK_S
    ]
    # What it took behind its last word is the end of a process.
    assert burned, [(row["name"], row["user_s"] + row["system_s"]) for row in rows.values()]


def require_reads(side: dict[str, Any], folder: Path, place: Path) -> None:
    """Hold a side to what rank 1 read, and to whom its waits are put down."""
    rows = [row for row in side["watch"]["file_systems"] if str(place) in row["name"]]
    assert [row["rank"] for row in rows] == [1]
    (row,) = rows
    assert "fuse.slowfs" in row["name"]
    # Of one file that is read from its begin, positions can't say more.
    assert 0 < row["read_bytes"] <= STEPS * READ
    assert row["waits"]["read"]["looks"] > 0
    most = max(process["read_bytes"] for process in side["watch"]["processes"])
    assert most >= STEPS * READ
    named = first_cost(folder)
    assert named.startswith("rank 0 waits for rank 1, which reads ")
    assert str(place) in named


def test_a_slow_file_system_comes_first(running: World, slow: Path, tmp_path: Path) -> None:
    side = seen(running, tmp_path, "read", slow)
    require_reads(side, tmp_path, slow)
    require_burner(side, tmp_path)
    page = tmp_path / "page.html"
    running.run("report", str(tmp_path / "t/trace.json"), "-o", str(page))
    text = page.read_text()
    assert text.index("rank 0 waits for rank 1, which reads") < text.index("Ranks, native")


def test_a_slow_file_system_comes_first_in_the_image(
    running: World, pytorch_image: Built, slow: Path, tmp_path: Path
) -> None:
    side = seen(running, tmp_path, "read", slow, "--image", pytorch_image.image)
    assert side["side"] == "container"
    require_reads(side, tmp_path, slow)
    require_burner(side, tmp_path)


def test_a_rank_that_sleeps_comes_first(running: World, tmp_path: Path) -> None:
    seen(running, tmp_path, "sleep", tmp_path)
    assert first_cost(tmp_path) == "rank 0 waits for rank 1, which is asleep"


def test_what_a_killed_rank_did_until_then(running: World, slow: Path, tmp_path: Path) -> None:
    side = seen(running, tmp_path, "killed", slow, code=7)
    assert [rank["rank"] for rank in side["missing"]] == [1]
    (row,) = [row for row in side["watch"]["file_systems"] if str(slow) in row["name"]]
    assert row["waits"]["read"]["looks"] > 0
    kept = json.loads((tmp_path / "t/trace.json").read_text())
    assert {row["rank"] for row in kept["sides"][0]["watch"]["processes"]} == {0, 1}
