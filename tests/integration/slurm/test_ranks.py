"""Ranks by the real srun, on several nodes: all are there, or it is said why not."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from dlcontainer.bench.samples import reader
from tests.integration.slurm.cluster import Cluster
from tests.integration.test_bench import environment_with, options, other_wheel
from tests.integration.world import Built, World
from tests.processes import MARK, kill_marked, left_of, marked, new_mark, poll

# The allocation lives beyond the session: nothing ends but by dlcontainer.
OUTLIVING = """sh -c 'echo $$ >"$PIDFILE"; exec "$0" "$@"' "$0" "$@"; sleep 120"""
RANK = "os.environ.get('SLURM_PROCID')"


@pytest.fixture
def inside(user: World, cluster: Cluster) -> World:
    """Give a user within an allocation of two nodes."""
    return cluster.allocated(user, "--nodes=2", "--ntasks=4")


@pytest.fixture
def argv(site: Path, tiny_image: Built, tiny: Path, tmp_path: Path) -> list[str]:
    """Give the options of a session of four ranks on two nodes, written to x.jsonl."""
    found = options(tiny_image, tiny, tmp_path / "x.jsonl", "--pairs", 1, "--controls", 0)
    found[found.index("local")] = str(site)
    return [*found, "--ranks", "4", "--ranks-per-node", "2", "--nodes", "2"]


@pytest.mark.parametrize("start", ["storm", pytest.param("natural", marks=pytest.mark.long)])
def test_every_rank_of_every_node_is_kept(
    inside: World, cluster: Cluster, argv: list[str], tmp_path: Path, start: str
) -> None:
    inside.run("bench", "import", *argv, "--start", start)
    series = reader.read(tmp_path / "x.jsonl")
    assert series.complete
    work = series.session.declared.workload
    assert work["launcher"] == ["srun", "--nodes=2", "--ntasks=4", "--ntasks-per-node=2"]
    assert [(stack.arm, stack.node) for stack in series.stacks] == [
        ("native", "n1"), ("native", "n2"), ("container", "n1"), ("container", "n2"),
    ]  # fmt: skip
    for sample in series.samples:
        assert sample.ok
        places = [(rank["rank"], rank["local_rank"], rank["node"]) for rank in sample.ranks]
        assert places == [(0, 0, "n1"), (1, 1, "n1"), (2, 0, "n2"), (3, 1, "n2")]
    assert poll(lambda: cluster.steps() == [], 60)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (f"{RANK} == '3' and os._exit(3)", "rank 3: exit code 3"),
        (f"{RANK} == '2' and os.kill(os.getpid(), 9)", "rank 2: exit code 137 (SIGKILL; out of"),
    ],
    ids=["exits", "killed"],
)
def test_a_rank_that_dies_is_named(
    inside: World, cluster: Cluster, argv: list[str], tmp_path: Path, line: str, says: str
) -> None:
    mark = new_mark()
    module = other_wheel(tmp_path / "wheel", "1.0")
    side = environment_with(tmp_path / "side", module, f"import os; {line}")
    more = ("--native", str(side), "--start", "storm", "--timeout", "500")
    done = inside.having(**{MARK: mark}).run("bench", "import", *argv, *more, code=7)
    assert says in done.stderr
    # Its death ends the launch, and not the time that it has.
    assert "no end within" not in done.stderr
    (first, *_) = reader.read(tmp_path / "x.jsonl").samples
    assert not first.ok
    assert [rank["rank"] for rank in first.ranks if rank["exit_code"] is not None]
    assert left_of(mark) == {}
    assert poll(lambda: cluster.steps() == [], 60)


@pytest.mark.long  # test_bench_ranks.py goes the same road with mpirun
def test_a_hanging_rank_ends_the_launch(
    inside: World, cluster: Cluster, argv: list[str], tmp_path: Path
) -> None:
    mark = new_mark()
    line = f"import os, subprocess; {RANK} == '3' and subprocess.run(['sleep', '300'])"
    side = environment_with(tmp_path / "side", other_wheel(tmp_path / "wheel", "1.0"), line)
    more = ("--native", str(side), "--timeout", "10")
    done = inside.having(**{MARK: mark}).run("bench", "import", *argv, *more, code=7)
    assert "no end within 10 s" in done.stderr
    assert "rank 3: it gave no result" in done.stderr
    assert left_of(mark) == {}
    assert poll(lambda: cluster.steps() == [], 60)


@pytest.mark.parametrize("name", ["SIGINT", "SIGKILL"])
def test_no_step_outlives_its_session(
    inside: World, cluster: Cluster, argv: list[str], tmp_path: Path, name: str
) -> None:
    mark, output = new_mark(), tmp_path / "x.jsonl"
    own = inside.having(**{MARK: mark})
    command = ("bench", "import", *argv, "--pairs", "300")
    started = subprocess.Popen(
        [*own.program[:-1], "sh", "-c", OUTLIVING, *own.program[-1:], *command],
        env={**own.environ, "PIDFILE": str(tmp_path / "pid")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert poll(lambda: output.exists() and len(output.read_bytes().splitlines()) > 7, 120)
        assert poll(lambda: bool(cluster.steps()), 60)
        os.kill(int((tmp_path / "pid").read_text()), signal.Signals[name])
        assert poll(lambda: not ranks_of(mark), 60), marked(mark)
        assert poll(lambda: cluster.steps() == [], 60)
        assert cluster.jobs()
    finally:
        kill_marked(mark)
        started.wait(120)
        # A salloc that is killed leaves its job, and the nodes are the next test's.
        cluster.run("scancel", *cluster.jobs())
    assert poll(lambda: cluster.jobs() == [], 60)
    assert reader.read(output).samples


def ranks_of(mark: str) -> list[int]:
    """Find what a session has started: the processes of a step know its number."""
    found = []
    for pid in marked(mark):
        try:
            words = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if b"SLURM_STEP_ID=" in words or b"srun" in Path(f"/proc/{pid}/comm").read_bytes():
            found.append(pid)
    return found
