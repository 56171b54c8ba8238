"""`bench trace` as it is typed, and what is refused before anything runs."""

import hashlib
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.job import traced_job
from dlcontainer.bench.job.job_records import Side
from dlcontainer.bench.job.traced_job import SideJob, TraceContext
from dlcontainer.cli import main
from tests import madecalls, publishing
from tests.madecalls import MadeProcess, call
from tests.madetraces import MadeRank, leave
from tests.unit.bench.trace.test_trace import LATE, QUICK


@dataclass
class Jobs:
    """Sides' jobs that leave a trace, or none, and how they end."""

    ends: dict[Side, str] = field(default_factory=dict)
    silent: tuple[Side, ...] = ()
    calls: Sequence[MadeProcess] = ()
    contexts: list[TraceContext] = field(default_factory=list)

    def run(self, context: TraceContext) -> Iterator[SideJob]:
        self.contexts.append(context)
        for side in self.ends or context.arms:
            traces, log = context.folder / side / "trace", context.folder / side / "job.log"
            ranks = [MadeRank(spans=QUICK), MadeRank(spans=LATE)]
            leave(traces, [] if side in self.silent else ranks)
            madecalls.leave(traces, *self.calls)
            log.write_text("the last line\n")
            ended = self.ends.get(side, traced_job.GOOD)
            image = context.images.get(side)
            yield SideJob(side=side, traces=traces, log=log, ended=ended, image_sha256=image)


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    stand_in = Jobs()
    monkeypatch.setattr(traced_job, "run", stand_in.run)
    return stand_in


@pytest.fixture
def native(tmp_path: Path) -> Path:
    (tmp_path / "native/bin").mkdir(parents=True)
    (tmp_path / "native/bin/python").touch()
    return tmp_path / "native"


def run(folder: Path, native: Path, *more: str, ranks: int = 2) -> int:
    words = ["bench", "trace", "--site", "local", "--native", str(native), "--ranks", str(ranks)]
    return main._run([*words, "-o", str(folder), *more, "--", "python", "t.py"], as_json=False)


def test_a_trace_is_said_and_kept(
    jobs: Jobs, native: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "t", native, "--steps", "7", "--warm-up-steps", "3") == 0
    said = capsys.readouterr().out
    assert said.startswith("native, 6 steps of 2 ranks: the cost of tracing can't be told")
    assert "all_reduce  4,000" in said
    assert "critical path, step" in said
    assert (tmp_path / "t/trace.json").exists()
    (context,) = jobs.contexts
    assert list(context.arms) == ["native"]
    schedule = context.framing.search.trace
    assert schedule is not None
    assert (schedule.steps, schedule.warm_up) == (7, 3)
    assert context.framing.command == ("python", "t.py")
    assert "-n 2" in context.arms["native"]


def test_the_path_of_a_program_beside_a_training_is_said(
    jobs: Jobs, native: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.calls = [
        MadeProcess(rank=0, calls=[call("Allreduce", 10, 250, sent=8000, turn=1)]),
        MadeProcess(rank=1, calls=[call("Allreduce", 210, 250, sent=8000, turn=1)]),
    ]
    assert run(tmp_path / "t", native) == 0
    said = capsys.readouterr().out
    assert "critical path, step" in said
    assert (
        "\ncritical path, sim, 250.0 ms: rank 1 210.0 ms (outside of MPI 210.0, in MPI 0.000) -> "
        "MPI_Allreduce 40.0 ms\n"
    ) in said


def test_a_side_in_an_image_says_which(
    jobs: Jobs, native: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dlcontainer.image.sif.arch", lambda _: platform.machine())
    image = publishing.image_of(tmp_path / "images")
    sha256 = hashlib.sha256(image.read_bytes()).hexdigest()
    assert run(tmp_path / "t", native, "--image", str(image), "--recipe", "pytorch") == 0
    body = json.loads((tmp_path / "t/trace.json").read_text())
    assert [(side["side"], side["image_sha256"]) for side in body["sides"]] == [
        ("native", None),
        ("container", sha256),
    ]


def test_a_job_that_failed_has_its_trace(
    jobs: Jobs, native: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.ends = {"native": "rank 1 ended with exit code 137"}
    assert run(tmp_path / "t", native) == 7
    said = capsys.readouterr()
    assert "native, 6 steps of 2 ranks" in said.out
    assert "the native job failed" in said.err
    assert "rank 1 ended with exit code 137" in said.err
    assert (tmp_path / "t/trace.json").exists()


@pytest.mark.parametrize("silent", ["native", "container"])
def test_a_side_s_trace_is_kept_whatever_the_other_did(
    jobs: Jobs, native: Path, tmp_path: Path, silent: Side, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.ends, jobs.silent = {"native": "it died", "container": "it died"}, (silent,)
    assert run(tmp_path / "t", native) == 7
    said = capsys.readouterr()
    kept = "container" if silent == "native" else "native"
    assert f"{kept}, 6 steps of 2 ranks" in said.out
    assert f"the {silent} job failed, and left no trace" in said.err
    assert "the last line" in said.err


def test_without_any_trace_nothing_is_written(jobs: Jobs, native: Path, tmp_path: Path) -> None:
    jobs.silent = ("native",)
    assert run(tmp_path / "t", native) == 7
    assert not (tmp_path / "t/trace.json").exists()


@pytest.mark.parametrize(
    ("folder", "changes", "code", "says"),
    [
        ("native", {}, 7, "the folder exists already"),
        ("a:b", {}, 2, "has a colon or a comma in its name"),
        ("native/bin/python/t", {}, 7, "the folder can't be made"),
        ("t", {"more": ["--nodes", "2"], "ranks": 3}, 2, "nodes have equal numbers of ranks"),
        ("t", {"more": ["--nodes", "2"]}, 3, "jobs of this site cannot request nodes"),
        ("t", {"more": ["--steps", "1"]}, 2, "steps"),
    ],
)
def test_what_is_refused(
    jobs: Jobs, native: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    folder: str, changes: Mapping[str, Any], code: int, says: str,
) -> None:  # fmt: skip
    more = changes.get("more", [])
    assert run(tmp_path / folder, native, *more, ranks=changes.get("ranks", 2)) == code
    assert says in capsys.readouterr().err
    assert jobs.contexts == []
