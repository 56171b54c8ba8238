"""A session that was killed goes on with the real engine, and is judged as one."""

import json
import os
import signal
import subprocess
import uuid
from pathlib import Path

from dlcontainer.bench.samples import continuation, reader
from tests.integration.test_bench import options, user
from tests.integration.world import Built, World
from tests.processes import MARK, kill_marked, left_of, poll, stop

__all__ = ["user"]  # a fixture


def test_a_killed_session_goes_on(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    mark, output = uuid.uuid4().hex, tmp_path / "x.jsonl"
    own = user.having(**{MARK: mark})
    more = ("--looks", "8,12", "--controls", 4, "--seed", 3)
    argv = [*own.program, "bench", "import", *options(tiny_image, tiny, output, *more)]
    running = subprocess.Popen(
        argv, env=dict(own.environ), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        assert poll(lambda: output.exists() and len(output.read_bytes().splitlines()) > 12, 120)
        # It holds the file, stopped before its end: who would go on with it now is sent away.
        stop(running.pid)
        base = options(tiny_image, tiny, output)
        base[base.index("-o") : base.index("-o") + 2] = ["--resume", str(output)]
        done = user.run("bench", "import", *base, code=7)
        assert "another process is writing this session" in done.stderr
        os.kill(running.pid, signal.SIGKILL)
        running.wait(120)
        assert left_of(mark) == {}
    finally:
        running.kill()
        running.wait()
        kill_marked(mark)
    before = output.read_bytes()
    with output.open("ab") as file:
        file.write(b'{"kind":"sample","ind')  # what a power cut leaves
    done = user.run("bench", "import", *base, "--threads", "77", code=7)
    assert "workload.threads: " in done.stderr
    done = user.run("bench", "import", *base)
    assert "removing an incomplete last line (21 bytes)" in done.stderr
    assert output.read_bytes().startswith(before)
    series = reader.read(output)
    assert series.complete
    assert len(series.resumes) == 1
    pairs = [(s.role, s.pair, s.position) for s in continuation.used(series)]
    assert len(pairs) == len(set(pairs))
    report = json.loads(user.run("report", output, "--json").stdout)
    assert report["sessions"][0]["resumed_lines"] == [series.resumes[0].line]
    metrics = report["sessions"][0]["metrics"]
    assert [reading["metric"] for reading in metrics["readings"]] == [
        "wall_s",
        "counts.max_rss_mb",
    ]
    done = user.run("bench", "import", *base, code=7)
    assert "a decided or exhausted session is not extended" in done.stderr
