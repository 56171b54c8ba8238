import os
from pathlib import Path

import pytest

from dlcontainer.cli import main
from dlcontainer.errors import ChecksFailedError, UsageError
from dlcontainer.lab.filesystem import counting, microbenchmark
from dlcontainer.lab.slowfs import mounting
from dlcontainer.sites.facts import FileSystemSpeed
from dlcontainer.system.process import ProcessRunner

RUNNER = ProcessRunner(environ={"PATH": "/nowhere"})


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give a machine without strace and without FUSE."""
    monkeypatch.setattr(counting, "find_program", lambda name, environ: None)
    monkeypatch.setattr(mounting, "find_program", lambda name, environ: None)
    monkeypatch.setattr(counting, "DEVICE", tmp_path / "no fuse")
    return tmp_path


def test_strace_comes_first(monkeypatch: pytest.MonkeyPatch, bare: Path) -> None:
    monkeypatch.setattr(counting, "find_program", lambda name, environ: Path("/usr/bin") / name)
    assert counting.choose(None, bare, RUNNER) == "strace"


def test_then_our_counters_then_audit_hooks(monkeypatch: pytest.MonkeyPatch, bare: Path) -> None:
    device = bare / "fuse"
    device.touch()
    monkeypatch.setattr(counting, "DEVICE", device)
    assert counting.choose(None, bare, RUNNER) == "slowfs"
    assert counting.choose(None, None, RUNNER) == "audit", "no folder to show"
    device.unlink()
    assert counting.choose(None, bare, RUNNER) == "audit"


def test_what_was_asked_for_and_is_not_here(bare: Path) -> None:
    with pytest.raises(ChecksFailedError, match="strace not found"):
        counting.choose("strace", bare, RUNNER)
    with pytest.raises(ChecksFailedError, match=r"fusermount3|FUSE"):
        counting.choose("slowfs", bare, RUNNER)


def test_our_counters_need_a_folder_that_the_command_names(tmp_path: Path) -> None:
    task = counting.CountingTask(argv=("true",), ranks=1, under=None, work=tmp_path)
    with pytest.raises(UsageError, match="--under FOLDER"):
        counting.count(task, "slowfs", RUNNER)
    named = counting.CountingTask(argv=("true", "/x"), ranks=1, under=tmp_path / "y", work=tmp_path)
    with pytest.raises(UsageError, match="does not name this folder"):
        counting.count(named, "slowfs", RUNNER)


def test_files_by_kind() -> None:
    files = ("/a/b.pyc", "/a/c.cpython-311.pyc", "/l/libx.so.3", "/l/y.abi3.so", "/t")
    said = counting.Count(operations={"open": 5}, bytes=1, files=files).described()
    assert (said.pyc, said.so, said.unique_files) == (2, 2, 5)


def test_cold_that_cannot_be_proved_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "big").write_bytes(os.urandom(1 << 20))
    monkeypatch.setattr(microbenchmark, "_WINDOW_S", 0.05)
    for share in (None, 0.5):
        monkeypatch.setattr(microbenchmark, "resident", lambda number, size, share=share: share)
        found = microbenchmark.probe(tmp_path)
        assert found.cold_proved is not True
        assert any("cold is not proved" in note for note in found.notes)
    monkeypatch.setattr(microbenchmark, "resident", lambda number, size: 0.0)
    assert microbenchmark.probe(tmp_path).cold_proved is True


def test_facts_are_written_whole_and_what_can_not_be_is_said_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def probed(folder: Path, file: Path | None) -> microbenchmark.MicrobenchmarkResult:
        speed = FileSystemSpeed.model_validate({"latency_ms": 1.0})
        return microbenchmark.MicrobenchmarkResult(
            speed=speed, samples_ms=(1.0,), rates=(), saturated=True, cold_proved=None, notes=()
        )

    monkeypatch.setattr(microbenchmark, "probe", probed)
    argv = ["lab", "probe-fs", str(tmp_path), "-o"]
    assert main._run([*argv, str(tmp_path / "facts.yaml")], as_json=False) == 0
    assert "latency_ms: 1" in (tmp_path / "facts.yaml").read_text()
    monkeypatch.setattr(microbenchmark, "probe", None)
    assert main._run([*argv, str(tmp_path / "no" / "facts.yaml")], as_json=False) == 7
    assert "choose another path with -o" in capsys.readouterr().err


def test_residency_is_the_kernels_word(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1 << 20))
    number = os.open(path, os.O_RDONLY)
    try:
        assert microbenchmark.resident(number, 1 << 20) == 1.0
    finally:
        os.close(number)


def test_a_folder_without_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(microbenchmark, "_WINDOW_S", 0.05)
    found = microbenchmark.probe(tmp_path)
    assert found.speed.client_mb_s is None
    assert any("reads were not probed" in note for note in found.notes)
    with pytest.raises(UsageError, match="no such folder"):
        microbenchmark.probe(tmp_path / "nothing")
    with pytest.raises(UsageError, match="no such file"):
        microbenchmark.probe(tmp_path, tmp_path / "nothing")
