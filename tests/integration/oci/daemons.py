"""Docker and Podman of the tests' own: private stores, private sockets, ended with the tests."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.engines.oci import OciKind
from dlcontainer.system import machine
from tests.integration.accounts import Account
from tests.integration.world import missing
from tests.processes import poll

_READY_S = 180
SBIN = "/usr/local/sbin:/usr/sbin:/sbin:"
_PATIENCE_S = 20
# In the services' environment, as on a host behind a proxy: it must be in no image.
PROXY = "http://planted-proxy-of-the-service.invalid:1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """A running engine: its socket, and what names it to dlcontainer."""

    kind: OciKind
    socket: Path
    pid: int

    @property
    def variables(self) -> Mapping[str, str]:
        name = "DOCKER_HOST" if self.kind == "docker" else "CONTAINER_HOST"
        return {name: f"unix://{self.socket}"}


@contextlib.contextmanager
def running(kind: OciKind, account: Account | None = None) -> Iterator[Service]:
    """Run an engine with nothing of the host's but its network; as a user, or as root."""
    _require("dockerd" if kind == "docker" else "podman")
    if os.getuid() != 0:
        missing("root, which the tests' own engines run as")
    # Short: the path of a socket has 107 characters at most.
    folder = Path(tempfile.mkdtemp(prefix=f"dlc-{kind}-"))
    socket = folder / "engine.sock"
    argv = _docker(folder, socket) if kind == "docker" else _podman(folder, socket)
    variables = {**os.environ, "HTTP_PROXY": PROXY, "http_proxy": PROXY}
    start = ["setpriv", "--pdeathsig", "TERM", "--"]
    if account is not None:
        # Podman would take vfs, which copies the tree for each step, where /dev/fuse is root's.
        driver = ["podman", "--storage-driver=overlay", *argv[1:]]
        argv = _rootless_docker(folder, argv) if kind == "docker" else driver
        start = account.argv("--pdeathsig", "TERM", "--")
        account.own(folder)
        # No proxy: a user's Docker pulls nothing here, and its network is not the host's.
        variables = {"PATH": SBIN + os.environ["PATH"], "HOME": str(folder)}
        variables["XDG_RUNTIME_DIR"] = str(folder)
    try:
        # The kernel ends the engine should this process be killed.
        with (
            (folder / "log").open("wb") as log,
            subprocess.Popen(
                [*start, *argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=variables,
            ) as server,
        ):
            try:
                ready = poll(lambda: socket.exists() or server.poll() is not None, _READY_S)
                assert (ready, server.poll()) == (True, None), (folder / "log").read_text()
                yield Service(kind=kind, socket=socket, pid=server.pid)
            finally:
                _end(server)
    finally:
        _clear(folder)


def _docker(folder: Path, socket: Path) -> list[str]:
    return [
        "dockerd",
        # No network of its own: that needs rights that a machine in a cloud may lack.
        *("--iptables=false", "--ip6tables=false", "--bridge=none"),
        f"--data-root={folder / 'data'}",
        f"--exec-root={folder / 'exec'}",
        f"--pidfile={folder / 'pid'}",
        f"--host=unix://{socket}",
    ]


def _rootless_docker(folder: Path, argv: list[str]) -> list[str]:
    """Give the command that runs Docker in a user namespace, as dockerd-rootless.sh does."""
    for program in ("rootlesskit", "slirp4netns"):
        _require(program)
    # What rootlesskit copied up leads to root's own.
    script = 'rm -f /run/docker /run/containerd /run/xtables.lock; exec "$@"'
    kit = ["rootlesskit", "--net=slirp4netns", "--mtu=65520", f"--state-dir={folder / 'kit'}"]
    kit += ["--copy-up=/etc", "--copy-up=/run", "--propagation=rslave"]
    return [*kit, "sh", "-c", script, "sh", *argv, "--rootless"]


def _require(program: str) -> None:
    path = {"PATH": SBIN + os.environ["PATH"]}
    if machine.find_program(program, path) is None:
        missing({"dockerd": "dockerd (docker.io)"}.get(program, program))


def _podman(folder: Path, socket: Path) -> list[str]:
    return [
        "podman",
        f"--root={folder / 'data'}",
        f"--runroot={folder / 'run'}",
        f"--tmpdir={folder / 'tmp'}",
        # crun, the default, works on no machine with both versions of control groups.
        *("--runtime=runc", "--cgroup-manager=cgroupfs"),
        *("system", "service", "--time=0", f"unix://{socket}"),
    ]


def _end(server: "subprocess.Popen[bytes]") -> None:
    server.terminate()
    try:
        server.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        server.kill()


def _clear(folder: Path) -> None:
    """End who still works for an engine, unmount what it left mounted, and remove its folder."""
    # Podman's helpers outlive it: they remove a container that has ended, and mount for that.
    if not poll(lambda: not _helpers(folder), _PATIENCE_S):
        for pid in _helpers(folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for point in sorted((m for m in mounts if m.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", point], check=False)
    shutil.rmtree(folder, ignore_errors=True)


def _helpers(folder: Path) -> list[int]:
    found = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and f"{folder}/".encode() in (
                process / "cmdline"
            ).read_bytes().replace(b"\0", b" "):
                found.append(int(process.name))
    return found
