"""Start-up: homes are on NFS, so few files are opened and heavy imports wait for their command."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

MOST_FILES = 400
HEAVY = {"pydantic", "jinja2", "rich", "requests", "yaml"}
PROGRAM = """
import json, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
sys.argv = ["dlcontainer", *sys.argv[1:]]
from dlcontainer.cli.main import run
try:
    run()
finally:
    print(json.dumps([len(opened), sorted(sys.modules)]), file=sys.stderr)
"""

Start = Callable[..., tuple[str, int, set[str]]]


@pytest.fixture
def start(real_processes: None, tmp_path: Path) -> Start:
    def start(*argv: str) -> tuple[str, int, set[str]]:
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "it's a home")}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *argv],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=env,
            check=True,
        )
        files, modules = json.loads(done.stderr.splitlines()[-1])
        return done.stdout, files, set(modules)

    return start


@pytest.mark.parametrize("command", [(), ("plan",), ("build",), ("site",)])
def test_help_is_light(start: Start, command: tuple[str, ...]) -> None:
    start(*command, "--help")  # the first time after a change its byte code is written
    out, files, modules = start(*command, "--help")
    assert "Usage: dlcontainer" in out
    assert files <= MOST_FILES
    # Typer itself takes pydantic to read a command's parameters, where it is there.
    assert modules & HEAVY <= ({"pydantic"} if command else set())


@pytest.mark.parametrize("command", ["plan", "render"])
def test_plan_and_render_start_no_process(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: object
) -> None:
    from dlcontainer.cli import main

    events: list[str] = []
    started = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn")
    listening = True

    def listen(event: str, args: object) -> None:
        if listening and event in started:
            events.append(event)

    sys.addaudithook(listen)
    monkeypatch.setenv("HOME", str(tmp_path))
    try:
        assert main._run([command, "--site", "local"], as_json=False) in {0, 3}
        assert main._run([command, "--site", "example-slurm"], as_json=False) == 0
    finally:
        listening = False
    assert events == []
