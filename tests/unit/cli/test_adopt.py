"""`dlcontainer adopt` refuses what it can't take before it needs an engine."""

from pathlib import Path

import pytest

from dlcontainer.cli import main


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["x.sif", "--name", "UPPER"], 2, "--name UPPER: not a name of"),
        (["x.sif", "--name", "../x"], 2, "--name ../x: not a name of"),
        (["x.sif", "--name", "a/../b"], 2, "--name a/../b: not a version"),
        (["x.sif", "--command", "a;b"], 2, "--command a;b: not a command's name"),
        (["docker://UPPER/x:1"], 2, "not docker://NAME"),
        (["docker://127.0.0.1:1/x:1"], 2, "has no digest"),
        (["missing.sif"], 2, "can't read missing.sif"),
        (["."], 2, "can't read ."),
        (["text"], 1, "neither a SIF nor an OCI archive"),
        (["cut.sif"], 1, "cut.sif"),
    ],
)
def test_refused(
    argv: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/no/such")
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("text")
    Path("cut.sif").write_bytes(b"\0" * 32 + b"SIF_MAGIC\0" + b"01\0" + b"02\0" + bytes(20))
    before = sorted(tmp_path.iterdir())
    assert main._run(["adopt", *argv, "--site", "local"], as_json=False) == code
    said = capsys.readouterr().err
    assert message in said
    assert "  next: " in said
    assert sorted(tmp_path.iterdir()) == before
