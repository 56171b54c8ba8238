"""Collective operations of real ranks by gloo, in an image and against its native twin."""

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.probes.collectives import OPERATIONS
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.rows import agreement, joining
from dlcontainer.config.resources import PROBE
from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import RunSpec
from dlcontainer.image import layout
from tests.integration.test_bench import environment_with, twin_packages
from tests.integration.test_bench_ranks import phases, raw
from tests.integration.world import Built, World
from tests.judging import analyse
from tests.skips import skip
from tests.unit.probe.test_collectives import port

pytestmark = pytest.mark.timeout(1800)

RANKS = 2
PYTHON = "/opt/pytorch/bin/python"


@pytest.fixture
def user(launching: World) -> World:
    return launching


def test_ranks_in_an_image_check_every_operation(
    world: World, engine: Apptainer, tried: EngineCapabilities, pytorch_image: Built, tmp_path: Path
) -> None:
    words = ("--backend", "gloo", "--operations", ",".join(OPERATIONS), "--sizes", "4,65536")
    common = {
        "DLC_RANKS": str(RANKS),
        "DLC_RANKS_RESULTS": "/mnt",
        "DLC_RANKS_MEET": f"127.0.0.1:{port()}",
        "DLC_RANKS_PATIENCE": "120",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port()),
        "OMP_NUM_THREADS": "1",
    }
    started = []
    for rank in range(RANKS):
        spec = RunSpec(
            image=pytorch_image.image,
            argv=(PYTHON, "-S", layout.PROBE, "collectives", *words, "--rounds", "1"),
            mode=tried.run_mode or "plain",
            environment={**common, "DLC_RANK": str(rank), "DLC_LOCAL_RANK": str(rank)},
            binds=((tmp_path, "/mnt"),),
            together=True,
        )
        environment = apptainer.environment(world.environ)
        started.append(subprocess.Popen(engine.run_argv(spec), env=environment))
    assert [one.wait() for one in started] == [0] * RANKS
    bodies = [json.loads((tmp_path / f"rank-{rank:05d}.json").read_text()) for rank in range(RANKS)]
    for rank, body in enumerate(bodies):
        assert body["seen"] == {"rank": rank, "size": RANKS}
        assert body["transport"] == {"backend": "gloo"}
        rows = joining.read(body["rows"])
        assert {str(row.parameters["operation"]) for row in rows} == set(OPERATIONS)
        assert {row.n for row in rows} == {20}
        # Every value of the largest size was looked at.
        assert max(row.checked for row in rows) == 65536 // 4


def session(user: World, built: Built, output: Path, *more: object, code: int = 0) -> Any:
    argv: list[object] = ["--site", "local", "--image", built.image, "--ranks", RANKS, "-o", output]
    return user.run("bench", "collectives", *map(str, (*argv, *more)), code=code)


@pytest.mark.long
def test_native_and_container_are_measured_row_by_row(
    user: World, pytorch_image: Built, tmp_path: Path
) -> None:
    output = tmp_path / "x.jsonl"
    session(user, pytorch_image, output, "--quick", "--largest", "64K", "--pairs", 1)
    series = reader.read(output)
    assert series.complete
    plan = series.session.declared.rows
    assert plan is not None
    assert series.session.declared.control_pairs == 0
    for sample in series.samples:
        assert agreement.problem(plan, sample.rows) == ""
        assert phases(sample) >= {"import", "process_group", "checked", "rows"}
        for rank in raw(sample):
            assert len(rank["row_medians_s"]) == len(plan.rows)
            assert rank["transport"] == {"backend": "gloo"}
    judged = analyse(series)
    # One pair decides nothing; that it may be compared is what the sides attest.
    assert judged.verdict.word == "INCONCLUSIVE", judged.verdict.reasons
    page = tmp_path / "x.html"
    report = json.loads(user.run("report", output, "--json", "-o", page).stdout)
    (said,) = report["sessions"]
    assert [row["parameters"] for row in said["rows"]] == [dict(row) for row in plan.rows]
    assert "operation all_to_all" in page.read_text()
    rows = [
        line for line in (tmp_path / "x.csv").read_text().splitlines() if "all_to_all,s," in line
    ]
    sizes = len([row for row in plan.rows if row["operation"] == "all_to_all"])
    assert len(rows) == 4 * sizes


@pytest.mark.long
def test_a_rank_that_is_killed_between_operations_is_named(
    user: World, pytorch_image: Built, tmp_path: Path
) -> None:
    packages = twin_packages(user, pytorch_image, tmp_path)
    # Among the operations: half a second after the ranks have met.
    lines = (
        "import os, sys, threading, time",
        "def end():",
        "    def met():",
        "        return getattr(sys.modules.get('torch.distributed'), 'is_initialized', bool)()",
        "    while not met(): time.sleep(0.05)",
        "    time.sleep(0.5)",
        "    os.kill(os.getpid(), 9)",
        "if os.environ.get('OMPI_COMM_WORLD_RANK') == '1':",
        "    threading.Thread(target=end, daemon=True).start()",
    )
    (tmp_path / "ending.py").write_text("\n".join(lines) + "\n")
    side = environment_with(tmp_path / "side", packages, tmp_path, "import ending")
    begin, output = time.monotonic(), tmp_path / "x.jsonl"
    more = ("--native", side, "--pairs", 1, "--controls", 0, "--largest", "4M", "--timeout", 600)
    done = session(user, pytorch_image, output, *more, code=7)
    assert "rank 1: exit code 137 (SIGKILL; out of memory?)" in done.stderr
    assert time.monotonic() - begin < 300
    (first, *_) = reader.read(output).samples
    assert not first.ok
    assert first.rows == ()


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """Two ranks of the probe under a Python of the host, their results in a folder."""

    python: Path
    folder: Path

    def environment(self, **more: str) -> dict[str, str]:
        common = {"DLC_RANKS": str(RANKS), "DLC_RANKS_RESULTS": str(self.folder)}
        common |= {"DLC_RANKS_MEET": f"127.0.0.1:{port()}", "DLC_RANKS_PATIENCE": "120"}
        return {**common, **more}

    @property
    def argv(self) -> list[str]:
        words = ["--backend", "mpi4py", "--operations", ",".join(OPERATIONS)]
        words += ["--sizes", "4,1048576", "--rounds", "2"]
        return [str(self.python), "-S", str(PROBE), "collectives", *words]

    def said(self) -> list[Any]:
        names = [self.folder / f"rank-{rank:05d}.json" for rank in range(RANKS)]
        return [json.loads(name.read_text()) for name in names]


@pytest.fixture
def with_mpi4py(user: World, tmp_path: Path) -> Path:
    """Give a Python with mpi4py, whose MPI is this host's."""
    folder = tmp_path / "environment"
    subprocess.run(["/usr/bin/python3", "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin/pip"), "--quiet", "install", "mpi4py"]
    if subprocess.run(pip, env=dict(user.environ), check=False).returncode:
        skip("no mpi4py from the index that pip is set to")
    return folder / "bin/python"


@pytest.mark.long
def test_mpi4py_over_the_mpi_of_the_host(user: World, with_mpi4py: Path, tmp_path: Path) -> None:
    ranks = Ranks(python=with_mpi4py, folder=tmp_path)
    own = ranks.environment()
    words = [word for name in own for word in ("-x", name)]
    argv = ["mpirun", "-n", str(RANKS), *words, *ranks.argv]
    subprocess.run(argv, env={**user.environ, **own}, check=True)
    for rank, body in enumerate(ranks.said()):
        assert body["seen"] == {"rank": rank, "size": RANKS}
        assert body["transport"]["mpi"].startswith("Open MPI")
        rows = joining.read(body["rows"])
        assert {str(row.parameters["operation"]) for row in rows} == set(OPERATIONS)


@pytest.mark.long
def test_ranks_that_mpi_takes_for_one_each_are_refused(
    user: World, with_mpi4py: Path, tmp_path: Path
) -> None:
    # Started by something that is not the MPI's launcher: without a word it is 1 of 1 on each.
    ranks = Ranks(python=with_mpi4py, folder=tmp_path)
    own = {**user.environ, **ranks.environment()}
    started = [
        subprocess.Popen(ranks.argv, env={**own, "DLC_RANK": str(rank), "DLC_LOCAL_RANK": "0"})
        for rank in range(RANKS)
    ]
    assert all(one.wait() for one in started)
    error = ranks.said()[1]["error"]
    assert "mpi4py sees rank 0 of 1, and the launcher started rank 1 of 2" in error
