"""The clock of a rank: what it stamps, passes on and leaves, with real but tiny commands."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.job import step_events
from dlcontainer.bench.job.rank_clock import RankWatch, Stream
from dlcontainer.bench.job.scripts import CLOCK, MARK
from dlcontainer.bench.job.stamps import ClockStamp, RankStamps
from tests.skips import skip


def clocked(
    folder: Path, script: str, pattern: str = "", step: str = "", **environ: str
) -> tuple["subprocess.CompletedProcess[str]", dict[str, Any]]:
    argv = [sys.executable, "-I", "-S", str(CLOCK), "rank", str(folder), MARK, pattern, step, "--"]
    done = subprocess.run(
        [*argv, "sh", "-c", script], env={"PATH": "/usr/bin:/bin", **environ},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    [left] = folder.glob("rank-*.json")
    return done, json.loads(left.read_text())


def test_moments_of_a_command(real_processes: None, tmp_path: Path) -> None:
    script = f"echo '{MARK}'; sleep 0.2; echo step 1; sleep 0.2; echo step 2 >&2; echo; exit 3"
    done, body = clocked(tmp_path, script, r"^step \d", RANK="5", WORLD_SIZE="8")
    # All but the mark is passed on, to where it was written.
    assert (done.returncode, done.stdout, done.stderr) == (3, "step 1\n\n", "step 2\n")
    own = RankStamps.model_validate(body)
    assert (own.rank, own.ranks, own.code, own.matches) == (5, "8", 3, 2)
    assert own.process_s is not None
    assert own.first_s is not None
    assert own.last_s is not None
    assert 0 < own.process_s < own.process_s + 0.15 < own.first_s < own.last_s <= own.ended_s
    assert own.lines == ("step 1", "step 2")
    assert abs(own.clock_set_s) < 0.05


def test_lines_that_end_a_step_are_events(real_processes: None, tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    script = f"echo '{MARK}'; for n in 1 2 3; do echo step $n; sleep 0.1; done; echo 4 >&2; echo x"
    _, body = clocked(tmp_path, script, "", r"^step \d|^4", RANK="5", WORLD_SIZE="8")
    assert (body["matches"], body["first_s"]) == (0, None)
    [events] = step_events.read(tmp_path / "events")
    assert (events.rank, list(events.moments)) == (5, ["mark"])
    moments = events.steps()
    assert len(moments) == 4
    assert body["process_s"] <= moments[0] + 1e-6  # the file has nanoseconds
    assert moments[2] - moments[0] >= 0.19
    (tmp_path / "without").mkdir()
    clocked(tmp_path / "without", script, "", "no such line")
    assert not list(tmp_path.glob("without/events*"))


def test_a_signal_a_missing_program_and_a_child_that_stays(
    real_processes: None, tmp_path: Path
) -> None:
    for number, (script, code) in enumerate(
        [("kill -KILL $$", 137), ("exec /no/such", 127), ("sleep 100 & exit 0", 0)]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        done, body = clocked(folder, script)
        assert (done.returncode, body["code"]) == (code, code)
        assert body["process_s"] is None
        assert body["ended_s"] < 100


def test_a_mark_is_a_stamp(real_processes: None, tmp_path: Path) -> None:
    argv = [sys.executable, "-I", "-S", str(CLOCK), "mark", str(tmp_path / "m.json"), "4"]
    subprocess.run(argv, check=True, timeout=60)
    assert ClockStamp.model_validate_json((tmp_path / "m.json").read_text()).code == 4


def test_lines_are_found_however_they_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[bytes] = []

    def write(_: int, data: bytes) -> int:
        shown.append(data)
        return len(data)

    monkeypatch.setattr("os.write", write)
    watch = RankWatch(b"THE MARK", "step")
    stream = Stream(1, watch)
    for at, chunk in enumerate([b"hello\nTHE", b" MARK\nst", b"ep 1\r50 %", b"\rstep 2\nend"]):
        stream.feed(chunk, float(at))
    assert (watch.process, watch.first, watch.last, watch.matches) == (1.0, 2.0, 3.0, 2)
    assert b"".join(shown) == b"hello\nstep 1\r50 %\rstep 2\nend"


def test_it_runs_with_the_pythons_of_old_nodes(real_processes: None) -> None:
    vermin = shutil.which("vermin") or str(Path(sys.executable).with_name("vermin"))
    if not Path(vermin).exists():
        skip("no vermin here; type `make setup`")
    imported = set(re.findall(r"^(?:import|from) (\w+)", CLOCK.read_text(), re.MULTILINE))
    assert imported <= sys.stdlib_module_names
    argv = [vermin, "-t=3.6-", "--violations", "--no-tips", str(CLOCK)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("told", "asked"), [("3", 3), ("", None), ("many", None)])
def test_the_cpus_of_a_rank(
    real_processes: None, tmp_path: Path, told: str, asked: int | None
) -> None:
    _, body = clocked(tmp_path, f"echo '{MARK}'", SLURM_CPUS_PER_TASK=told)
    assert (body["cpus"], body["cpus_asked"]) == (len(os.sched_getaffinity(0)), asked)
