"""The program that runs on nodes: bounds, hanging programs, hostile files; no secret leaves."""

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from dlcontainer.detection import asking, evidence, node_report
from dlcontainer.errors import ChecksFailedError
from dlcontainer.schedulers import SCHEDULERS
from dlcontainer.system.process import ProcessRunner
from tests.skips import skip
from tests.unit.detection.machines import BASE, collector, planted, printed
from tests.unit.probe.test_pythons import interpreter


def test_files_of_a_root(tmp_path: Path) -> None:
    planted(
        tmp_path,
        {
            "/proc/cpuinfo": "model name : X\n",
            "/sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
            "/etc/shadow": "root:secret\n",
        },
    )
    texts = collector().files(str(tmp_path))
    assert texts == {
        "/proc/cpuinfo": "model name : X\n",
        "/sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
    }


def test_each_scheduler_s_commands_are_run() -> None:
    commands = {" ".join(argv) for argv in collector().COMMANDS}
    signs = [batch.signs for batch in SCHEDULERS.values() if batch.signs]
    assert len(signs) >= 4
    for sign in signs:
        assert {sign.version_command, sign.partitions_command} <= commands


def test_hostile_files(tmp_path: Path) -> None:
    planted(tmp_path, {"/proc/meminfo": "x" * 10_000_000})
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_bytes(b"ID=\xff\xfe\x1b[31m\n")
    os.mkfifo(tmp_path / "proc/cpuinfo")
    module = collector()
    texts = module.files(str(tmp_path))
    assert len(texts["/proc/meminfo"]) == module.MOST_FILE
    assert "/proc/cpuinfo" not in texts  # a pipe is no reason to wait
    assert "\ufffd" in texts["/etc/os-release"]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bin/nvidia-smi"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\nsleep 600 & sleep 600\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_program_that_hangs(real_processes: None, program: Path) -> None:
    assert collector().answer([str(program)], 0.2) == {"error": "no answer within 0 s"}


def test_a_program_that_says_much(real_processes: None, program: Path) -> None:
    program.write_text("#!/bin/sh\nexec yes x\n")
    module = collector()
    said = module.answer([str(program)], 30)
    assert len(said["out"]) == module.MOST_ANSWER


def test_a_program_on_a_relative_path_is_not_run(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(program.parent)
    monkeypatch.setenv("PATH", ".:")
    assert collector().program("nvidia-smi") is None


def test_this_node(real_processes: None) -> None:
    environ = {
        **os.environ,
        "HTTPS_PROXY": "http://me:swordfish@proxy:1",
        "API_TOKEN": "swordfish",
        "PATH": "/usr/bin:/bin",
    }
    said = asking.here(ProcessRunner(environ=environ), environ)
    facts = node_report.facts(said)
    assert len([fact for fact in facts if fact.value is not None]) >= 25
    assert "swordfish" not in repr(said)
    assert "HTTPS_PROXY" in said.proxies


def test_the_script_of_a_job_runs_alone(real_processes: None, tmp_path: Path) -> None:
    text = asking.script(("#SBATCH --partition=gpu",))
    assert text.startswith("#!/bin/sh\n#SBATCH --partition=gpu\n# Written by")
    path = tmp_path / "job.sh"
    path.write_text(text)
    runner = ProcessRunner(environ={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"})
    done = runner(["sh", str(path)], cwd=tmp_path)
    assert evidence.read(done.stdout, "the job").process.machine == os.uname().machine
    without = ProcessRunner(environ={"PATH": "/no/such"})
    done = without(["/bin/sh", str(path)], check=False)
    # platform-python stands outside of PATH, on some systems.
    assert done.returncode == 1 or evidence.MARK in done.stdout


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there was no output"),
        ("bash: python3: command not found\n", "command not found"),
        (f"{evidence.MARK}{{\n", "Expecting property name"),
        (f"{evidence.MARK}[]\n", "object"),
        (printed({"version": 1, "more": 1}), "more"),
        (printed({"files": {"/proc/cpuinfo": 3}}), "files./proc/cpuinfo"),
        (printed({"process": {"page": "4096"}}), "process.page"),
        (f"{evidence.MARK}{'[' * 9999}\n", "nested too deeply"),
    ],
)
def test_output_that_is_none(text: str, why: str) -> None:
    with pytest.raises(ChecksFailedError) as caught:
        evidence.read(text, "job.log")
    assert why in str(caught.value)
    assert "job.log" in str(caught.value)


def test_the_last_words_of_a_log_count() -> None:
    first, last = ({"process": {"kernel": name}} for name in ("1.0", "2.0"))
    assert evidence.read(printed(first) + printed(last), "x").process.kernel == "2.0"


def test_a_document_reads_back(tmp_path: Path) -> None:
    facts = node_report.facts(BASE)
    other = tuple(fact for fact in facts if fact.name != "os.glibc")
    detection = node_report.Detection(taken="2026-11-27T20:00:00Z", here=facts, job=other)
    path = tmp_path / "machine.json"
    path.write_text(json.dumps({"schema": node_report.SCHEMA, **detection.body()}))
    again = node_report.read(path)
    assert (again.here, again.job) == (facts, other)
    assert [row["name"] for row in again.differences] == ["os.glibc"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"schema": "dlcontainer/site-detect/2"}',
        '{"schema": "dlcontainer/site-detect/1"}',
    ],
)
def test_a_document_that_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "machine.json"
    path.write_text(text)
    with pytest.raises(ChecksFailedError, match="is no detected machine"):
        node_report.read(path)


@pytest.mark.parametrize("minor", range(6, 14), ids=lambda minor: f"3.{minor}")
def test_under_every_python(real_processes: None, minor: int) -> None:
    python = interpreter(minor)
    if python is None:
        skip(f"no python3.{minor} here", elsewhere="test_an_old_python_is_here")
    runner = ProcessRunner(environ={"PATH": "/usr/bin:/bin"})
    done = runner([python, "-I", "-"], stdin=asking.COLLECT.read_text())
    said = evidence.read(done.stdout, f"Python 3.{minor}")
    assert said.process.python.startswith(f"3.{minor}.")
    assert said.process.machine == os.uname().machine
