"""Made-up sites for job scripts, and a machine whose launchers, runtimes and modules only note."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlcontainer.formats import texts
from dlcontainer.planning.plan import Plan
from dlcontainer.recipes.stack import Stack
from tests.values import IMAGE_BASE, ROOT, SITE, TEMPLATES, folder_of, plan_of, site_of

RECORD = ROOT / "tests" / "fakebin" / "job" / "record"
PROGRAMS = (
    *("module", "srun", "jsrun", "ibrun", "mpiexec", "aprun", "sbcast", "lfs"),
    *("apptainer", "singularity", "podman-hpc", "shifter", "podman", "enroot", "numactl"),
)
# What env:// asks of a program: rank 0 listens, the others come and say who they are.
MEET = """\
import json, os, socket, sys, time
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
rank, size, local, there = (int(os.environ[name]) for name in names)
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
where = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
own = {"rank": rank, "local": local, "there": there, "node": where}
own["leaks"] = [n for n in ("PYTHONPATH", "PYTHONHOME", "LD_PRELOAD") if n in os.environ]
if rank == 0:
    server = socket.create_server(("", place[1]))
    said = [own]
    while len(said) < size:
        with server.accept()[0].makefile() as line:
            said.append(json.loads(line.readline()))
    print("met", json.dumps(sorted(said, key=lambda one: one["rank"])))
else:
    for _ in range(300):
        try:
            with socket.create_connection(place, 5) as to:
                to.sendall((json.dumps(own) + "\\n").encode())
            sys.exit()
        except OSError:
            time.sleep(0.1)
    sys.exit("nobody listens at %s:%s" % place)
"""
# The shell that the centres document for job scripts.
BASH = "/bin/bash"
# /bin/sh -c SCRIPT dlc-rank, and seven words of the job; three more where ranks share a mount. As
# started there are two more, since the script is read: its file and digest.
RANK_SHELL, RANK_WORDS, RANK_FILE = "/bin/sh", 11, 4
MOUNT_WORDS, TAKES_THEM = 3, "dlc_image=$1 dlc_offset=$2 dlc_key=$3"
# What a job script asks the engine about the image before it starts any rank.
QUESTIONS = (["sif", "list"], ["buildcfg", "LIBEXECDIR"])
# The folder of a job's proof is named for the job, or for the script's own process.
PROOF_FOLDER = "proof-JOB"
PROOF = ("/opt/demo/bin/python", "/opt/dlcontainer/probe", "prove", "--out", PROOF_FOLDER)

LSF: dict[str, Any] = {
    "scheduler": {
        "kind": "lsf",
        "launcher": ["jsrun"],
        "directives": ["#BSUB -P ABC123", "#BSUB -nnodes 2"],
        "forms": {
            "node": {
                "summary": "one resource set a node",
                "launcher": ["jsrun", "-n", "{nodes}", "-r1", "-a{ranks_per_node}", "-bpacked:7"],
                "ranks_per_node": 6,
            },
            "gpu": {
                "summary": "one resource set a GPU",
                "launcher": ["jsrun", "-n", "{ranks}", "-r6", "-g1"],
                "ranks_per_node": 6,
            },
        },
    },
    "jobs": {"modules": ["purge", "load DefApps"], "flags": ["--nv"]},
    "mpi": {
        "family": "spectrum",
        "mode": "compile",
        "name": "IBM Spectrum MPI",
        "root": "$MPI_ROOT",
        "modules": ["load spectrum-mpi/10.4"],
        "inside": {"PAMI_ENABLE_STRIPING": "1"},
        "binds": ["/autofs/home:/ccs/home"],
    },
}
SLURM_FORM = {
    "summary": "one rank a GCD",
    "launcher": ["srun", "-N{nodes}", "-n{ranks}", "--tasks-per-node={ranks_per_node}"],
    "ranks_per_node": 8,
}
SLURM: dict[str, Any] = {"kind": "slurm", "launcher": ["srun"], "forms": {"gcd": SLURM_FORM}}
SWAP: dict[str, Any] = {
    "family": "mpich",
    "mode": "swap",
    "name": "Cray MPICH",
    "environment": {"MPICH_GPU": "1", "ROOTS": "$CRAY/lib"},
    "binds": ["/opt/cray", "$PWD"],
    "libraries": ["/usr/lib64/libcxi.so.1", "$CRAY/lib/libnl.so"],
    "preload": ["${CRAY}/gtl.so"],
    "library_path": ["$CRAY/gtl", "/opt/rocm/lib", "$LD_LIBRARY_PATH", "$ROOTS/x"],
    "inside": {"NCCL_NET": "AWS Libfabric"},
}


def plan_at(folder: Path, *, recipe: dict[str, Any] | None = None, **site: Any) -> Plan:
    """Settle a recipe that uses MPI, and starts from an image, for a made-up site."""
    steps = [{"name": "work", "shell": "true"}]
    family = site.get("mpi", {}).get("family", "mpich")
    stack = {"mpi": {"family": family, "name": "the same MPI"}}
    changes = {"base": IMAGE_BASE, "steps": steps, "stack": stack, **(recipe or {})}
    cpu = not set(changes["stack"]) & set(Stack.DEVICE_KEYS)
    return plan_of(folder_of(folder, **changes), site=site_of(SITE, **site), cpu=cpu)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """How a script ended, and what it started."""

    code: int
    out: str
    err: str
    calls: list[list[str]]
    environment: dict[str, str]

    @property
    def started(self) -> list[str]:
        """Give the one command that is no module command."""
        [argv] = [call for call in self.calls if call[0] != "module"]
        return [re.sub(r"/[^:=]*/proof-[^:]*", PROOF_FOLDER, word) for word in argv]

    @property
    def launched(self) -> list[str]:
        """Give it without the shell in which each rank finds its numbers, and without the words
        for the folder that it was submitted from."""
        argv = _elsewhere(self.started)
        if RANK_SHELL not in argv:
            return argv
        shell = argv.index(RANK_SHELL)
        return argv[:shell] + argv[shell + len(self.reader) :]

    @property
    def reader(self) -> list[str]:
        """Give that shell with its words, for any command: it reads the ranks' script."""
        words = self.started[self.started.index(RANK_SHELL) :]
        text = Path(words[RANK_FILE]).read_text()
        return words[: RANK_WORDS + 2 + (MOUNT_WORDS if TAKES_THEM in text else 0)]

    @property
    def rank(self) -> list[str]:
        """Give the same with the script itself in place of what reads it."""
        words = self.reader
        text = Path(words[RANK_FILE]).read_text()
        return [*words[:2], text, words[3], *words[RANK_FILE + 2 :]]

    @property
    def gpus(self) -> str:
        """Give the last of the words that each rank's shell has: the GPUs that it shall see."""
        return self.rank[RANK_WORDS - 1]

    def as_rank(self, *words: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        """Run a rank's shell as its launcher would, for another command."""
        argv = [*self.rank, *words]
        return subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)

    @property
    def modules(self) -> list[str]:
        return [" ".join(call[1:]) for call in self.calls if call[0] == "module"]


def without_engine(text: str) -> str:
    """Let a job's ranks run their command outside of any image."""
    words = r'^    set -- (?:.*\\\n)*.*"\$\{dlc_command\[@\]\}"\n'
    text, count = re.subn(words, '    set -- "${dlc_command[@]}"\n', text, flags=re.MULTILINE)
    assert count == 1
    return text


def images(ran: Ran) -> list[str]:
    """Name the images that the engine was started with."""
    calls = (call for call in ran.calls if call[:2] == ["apptainer", "exec"])
    return [_elsewhere(call)[2] for call in calls]


def _elsewhere(argv: list[str]) -> list[str]:
    """Leave out Apptainer's words for a folder to which no link leads."""
    if "--pwd" not in argv:
        return argv
    at = argv.index("--pwd")
    bound = argv[at - 2 : at] == ["--bind", argv[at + 1]]
    return argv[: at - 2 * bound] + argv[at + 2 :]


def _kept(call: list[str], calls: Path) -> list[str]:
    """Name the copy of the ranks' script in place of the script, which is gone by now."""
    if "dlc-rank" not in call:
        return call
    at = call.index("dlc-rank") + 1
    return [*call[:at], f"{calls}.{call[at + 1]}", *call[at + 1 :]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """A folder to submit from, and programs that note what they are asked.

    `start` goes before each job: another user's, say.
    """

    folder: Path
    start: tuple[str, ...] = ()

    @classmethod
    def made(cls, folder: Path) -> "Machine":
        (folder / "bin").mkdir(parents=True)
        for name in PROGRAMS:
            (folder / "bin" / name).symlink_to(RECORD)
        # It knows no names: a host's own may lead to the loopback, which jobs of two nodes refuse.
        (folder / "bin" / "getent").write_text("#!/bin/sh\nexit 2\n")
        (folder / "bin" / "getent").chmod(0o755)
        (folder / "it's submitted").mkdir()
        return cls(folder=folder)

    @property
    def here(self) -> Path:
        """Give the folder that jobs are submitted from."""
        return self.folder / "it's submitted"

    def image(self, plan: Plan, suffix: str = ".sif") -> str:
        path = self.here / f"{plan.name}{suffix}"
        path.touch()
        return str(path)

    def job(self, plan: Plan, *words: str, launch: str | None = None, **environ: str) -> Ran:
        """Run the job script of a plan as a scheduler would."""
        return self.run(texts.text(plan, "job", [TEMPLATES], launch), *words, **environ)

    def run(self, text: str, *words: str, **environ: str) -> Ran:
        script, calls, seen = (self.folder / name for name in ("job.sh", "calls", "seen"))
        script.write_text(text)
        for kept in (calls, seen):
            kept.write_bytes(b"")
            kept.chmod(0o666)
        path = f"{self.folder / 'bin'}:/usr/bin:/bin"
        done = subprocess.run(
            [*self.start, BASH, str(script), *words],
            cwd=self.here,
            env={
                "PATH": path,
                "HOME": str(self.folder),
                "FAKE_CALLS": str(calls),
                "FAKE_ENVIRONMENT": str(seen),
                # As in a job's script, on its first node.
                "SLURM_NODEID": "0",
                "PBS_JOBID": "7.server",
                **environ,
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        noted = [call.split("\0") for call in calls.read_text().split("\0END-OF-CALL\0") if call]
        return Ran(
            code=done.returncode,
            out=done.stdout,
            err=done.stderr,
            calls=[_kept(call, calls) for call in noted if call[1:3] not in QUESTIONS],
            environment=dict(
                entry.split("=", 1)
                for entry in seen.read_text(errors="surrogateescape").split("\0")
                if "=" in entry
            ),
        )


def entries(folder: Path) -> set[str]:
    """Name all that lies in a folder and below."""
    return {os.path.relpath(path, folder) for path in folder.rglob("*")}
