"""`site detect` on the command line: what it prints, writes and refuses; the nodes are made."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dlcontainer.cli import main
from dlcontainer.detection import asking, evidence, node_report
from dlcontainer.detection.evidence import NodeEvidence
from dlcontainer.detection.published_image import _stack
from tests.unit.detection.machines import BARE, BASE, H100, printed

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line on a node that is made: its scheduler is Slurm."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    node = {"now": BASE}
    monkeypatch.setattr(asking, "here", lambda runner, environ: node["now"])

    def run(*argv: object, on: NodeEvidence = BASE) -> tuple[int, str, str]:
        node["now"] = on
        words = ["site", "detect", *(str(word) for word in argv)]
        code = main._run(words, as_json="--json" in words)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_a_table_and_a_document(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("-o", "machine.json", on=H100)
    assert code == 0
    assert "H100 80GB HBM3" in out
    assert "nvidia-smi --query-gpu" in out
    assert "unknown: no podman on PATH" in out
    written = node_report.read(tmp_path / "machine.json")
    assert written.here == node_report.facts(H100)
    code, out, _ = run("--json", on=H100)
    document = json.loads(out)
    assert document["schema"] == node_report.SCHEMA
    assert len(document["here"]) == len(written.here)
    assert {key for fact in document["here"] for key in fact} == {"name", "value", "how", "why"}


def test_the_output_of_a_job_is_the_second_column(run: Run, tmp_path: Path) -> None:
    other = {"process": {"kernel": "6.1.0\x1b[31m", "machine": "x86_64"}}
    (tmp_path / "job.log").write_text(printed(other))
    code, out, _ = run("--job-output", "job.log")
    assert code == 0
    assert "facts differ" in out
    assert "6.1.0\\u001b[31m" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("--job", "--job-output", "x"), 2, "takes the place of --job"),
        (("--job", "--directive", "gpus=4"), 2, "is not a line of a job's head"),
        (("--job", "--directive", "#SBATCH -N1\nrm -rf /"), 2, "is not a line of a job's head"),
        (("--job", "--partition", "a\nrm -rf /"), 3, "partition"),
        (("--job", "--time", "soon"), 3, "not a time limit"),
        (("--job-output", "missing.log"), 1, "can't read missing.log"),
        (("--job", "--site", "no-such"), 3, "no-such"),
    ],
)
def test_what_is_refused(run: Run, words: tuple[str, ...], code: int, why: str) -> None:
    ended, _, err = run(*words)
    assert (ended, why in err) == (code, True), err


def test_a_job_without_a_scheduler(run: Run) -> None:
    code, _, err = run("--job", on=BARE)
    assert code == 2
    assert "no scheduler is known here" in err


def test_a_scheduler_that_nobody_follows(run: Run, tmp_path: Path) -> None:
    code, _, err = run("--job", "--site", "theta", "--account", "mine")
    assert code == 2
    assert "qsub" in err
    assert "--job-output FILE" in err
    text = (tmp_path / "site-detect.sh").read_text()
    assert "#COBALT" in text
    assert "mine" in text
    assert evidence.MARK in text


def test_libraries_of_a_record_that_nobody_can_read() -> None:
    stack, doubt = _stack(
        {"cuda": "12.4", "gpu_targets": ["SM_90"], "mpi": {"family": "x", "name": ""}}
    )
    assert stack.cuda == "12.4"
    assert doubt == "its record's gpu_targets, mpi can't be read"
