"""Tools that look at a program from within work with a module pack as they do without one."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.packs import environments
from tests.integration.packs.environments import Environment
from tests.skips import skip

WORK = "import alpha\nprint(alpha.sub.two.double(2))\n"
LINE = 5  # of alpha/sub/two.py: return 2 * x
TOOLS = ("coverage==7.17.3", "debugpy==1.8.22")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = environments.make(tmp_path_factory.mktemp("tools") / "environment")
    made.pack()
    (made.prefix / "work.py").write_text(WORK)
    return made


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with coverage and debugpy."""
    folder = tmp_path_factory.mktemp("of tools")
    words = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(folder),
    ]
    done = subprocess.run([*words, *TOOLS], capture_output=True, text=True, check=False)
    if done.returncode:
        skip(f"pip can't install {', '.join(TOOLS)}: {done.stderr[-300:]}")
    return folder


def test_python_v_names_the_pack_and_the_loader(world: Environment) -> None:
    told = world.run("-v", "work.py").stderr
    for module in ("alpha", "alpha.one", "alpha.sub.two"):
        assert f"import {module!r} # <_dlcontainer_pack.PackLoader object at" in told
    assert told.count(f"# code object from {str(world.file)!r}") > 4
    assert "no module pack" not in told


def test_a_debugger_of_the_standard_library_stops_there(world: Environment) -> None:
    place = f"{world.packages}/alpha/sub/two.py:{LINE}"
    words = ("-m", "pdb", "-c", f"break {place}", "-c", "continue", "-c", "p x", "-c", "list")
    told = world.same_words(*words, "-c", "quit", "work.py")
    assert f"Breakpoint 1 at {place}" in told
    assert f"{LINE} B->\t    return 2 * x" in told


def test_a_profile_names_the_files(world: Environment) -> None:
    told = world.run("-m", "cProfile", "-s", "name", "work.py").stdout
    assert "two.py:4(double)" in told


@pytest.mark.long
def test_coverage_counts_the_same_lines(world: Environment, tools: Path) -> None:
    def lines() -> dict[str, Any]:
        out = world.prefix / "coverage.json"
        words = ("-m", "coverage", "run", "--branch", "--source=alpha", "work.py")
        world.run(*words, path=str(tools))
        world.run("-m", "coverage", "json", "-q", "-o", out, path=str(tools))
        files: dict[str, Any] = json.loads(out.read_text())["files"]
        return files

    packed = lines()
    with world.without():
        assert lines() == packed
    (two,) = [one for name, one in packed.items() if name.endswith("two.py")]
    assert LINE in two["executed_lines"]
    (later,) = [one for name, one in packed.items() if name.endswith("later.py")]
    assert later["executed_lines"] == []


@pytest.mark.long
def test_debugpy_stops_at_a_line(world: Environment, tools: Path) -> None:
    frames = stopped_at(world, tools)
    with world.without():
        assert stopped_at(world, tools) == frames
    assert frames[0] == ("double", f"{world.packages}/alpha/sub/two.py", LINE)


def stopped_at(world: Environment, tools: Path) -> list[tuple[str, str, int]]:
    """Run the program under debugpy up to a break point; give the stack there."""
    source = {"path": f"{world.packages}/alpha/sub/two.py"}
    with attached(world, tools) as client:
        client.ask("initialize", adapterID="test", pathFormat="path")
        client.ask("attach", justMyCode=False, waits=False)
        client.event("initialized")
        client.ask("setBreakpoints", source=source, breakpoints=[{"line": LINE}])
        client.ask("configurationDone")
        thread = client.event("stopped")["threadId"]
        frames = client.ask("stackTrace", threadId=thread)["stackFrames"]
        client.ask("disconnect", terminateDebuggee=True)
    return [(one["name"], one["source"]["path"], one["line"]) for one in frames]


class Client:
    """Speaks the debug adapter protocol: a head with the length, a body of JSON."""

    def __init__(self, connection: socket.socket) -> None:
        """Speak over a connection."""
        self.file = connection.makefile("rwb")
        self.number = 0
        self.events: list[dict[str, Any]] = []

    def ask(self, command: str, *, waits: bool = True, **arguments: object) -> Any:
        """Ask for something; give the answer's body."""
        self.number += 1
        asked = {"seq": self.number, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(asked).encode()
        self.file.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.file.flush()
        while waits:
            told = self._read()
            if told.get("request_seq") == asked["seq"]:
                assert told["success"], told
                return told.get("body")
            self.events.append(told)
        return None

    def event(self, name: str) -> Any:
        """Wait for an event; give its body."""
        while True:
            for told in self.events:
                if told.get("event") == name:
                    self.events.remove(told)
                    return told.get("body")
            self.events.append(self._read())

    def _read(self) -> dict[str, Any]:
        size = 0
        while line := self.file.readline().strip():
            size = int(line.rpartition(b":")[2])
        body: dict[str, Any] = json.loads(self.file.read(size))
        return body


@contextmanager
def attached(world: Environment, tools: Path) -> Iterator[Client]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    words = [
        str(world.python),
        "-m",
        "debugpy",
        "--listen",
        f"127.0.0.1:{port}",
        "--wait-for-client",
    ]
    process = subprocess.Popen(
        [*words, "work.py"],
        cwd=world.prefix,
        env={"PATH": os.defpath, "PYTHONPATH": str(tools), "PYDEVD_DISABLE_FILE_VALIDATION": "1"},
        stdout=subprocess.DEVNULL,
    )
    try:
        with connected(port) as connection:
            yield Client(connection)
    finally:
        process.kill()
        process.wait()


def connected(port: int) -> socket.socket:
    """Connect as soon as somebody listens."""
    end = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=60)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
