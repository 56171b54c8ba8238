"""Launches of several ranks by a real mpirun: all are there, or the session says which are not."""

import os
import signal
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.records import Sample
from dlcontainer.bench.samples.series import Series
from tests.integration.test_bench import environment_with, holders, living, options, other_wheel
from tests.integration.world import Built, World
from tests.judging import analyse
from tests.processes import MARK, kill_marked, left_of, marked, poll


@pytest.fixture
def user(launching: World) -> World:
    return launching


def imported(user: World, built: Built, tiny: Path, output: Path, *more: object) -> Series:
    argv = options(built, tiny, output, "--pairs", 1, "--controls", 0, *more)
    user.run("bench", "import", *argv)
    return reader.read(output)


def raw(sample: Sample) -> list[Any]:
    """Give the ranks' raw values, in whatever form they have."""
    return list(sample.ranks)


def phases(sample: Sample) -> set[str]:
    return {name for rank in raw(sample) for name in rank["phases"]}


@pytest.mark.parametrize("start", ["storm", "natural"])
def test_every_rank_is_kept(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path, start: str
) -> None:
    more = ("--ranks", 3, "--start", start)
    series = imported(user, tiny_image, tiny, tmp_path / "x.jsonl", *more)
    assert series.complete
    work = series.session.declared.workload
    assert (work["ranks"], work["ranks_per_node"], work["start"]) == (3, 3, start)
    node = os.uname().nodename
    assert {(stack.arm, stack.node) for stack in series.stacks} == {
        ("native", node), ("container", node),
    }  # fmt: skip
    expected = {"launcher", "runtime", "python", "site", "import"}
    expected |= {"barrier"} if start == "storm" else set()
    for sample in series.samples:
        assert sample.ok
        assert [rank["rank"] for rank in sample.ranks] == [0, 1, 2]
        assert {rank["node"] for rank in sample.ranks} == {node}
        walls = [rank["values"]["wall_s"] for rank in raw(sample)]
        assert sample.wall_s == max(walls)
        assert phases(sample) == expected
    judged = analyse(series).verdict
    assert judged.word == "INCONCLUSIVE", judged.reasons


RANK = "os.environ.get('OMPI_COMM_WORLD_RANK')"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (f"{RANK} == '1' and os._exit(3)", "rank 1: exit code 3"),
        (f"{RANK} == '2' and os.kill(os.getpid(), 9)", "rank 2: exit code 137 (SIGKILL; out of"),
        (
            f"{RANK} == '1' and [print('last words', file=sys.stderr, flush=True), os._exit(4)]",
            "rank 1: last words",
        ),
    ],
    ids=["exits", "killed", "speaks"],
)
def test_a_rank_that_dies_is_named(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path, line: str, says: str
) -> None:
    mark, output = uuid.uuid4().hex, tmp_path / "x.jsonl"
    module = other_wheel(tmp_path / "wheel", "1.0")
    side = environment_with(tmp_path / "side", module, f"import os, sys; {line}")
    argv = options(tiny_image, tiny, output, "--native", side, "--ranks", 3, "--start", "storm")
    done = user.having(**{MARK: mark}).run("bench", "import", *argv, "--timeout", "60", code=7)
    assert says in done.stderr
    assert marked(mark) == {}
    (first, *_) = reader.read(output).samples
    assert not first.ok
    assert [rank["rank"] for rank in first.ranks if rank["exit_code"] is not None]


@pytest.mark.parametrize("rank", ["0", pytest.param("1", marks=pytest.mark.long)])
def test_a_rank_that_ends_well_without_a_result_is_not_waited_for(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path, rank: str
) -> None:
    module = other_wheel(tmp_path / "wheel", "1.0")
    line = f"import os; {RANK} == '{rank}' and os._exit(0)"
    side = environment_with(tmp_path / "side", module, line)
    argv = options(tiny_image, tiny, tmp_path / "x.jsonl", "--native", side, "--ranks", 3)
    done = user.run("bench", "import", *argv, "--start", "storm", "--timeout", "500", code=7)
    # Its end ends the launch, and not the time that it has.
    assert "no end within" not in done.stderr
    assert f"rank {rank}: it ended with 0 and gave no result" in done.stderr


def test_a_hanging_rank_ends_the_launch(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    mark, output = uuid.uuid4().hex, tmp_path / "x.jsonl"
    line = f"import os, subprocess, time; {RANK} == '1' and subprocess.run(['sleep', '300'])"
    side = environment_with(tmp_path / "side", other_wheel(tmp_path / "wheel", "1.0"), line)
    argv = options(tiny_image, tiny, output, "--native", side, "--ranks", 3, "--timeout", 20)
    done = user.having(**{MARK: mark}).run("bench", "import", *argv, code=7)
    assert "no end within 20 s" in done.stderr
    assert "rank 1: it gave no result" in done.stderr
    assert marked(mark) == {}


@pytest.mark.parametrize("name", ["SIGINT", "SIGKILL"])
def test_no_rank_outlives_its_session(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path, name: str
) -> None:
    mark, output = uuid.uuid4().hex, tmp_path / "x.jsonl"
    own = user.having(**{MARK: mark})
    argv = [*own.program, "bench", "import", *options(tiny_image, tiny, output, "--pairs", 300)]
    running = subprocess.Popen(
        [*argv, "--ranks", "3"],
        env=dict(own.environ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert poll(lambda: output.exists() and len(output.read_bytes().splitlines()) > 7, 120)
        assert poll(lambda: "mpirun" in names_below(running.pid), 60)
        held = holders(running.pid)
        os.kill(running.pid, signal.Signals[name])
        running.wait(120)
        assert left_of(mark) == {}
        assert poll(lambda: not living(held), 60)
    finally:
        running.kill()
        running.wait()
        kill_marked(mark)
    assert reader.read(output).samples


def names_below(pid: int) -> set[str]:
    found, below = set(), [pid]
    while below:
        one = below.pop()
        for folder in Path("/proc").glob(f"{one}/task/*/children"):
            try:
                children = [int(word) for word in folder.read_text().split()]
            except OSError:
                continue
            below += children
            for child in children:
                try:
                    found.add(Path(f"/proc/{child}/comm").read_text().strip())
                except OSError:
                    continue
    return found


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--nodes", "2", "--ranks", "2"], "not in a batch job"),
        (["--ranks", "4", "--ranks-per-node", "2"], "--nodes 1 does not match"),
        (["--start", "storm"], "--ranks R"),
        (["--ranks", "2", "--launcher", "no-such-launcher"], "launcher no-such-launcher not found"),
        (["--ranks", "2", "--form", "x"], "no such form"),
    ],
)
def test_bad_input(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path, more: list[str], words: str
) -> None:
    output = tmp_path / "x.jsonl"
    done = user.run("bench", "import", *options(tiny_image, tiny, output), *more, code=2)
    assert words in done.stderr
    assert not output.exists()


def test_a_launcher_that_starts_others_than_asked_for(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    output = tmp_path / "x.jsonl"
    # {ranks} is said elsewhere than in -n.
    more = ("--ranks", 3, "--launcher", "mpirun -n 2 -x COUNT={ranks}")
    done = user.run("bench", "import", *options(tiny_image, tiny, output, *more), code=7)
    assert "3 ranks were asked for" in done.stderr


@pytest.mark.long  # test_bench_resume.py goes the same road
def test_a_session_of_ranks_goes_on(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    output = tmp_path / "x.jsonl"
    imported(user, tiny_image, tiny, output, "--ranks", 2, "--start", "storm")
    lines = output.read_bytes().splitlines(keepends=True)
    # The last launch and the end were never written.
    output.write_bytes(b"".join(lines[:-2]))
    argv = options(tiny_image, tiny, output, "--resume", output)
    argv = [word for word in argv if word != "-o"]
    argv.remove(str(output))
    user.run("bench", "import", *argv)
    series = reader.read(output)
    assert series.complete
    assert len(series.resumes) == 1
    assert all(len(sample.ranks) == 2 for sample in series.samples)
