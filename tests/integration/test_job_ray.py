"""What a node of a job's Ray runs, without an image: meeting, strangers, and how it ends."""

import os
import re
import signal
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.processes import poll
from tests.rays import FAKE, MODULE, watched
from tests.values import TEMPLATES

TOKEN = "0123456789abcdef" * 4


def program() -> str:
    return (TEMPLATES / "job/ray.py.j2").read_text()


@dataclass
class Nodes:
    """Nodes of one job on this machine, each a process."""

    folder: Path
    python: Path
    variables: Mapping[str, str]
    port: int
    running: list["subprocess.Popen[str]"] = field(default_factory=list)

    def start(
        self, rank: int, *command: str, of: int = 1, wait: int = 60, **variables: str
    ) -> "subprocess.Popen[str]":
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port)}
        numbers = {"RANK": str(rank), "WORLD_SIZE": str(of), "RAY_AUTH_TOKEN": TOKEN}
        started = subprocess.Popen(
            [self.python, "-I", "-c", program(), str(wait), *command],
            env={**os.environ, **place, **numbers, **self.variables, **variables},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(started)
        return started

    def run(self, rank: int, *command: str, of: int = 1, token: str = TOKEN) -> tuple[int, str]:
        return self.ended(self.start(rank, *command, of=of, RAY_AUTH_TOKEN=token))

    def ended(self, node: "subprocess.Popen[str]") -> tuple[int, str]:
        _, said = node.communicate(timeout=300)
        return node.returncode, said

    def knock(self) -> socket.socket:
        """Connect to the meeting point as anybody can, once it is there."""
        found: list[socket.socket] = []

        def there() -> bool:
            try:
                found.append(socket.create_connection(("127.0.0.1", self.port), timeout=60))
            except OSError:
                return False
            return True

        assert poll(there, 60)
        return found[0]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the Python of an environment with a program that is called as Ray's."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    program = folder / "bin/ray"
    program.write_text(f"#!{folder}/bin/python\n{FAKE}")
    program.chmod(0o755)
    [modules] = folder.glob("lib/python3*/site-packages")
    (modules / "ray.py").write_text(MODULE)
    return folder / "bin/python"


@pytest.fixture
def nodes(python: Path, tmp_path: Path) -> Iterator[Nodes]:
    """Give a job's nodes; no process and no folder of theirs is left."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with watched() as variables:
        job = Nodes(folder=tmp_path, python=python, variables=variables, port=port)
        yield job
        for node in job.running:
            if node.poll() is None:
                node.terminate()


def started(folder: Path) -> list[str]:
    return sorted(path.name.partition("-")[0] for path in folder.glob("started/*"))


def test_a_stranger_learns_nothing_and_stops_nobody(nodes: Nodes) -> None:
    head = nodes.start(0, "sh", "-c", "exit 5", of=2)
    silent, liar = nodes.knock(), nodes.knock()
    with liar.makefile("rw") as stream:
        assert re.fullmatch(r"[0-9a-f]{32}\n", stream.readline())
        stream.write(f"1 stranger {'0' * 32} {'0' * 64}\n")
        stream.flush()
        assert stream.readline() == ""
    worker = nodes.start(1, of=2)
    code, said = nodes.ended(head)
    assert code == 5, said
    assert "job: Ray has 2 nodes, 4 CPUs, 0 GPUs" in said
    assert nodes.ended(worker)[0] == 0
    assert started(nodes.folder) == ["head", "worker"]
    silent.close()
    liar.close()


def test_a_worker_does_not_join_a_stranger(nodes: Nodes) -> None:
    with socket.create_server(("127.0.0.1", nodes.port)) as server:
        worker = nodes.start(1, of=2)
        connection, _ = server.accept()
        with connection, connection.makefile("rw") as stream:
            stream.write("0" * 32 + "\n")
            stream.flush()
            assert TOKEN not in stream.readline()
            stream.write(f"127.0.0.1:1 {'0' * 64}\n")
            stream.flush()
            code, said = nodes.ended(worker)
    assert code == 3
    assert "not of this job" in said
    assert started(nodes.folder) == []


def test_a_port_that_is_taken(nodes: Nodes) -> None:
    with socket.create_server(("", nodes.port)):
        code, said = nodes.run(0, "true", of=2)
    assert code == 3
    assert f"port {nodes.port}, where the nodes of this job meet" in said
    assert "DLCONTAINER_MASTER_PORT=PORT" in said


def test_no_token_no_ray(nodes: Nodes) -> None:
    code, said = nodes.run(0, "true", token="")
    assert (code, started(nodes.folder)) == (3, [])
    assert "RAY_AUTH_TOKEN did not reach this node" in said


@pytest.mark.parametrize("wrong", ["no-head", "no-worker"])
def test_what_ray_says_when_it_does_not_start(nodes: Nodes, wrong: str) -> None:
    # The worker looks for the head before that begins, and ends.
    with socket.create_server(("127.0.0.1", nodes.port)) as early:
        worker = nodes.start(1, of=2, FAKE_RAY=wrong)
        early.accept()[0].close()
    head = nodes.start(0, "true", of=2, FAKE_RAY=wrong)
    code, said = nodes.ended(head)
    assert code == 3
    assert "a reason that Ray gave" in said
    assert nodes.ended(worker)[0] == 0


def test_a_node_that_ray_does_not_count(nodes: Nodes) -> None:
    worker = nodes.start(1, of=2, FAKE_RAY="late")
    head = nodes.start(0, "true", of=2, wait=8, FAKE_RAY="late")
    code, said = nodes.ended(head)
    assert code == 3
    assert "1 of 2 nodes are in Ray's cluster after 8 s" in said
    assert nodes.ended(worker)[0] == 0


def test_the_command_is_told_to_end_and_what_it_left_ends(nodes: Nodes) -> None:
    left = "import os, time; os.fork() or (os.setsid(), time.sleep(600))"
    script = (
        f"{sys.executable} -c '{left}'; trap 'echo checkpoint > saved; exit 0' TERM;"
        " echo > ready; while :; do sleep 0.1; done"
    )
    head = nodes.start(0, "sh", "-c", script)
    assert poll((nodes.folder / "ready").exists, 60)
    head.send_signal(signal.SIGTERM)
    code, said = nodes.ended(head)
    assert code == 128 + signal.SIGTERM, said
    assert (nodes.folder / "saved").exists()


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_the_command_is_told_before_the_time_limit(nodes: Nodes, number: signal.Signals) -> None:
    script = "trap 'exit 5' USR1 USR2; echo > ready; while :; do sleep 0.1; done"
    head = nodes.start(0, "sh", "-c", script)
    assert poll((nodes.folder / "ready").exists, 60)
    head.send_signal(number)
    code, said = nodes.ended(head)
    assert code == 5, said


@pytest.mark.parametrize(
    ("command", "code"), [(("true",), 0), (("no-such-program",), 127), (("/etc/passwd",), 126)]
)
def test_the_commands_exit_code(nodes: Nodes, command: tuple[str, ...], code: int) -> None:
    assert nodes.run(0, *command)[0] == code
