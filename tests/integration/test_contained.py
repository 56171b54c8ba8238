"""What an image of somebody else's sees of this host before anybody trusts it: nothing."""

import hashlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.config.field_types import OCI_ARCH, Arch
from dlcontainer.engines import apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import BuildSpec
from dlcontainer.system.machine import find_program, read_host
from tests import foreign
from tests.integration.world import World, missing

ARCH: Arch = read_host({}).arch  # type: ignore[assignment]
PYTHON = f"python{sysconfig.get_python_version()}"
MARK = "dlc-seen:"
# Runs at each start of the image's Python, and ends it with a line of what it saw.
SPY = """
import os, socket, sys
sought = {sought}
seen = []
for name in os.environ:
    if name in sought["variables"] or "planted" in os.environ[name]:
        seen.append("variable " + name)
for path in sought["paths"]:
    if os.path.lexists(path):
        seen.append("path " + path)
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        seen.append("socket " + path)
    except OSError:
        pass
for folder in ("/tmp", "/var/tmp", "/dev/shm"):
    if os.path.isdir(folder):
        seen += ["file " + folder + "/" + name for name in os.listdir(folder)]
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open("/proc/" + pid + "/cmdline") as file:
            if sought["process"] in file.read():
                seen.append("process")
    except OSError:
        pass
try:
    os.kill(sought["pid"], 0)
    with open("/proc/%d/cmdline" % sought["pid"]) as file:
        seen.append("pid " + file.read()[:20])
except OSError:
    pass
try:
    socket.socket(socket.AF_UNIX).connect(sought["abstract"])
    seen.append("network: an abstract socket")
except OSError:
    pass
try:
    socket.create_connection(("127.0.0.1", sought["port"]), 2)
    seen.append("network: a port of this host")
except OSError:
    pass
if len(socket.if_nameindex()) > 1:
    seen.append("network: " + ", ".join(name for _, name in socket.if_nameindex()))
with open("/proc/self/status") as file:
    status = dict(line.rstrip().split(":", 1) for line in file if ":" in line)
if status["NoNewPrivs"].strip() != "1":
    seen.append("new privileges")
sys.stderr.write("{mark}" + "; ".join(sorted(set(seen))) + chr(10))
sys.stderr.flush()
os._exit(3)
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """A user with things that are worth looking for, and the image that looks."""

    world: World
    image: Path

    def seen(self, *argv: str | Path, code: int) -> list[str]:
        """Run a command; give all that its image saw, each time that its Python started."""
        done = self.world.run(*argv, code=code)
        lines = (done.stdout + done.stderr).replace('"', "\n").splitlines()
        found = [line.partition(MARK)[2] for line in lines if MARK in line]
        assert found, done.stdout + done.stderr
        return sorted({one for line in found for one in line.split("; ") if one})


@pytest.fixture(scope="module")
def host(
    world: World, tried: EngineCapabilities, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("contained")
    home = Path(world.environ["HOME"])
    (home / ".netrc-planted").write_text("password planted")
    private = Path(tempfile.mkdtemp(prefix="dlc-canary-", dir="/tmp"))
    agent, abstract = private / "agent", f"\0dlc-canary-{secrets.token_hex(8)}"
    mark = f"dlc-canary-{secrets.token_hex(8)}"
    with (
        socket.socket(socket.AF_UNIX) as listening,
        socket.socket(socket.AF_UNIX) as other,
        socket.create_server(("127.0.0.1", 0)) as server,
        subprocess.Popen([sys.executable, "-c", "input()", mark], stdin=subprocess.PIPE) as process,
    ):
        for one, name in ((listening, str(agent)), (other, abstract)):
            one.bind(name)
            one.listen()
        sought = {
            "variables": ["SSH_AUTH_SOCK", "MINE"],
            "paths": [str(agent), str(home / ".netrc-planted"), str(home), str(private)],
            "process": mark,
            "pid": process.pid,
            "abstract": abstract,
            "port": server.getsockname()[1],
        }
        user = world.having(
            SSH_AUTH_SOCK=agent,
            MINE="planted",
            GITHUB_TOKEN="planted",
            APPTAINERENV_MINE="planted",
            SINGULARITYENV_MINE="planted",
            LD_PRELOAD="",
            NCCL_DEBUG="planted",
        )
        yield Host(world=user, image=spying(user, tried, folder, sought))
        process.kill()
    shutil.rmtree(private)


def spying(world: World, tried: EngineCapabilities, folder: Path, sought: dict[str, Any]) -> Path:
    """Adopt an image, and hand on another one with its record, as its maker would say it is.

    Its Python ends each time with what it saw: `adopt` would refuse it, as its checks fail.
    """
    tree = foreign.with_python(foreign.skeleton(folder / "tree"))
    foreign.distribution(tree, foreign.PACKAGES, "jax", "0.4.1")
    foreign.oci(folder / "image.tar", foreign.layer(tree), arch=OCI_ARCH[ARCH])
    done = world.run(
        "adopt", folder / "image.tar", "--site", "local", "-o", folder / "adopted", "--json",
        "--name", "spy/1.0",
    )  # fmt: skip
    tame, image = Path(json.loads(done.stdout)["image"]), folder / "spy.sif"
    assert tried.build_mode is not None
    engine, env = apptainer.find(world.environ), apptainer.environment(world.environ)
    unpacked, mode = folder / "unpacked", tried.build_mode
    subprocess.run(
        engine.unpack_argv(tame, unpacked, mode), check=True, capture_output=True, env=env
    )
    spy = SPY.replace("{sought}", repr(sought)).replace("{mark}", MARK)
    (unpacked / f"usr/lib/{PYTHON}/sitecustomize.py").write_text(spy)
    spec = BuildSpec(definition=str(unpacked), image=image, mode=mode, squash=("-comp", "lz4"))
    subprocess.run(engine.build_argv(spec), check=True, capture_output=True, env=env)
    record = json.loads(tame.with_suffix(".json").read_text())
    sha256 = hashlib.sha256(image.read_bytes()).hexdigest()
    record["image"] |= {"file": image.name, "sha256": sha256, "size": image.stat().st_size}
    image.with_suffix(".json").write_text(json.dumps(record))
    return image


def test_validation_shows_it_nothing(host: Host) -> None:
    seen = host.seen("validate", host.image, "--json", code=1)
    # Not every engine can take the network away for a user; the check `contained` says so.
    assert [one for one in seen if not one.startswith("network")] == []
    if os.getuid() == 0:
        assert seen == []


def test_a_measurement_shows_it_nothing(host: Host, tmp_path: Path) -> None:
    target = tmp_path / "x.jsonl"
    done = host.world.run(
        "bench", "import", "--image", host.image, "--site", "local", "--module", "jax",
        "--arms", "unpacked,container", "--pairs", "4", "-o", target, code=None,
    )  # fmt: skip
    assert done.returncode != 0
    lines = (target.read_text() if target.exists() else "") + done.stdout + done.stderr
    assert MARK in lines
    for word in ("variable ", "path ", "socket ", "file /tmp", "process", "new privileges"):
        assert f"{MARK}{word}" not in lines
        assert f"; {word}" not in lines


def test_the_spy_sees_all_of_it_where_nothing_is_kept_apart(
    host: Host, tried: EngineCapabilities
) -> None:
    """Else the tests above would hold for a spy that is blind."""
    assert tried.run_mode is not None
    program = str(apptainer.find(host.world.environ).program)
    argv = [program, "exec", *apptainer.RUN_MODES[tried.run_mode], "--bind", "/tmp"]
    done = subprocess.run(
        [*argv, str(host.image), PYTHON, "-c", ""],
        env=dict(host.world.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    seen = done.stderr.partition(MARK)[2]
    for word in (
        *("variable SSH_AUTH_SOCK", "variable MINE", "path ", "socket /tmp/", "file /tmp/"),
        *("process", "network: an abstract socket", "network: a port"),
    ):
        assert word in seen, done.stderr


def test_ranks_need_trust(host: Host, tmp_path: Path) -> None:
    if find_program("mpirun", os.environ) is None:
        missing("mpirun")
    ranks = ("--site", "local", "--module", "jax", "--arms", "unpacked,container", "--ranks", "2")
    done = host.world.run("bench", "import", "--image", host.image, *ranks, cwd=tmp_path, code=None)
    assert done.returncode not in (0, 70)
    assert "is not trusted yet" in done.stderr
    assert MARK not in done.stdout + done.stderr
