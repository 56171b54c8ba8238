"""A Slurm of the tests' own: four nodes on this machine, private keys, ports and folders."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.system import machine
from dlcontainer.system.process import CommandEndedError, ProcessRunner
from tests.integration.accounts import Account
from tests.integration.world import World, missing
from tests.processes import poll

NODES = 4
_SBIN = "/usr/local/sbin:/usr/sbin:/sbin:"
_READY_S = 180

# Its nodes have this machine's name; each runs as who started it, so it can do what they can.
_CONF = """\
ClusterName=dlctests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/{tracking}
TaskPlugin=task/{binding}
{parameters}
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
KillWait=2
GresTypes=gpu
"""
_GROUPS = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
"""
FREEZER = Path("/sys/fs/cgroup/freezer")
# What a node says that it has; a wide one has what any node of a known site has.
SMALL = "CPUs=2"
WIDE = "CPUs=384 RealMemory=1000000 Gres=gpu:gh200:8 Feature=cpu,gpu,h100,nvme"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """A running cluster; `variables` is how Slurm's commands find it."""

    folder: Path
    variables: Mapping[str, str]
    account: Account | None = None

    def run(self, *argv: str | Path, code: int = 0) -> "subprocess.CompletedProcess[str]":
        """Run a command of Slurm's as a user of the cluster; its exit code must be `code`."""
        words = list(map(str, argv))
        done = subprocess.run(
            words if self.account is None else self.account.argv(*words),
            env={**os.environ, **self.variables},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def steps(self) -> list[str]:
        """Name the steps that run, but for those that are jobs themselves."""
        said = self.run("squeue", "--steps", "--noheader", "--format=%i").stdout
        return [step for step in said.split() if step.rpartition(".")[2].isdigit()]

    def jobs(self) -> list[str]:
        return self.run("squeue", "--noheader", "--format=%i").stdout.split()

    def state_of(self, job: str) -> str:
        """Give all that Slurm says of a job and its nodes: for a test that waited in vain."""
        said = [
            self.run("scontrol", "show", "job", job).stdout,
            self.run("sinfo", "--Node", "--long").stdout,
            self.run("sinfo", "--list-reasons").stdout,
        ]
        return "\n".join([*said, _logs(self.folder)])

    def allocated(self, world: World, *options: str) -> World:
        """Give the same user within an allocation that ends with each command."""
        own = world.having(**self.variables)
        return replace(own, program=("salloc", "--quiet", *options, *own.program))


@contextlib.contextmanager
def running(
    account: Account | None = None,
    *,
    node: str = SMALL,
    tracking: str = "pgid",
    binding: str = "none",
) -> Iterator[Cluster]:
    """Run a cluster until the end of the block: then no process of it is left, nor of its jobs.

    `tracking` is how it knows a step's processes: `pgid`, or `cgroup` as centres do. `binding` is
    how ranks are bound to CPUs: `none`, or `affinity` as centres do.
    """
    for program, package in (("munged", "munge"), ("slurmctld", "slurm-wlm")):
        if machine.find_program(program, {"PATH": _SBIN + os.environ["PATH"]}) is None:
            missing(f"{program} (Debian's package {package})")
    # Short: the path of a socket has 107 characters at most.
    folder = Path(tempfile.mkdtemp(prefix="dlc-slurm-"))
    try:
        names = _lay_out(folder, account, node, tracking, binding)
        with _daemons(folder, account, names):
            variables = {"SLURM_CONF": str(folder / "slurm.conf")}
            cluster = Cluster(folder=folder, variables=variables, account=account)
            assert poll(lambda: _ready(cluster), _READY_S), _logs(folder)
            yield cluster
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for left in sorted(FREEZER.glob(f"slurm_c{os.getpid()}n*/**/"), reverse=True):
            left.rmdir()


def _lay_out(
    folder: Path, account: Account | None, node: str, tracking: str, binding: str
) -> list[str]:
    host = os.uname().nodename.partition(".")[0]
    controller, *ports = _free_ports(1 + NODES)
    uid = account.uid if account else os.getuid()
    text = _CONF.format(
        host=host,
        port=controller,
        user=uid,
        folder=folder,
        tracking=tracking,
        binding=binding,
        # Each task on CPUs of its own, also where a node has as many as its tasks asked for.
        parameters="TaskPluginParam=cores" if binding == "affinity" else "",
    )
    # A node's name is that of its control group, and those are the whole machine's.
    prefix = f"c{os.getpid()}n" if tracking == "cgroup" else "n"
    names = [f"{prefix}{number}" for number in range(1, 1 + NODES)]
    for name, port in zip(names, ports, strict=True):
        text += f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} {node}\n"
        (folder / "spool" / name).mkdir(parents=True)
    # No device, which slurmd notes and lets pass: they are only counted.
    gpus = f"Name=gpu Type=gh200 File={folder}/gpu[0-7]\n"
    (folder / "gres.conf").write_text(gpus * ("gpu" in node))
    for number in range(8):
        (folder / f"gpu{number}").touch()
    text += "PartitionName=batch Nodes=ALL Default=YES State=UP MaxTime=INFINITE\n"
    (folder / "slurm.conf").write_text(text)
    (folder / "cgroup.conf").write_text(_GROUPS)
    (folder / "state").mkdir()
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    if account is not None:
        account.own(folder)
    # munged wants its socket to be reached by everybody.
    folder.chmod(0o711)
    return names


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in held]


@contextlib.contextmanager
def _daemons(folder: Path, account: Account | None, names: list[str]) -> Iterator[None]:
    """Run the daemons, each below a supervisor that ends all below it, with us at the latest."""
    read, write = os.pipe()
    environ = {**os.environ, "PATH": _SBIN + os.environ["PATH"]}
    environ["SLURM_CONF"] = str(folder / "slurm.conf")
    runner = ProcessRunner(environ=environ, ending=read)

    def daemon(name: str, *argv: str) -> None:
        words = argv if account is None else account.argv(*argv)
        with contextlib.suppress(CommandEndedError):
            runner(words, cwd=folder, log=folder / f"{name}.log", check=False)

    places = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munge.pid"}
    places |= {"log-file": "munged.log", "seed-file": "munge.seed"}
    munge = [f"--{name}={folder / file}" for name, file in places.items()]
    with ThreadPoolExecutor(2 + NODES) as pool:
        try:
            pool.submit(daemon, "munge", "munged", "--foreground", "--force", *munge)
            assert poll((folder / "munge.sock").exists, _READY_S), _logs(folder)
            pool.submit(daemon, "slurmctld", "slurmctld", "-D", "-i")
            for name in names:
                pool.submit(daemon, name, "slurmd", "-D", "-N", name)
            yield
        finally:
            os.write(write, b".")
    os.close(read)
    os.close(write)


def _ready(cluster: Cluster) -> bool:
    argv = ("sinfo", "--noheader", "--Node", "--format=%T")
    done = subprocess.run(
        argv,
        env={**os.environ, **cluster.variables},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split() == ["idle"] * NODES


def _logs(folder: Path) -> str:
    return "\n".join(
        f"{path.name}: {path.read_text(errors='replace')[-2000:]}" for path in folder.glob("*.log")
    )
