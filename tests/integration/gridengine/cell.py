"""A Grid Engine of the tests' own: a cell with one host, private ports and folders."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.system.process import CommandEndedError, ProcessRunner
from tests.processes import poll
from tests.skips import skip

# Where Debian's packages have its programs and its defaults.
PROGRAMS = Path("/usr/lib/gridengine")
SHARED = Path("/usr/share/gridengine")
SLOTS = 4
_READY_S = 180

_BOOTSTRAP = """\
admin_user none
default_domain none
ignore_fqdn true
spooling_method classic
spooling_lib libspoolc
spooling_params {spooling}
binary_path {programs}
qmaster_spool_dir {root}/spool/qmaster
security_mode none
listener_threads 2
worker_threads 2
scheduler_threads 1
"""
# An administrator's editor, for the forms that qconf gives to one.
_EDITOR = r"""#!/bin/sh
exec sed -i -e 's/^hostlist .*/hostlist {host}/' -e 's/^load_thresholds .*/load_thresholds NONE/' \
    -e 's/^pe_list .*/pe_list mpi/' -e 's/^slots .*/slots {slots}/' \
    -e 's/^shell .*/shell {shell}/' \
    -e 's/^schedule_interval .*/schedule_interval 0:0:1/' \
    -e 's/^flush_\(submit\|finish\)_sec .*/flush_\1_sec 1/' "$1"
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A running Grid Engine; `variables` is how its commands find it."""

    root: Path
    variables: Mapping[str, str]

    def run(self, *argv: str, code: int = 0) -> str:
        """Run a command of Grid Engine's; its exit code must be `code`."""
        done = subprocess.run(
            argv,
            env={**os.environ, **self.variables},
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, f"{argv}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def jobs(self) -> list[str]:
        """Number the jobs that have not ended."""
        return [line.split()[0] for line in self.run("qstat").splitlines()[2:]]

    def shepherds(self) -> list[int]:
        """Give the processes that watch over the running jobs."""
        found = self.root.glob("spool/execd/*/active_jobs/*/pid")
        return [int(text) for text in (path.read_text().strip() for path in found) if text]


@contextlib.contextmanager
def running() -> Iterator[Cell]:
    """Run a cell until the end of the block: then no process of it is left, nor of its jobs."""
    if not (PROGRAMS / "sge_execd").exists() or not (PROGRAMS / "sge_qmaster").exists():
        # Not by `make setup`: they bring a mail server, and daemons where services start.
        skip("no Grid Engine: apt-get install gridengine-master gridengine-exec gridengine-client")
    root = Path(tempfile.mkdtemp(prefix="dlc-ge-"))
    try:
        cell = _lay_out(root)
        with _daemons(cell):
            yield cell
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _lay_out(root: Path) -> Cell:
    host = os.uname().nodename
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        ports = [str(each.getsockname()[1]) for each in (one, other)]
    common = root / "default" / "common"
    for folder in (common, root / "spool" / "qmaster", root / "spool" / "execd"):
        folder.mkdir(parents=True)
    arch = subprocess.check_output([SHARED / "util" / "arch"], text=True).strip()
    for name in ("bin", "utilbin", "lib"):
        (root / name).mkdir()
        (root / name / arch).symlink_to(PROGRAMS)
    (root / "util").symlink_to(SHARED / "util")
    spooling = f"{common};{root}/spool/qmaster"
    text = _BOOTSTRAP.format(root=root, programs=PROGRAMS, spooling=spooling)
    (common / "bootstrap").write_text(text)
    (common / "act_qmaster").write_text(f"{host}\n")
    # The address of many a machine's own name is that of localhost.
    (common / "host_aliases").write_text(f"{host} localhost\n")
    editor = root / "editor"
    # A queue's own shell is csh where nobody said otherwise, and bash is asked for by the job.
    editor.write_text(_EDITOR.format(host=host, slots=SLOTS, shell=r"\/bin\/sh"))
    editor.chmod(0o755)
    own = {"SGE_ROOT": str(root), "SGE_CELL": "default", "EDITOR": str(editor), "SGE_ND": "1"}
    own |= {"SGE_QMASTER_PORT": ports[0], "SGE_EXECD_PORT": ports[1]}
    cell = Cell(root=root, variables=own)
    cell.run(str(PROGRAMS / "spoolinit"), "classic", "libspoolc", spooling, "init")
    defaults = (SHARED / "default-configuration").read_text()
    changes = {"execd_spool_dir": f"{root}/spool/execd", "min_uid": "0", "min_gid": "0"}
    # No login shells: this user's profile is not what is tested, and a killed job may be in it.
    changes |= {"mailer": "/bin/true", "login_shells": "none"}
    kept = [line for line in defaults.splitlines() if line.split(" ")[0] not in changes]
    lines = [*kept, *(f"{name} {value}" for name, value in changes.items())]
    (root / "configuration").write_text("\n".join(lines) + "\n")
    resources = SHARED / "util" / "resources"
    defaults_of = {
        "configuration": root / "configuration",
        "complexes": resources / "centry",
        "usersets": resources / "usersets",
    }
    for kind, path in defaults_of.items():
        cell.run(str(PROGRAMS / "spooldefaults"), kind, str(path))
    user = subprocess.check_output(["id", "-un"], text=True).strip()
    cell.run(str(PROGRAMS / "spooldefaults"), "managers", user)
    return cell


@contextlib.contextmanager
def _daemons(cell: Cell) -> Iterator[None]:
    """Run the daemons, each below a supervisor that ends all below it, with us at the latest."""
    read, write = os.pipe()
    runner = ProcessRunner(environ={**os.environ, **cell.variables}, ending=read)

    def daemon(name: str) -> None:
        with contextlib.suppress(CommandEndedError):
            log = cell.root / f"{name}.log"
            runner([str(PROGRAMS / name)], cwd=cell.root, log=log, check=False)

    with ThreadPoolExecutor(2) as pool:
        try:
            pool.submit(daemon, "sge_qmaster")
            assert poll(lambda: _answers(cell), _READY_S), _logs(cell)
            host = os.uname().nodename
            cell.run("qconf", "-as", host)
            cell.run("qconf", "-ap", "mpi")
            cell.run("qconf", "-aq", "all.q")
            cell.run("qconf", "-msconf")
            pool.submit(daemon, "sge_execd")
            # A load is told once the host's daemon has reported.
            assert poll(lambda: " -NA- " not in cell.run("qstat", "-f"), _READY_S), _logs(cell)
            yield
        finally:
            os.write(write, b".")
    os.close(read)
    os.close(write)


def _answers(cell: Cell) -> bool:
    environ = {**os.environ, **cell.variables}
    done = subprocess.run(["qconf", "-sh"], env=environ, capture_output=True, check=False)
    return done.returncode == 0


def _logs(cell: Cell) -> str:
    found = [*cell.root.glob("*.log"), *cell.root.glob("spool/**/messages")]
    return "\n".join(f"{one.name}: {one.read_text(errors='replace')[-2000:]}" for one in found)
