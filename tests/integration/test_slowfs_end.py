"""However a session with a slow mount ends: within 10 s, nobody waits, nothing is left."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.lab.slowfs import mounting
from dlcontainer.lab.slowfs.passthrough import Delay
from dlcontainer.lab.slowfs.server import StandIn
from dlcontainer.system.machine import find_program, mounts_below
from dlcontainer.system.process import ProcessRunner
from tests.integration import accounts
from tests.integration.accounts import NOBODY
from tests.integration.world import World, isolated, missing
from tests.processes import MARK, kill_marked, left_of, new_mark, poll

# Seconds for an end: a few on an idle machine. What goes wrong here waits for ever.
BOUND = 60
JOB = ("--site", "example-slurm", "--nodes", "64", "--ranks-per-node", "4")
# An import that goes on for ever, once it runs in the place that WHERE names; it says that it is
# there, and asks the file system without a pause.
ENDLESS = """\
import os
where = next((name for name in ("/mount/", "/inside/") if name in __file__), "/tree/")
if where == os.environ["WHERE"]:
    open(os.environ["REACHED"], "w").close()
    number = 0
    while True:
        number += 1
        os.path.exists(f"{__file__}{number}")
"""
BUSY = "import time\nend = time.monotonic() + 30\nwhile time.monotonic() < end: pass"
# A client in a process of its own: one that waits for ever must not take the tests with it.
ASK = """\
import os, sys
folder = os.open(sys.argv[1], os.O_PATH)
for line in sys.stdin:
    try:
        os.stat(line.strip(), dir_fd=folder)
    except OSError as error:
        print(error.errno, flush=True)
    else:
        print(0, flush=True)
"""


@pytest.fixture(autouse=True)
def tools() -> None:
    if not os.access(mounting.DEVICE, os.R_OK | os.W_OK):
        missing("/dev/fuse that you may open")
    for name in ("fusermount3", "mksquashfs", "squashfuse"):
        if find_program(name, os.environ) is None:
            missing(name)


@pytest.fixture
def load() -> Iterator[None]:
    """Keep the machine busy for at most 30 s, with more than it has cores for."""
    count = max(8, 2 * (os.cpu_count() or 1))
    busy = [subprocess.Popen([sys.executable, "-S", "-c", BUSY]) for _ in range(count)]
    yield
    for one in busy:
        one.kill()
        one.wait()


@pytest.fixture(scope="module")
def prefix() -> Iterator[Path]:
    """Give an environment with a package whose import does not end, for any user to read."""
    with tempfile.TemporaryDirectory(prefix="dlcontainer-endless-") as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "an environment"
        # root's own Python may lie in root's home.
        python = shutil.which("python3", path="/usr/bin") or sys.executable
        subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
        package = next(folder.glob("lib/python3*/site-packages")) / "endless.py"
        package.write_text(ENDLESS)
        yield folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Storm:
    """A `lab storm` that runs, in a world of its own."""

    process: "subprocess.Popen[str]"
    world: World
    mark: str

    @property
    def tmp(self) -> Path:
        return Path(self.world.environ["TMPDIR"])

    def end(self, name: str) -> int:
        """Send a signal; the session has ended within the bound."""
        self.process.send_signal(signal.Signals[name])
        return self.process.wait(BOUND)

    def left(self) -> list[str]:
        """Name the mounts and folders that are left."""
        mounts = [str(mount.point) for mount in mounts_below(self.tmp.resolve())]
        return mounts or [path.name for path in self.tmp.iterdir()]


@contextmanager
def storm(world: World, prefix: Path, where: str) -> Iterator[Storm]:
    """Run a session until its import is in flight at a place."""
    mark, reached = new_mark(), world.folder / "reached"
    environ = {**world.environ, MARK: mark, "WHERE": where, "REACHED": str(reached)}
    argv = [*world.program, "lab", "storm", str(prefix), "--module", "endless", *JOB]
    with subprocess.Popen(
        argv, env=environ, cwd=world.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        try:
            there = poll(lambda: reached.exists() or process.poll() is not None, 120)
            assert there, "the import was never reached"
            assert process.poll() is None, process.communicate()[1]
            yield Storm(process=process, world=world, mark=mark)
        finally:
            kill_marked(mark)


@pytest.fixture
def user(tmp_path: Path) -> World:
    return isolated(tmp_path / "it's a user", tmp_path / "it's a user/cache")


# Each signal once and each place once; the other pairs are among the long tests.
SHORT = {("SIGTERM", "/mount/"), ("SIGINT", "/tree/"), ("SIGHUP", "/inside/")}


@pytest.mark.parametrize(
    ("name", "where"),
    [
        pytest.param(name, where, marks=() if (name, where) in SHORT else pytest.mark.long)
        for name in ("SIGTERM", "SIGINT", "SIGHUP")
        for where in ("/mount/", "/tree/", "/inside/")
    ],
)
def test_a_storm_ends_with_an_import_in_flight(
    user: World, prefix: Path, load: None, name: str, where: str
) -> None:
    with storm(user, prefix, where) as session:
        assert session.end(name) == 130
        assert session.left() == []
        assert left_of(session.mark) == {}


def test_what_a_killed_storm_left_goes_with_the_next(user: World, prefix: Path, load: None) -> None:
    with storm(user, prefix, "/inside/") as session:
        # All of it at once: fusermount, which would unmount, and the supervisors too.
        kill_marked(session.mark)
        session.process.wait()
        assert session.left() != []
        done = user.run("lab", "count", "--with", "audit", "--", sys.executable, "-c", "import os")
        assert "rank 0" in done.stdout
        assert session.left() == []


def test_a_storm_of_an_ordinary_user(engine: Apptainer, prefix: Path, load: None) -> None:
    with accounts.world_of(NOBODY, engine) as world, storm(open_to(world), prefix, "/mount/") as it:
        assert it.end("SIGTERM") == 130
        assert it.left() == []
        assert left_of(it.mark) == {}


def open_to(world: World) -> World:
    """Give an ordinary user /dev/fuse, as most distributions do."""
    if os.getuid() != 0 or mounting.DEVICE.stat().st_mode & 0o666 == 0o666:
        return world
    node = world.folder / "fuse"
    os.mknod(node, 0o020666, mounting.DEVICE.stat().st_rdev)
    node.chmod(0o666)
    script = 'mount --bind "$0" /dev/fuse && exec "$@"'
    inside = ("unshare", "--mount", "/bin/sh", "-c", script, str(node))
    return replace(world, program=(*inside, *world.program))


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    source, point = tmp_path / "it's a source", tmp_path / "a, point"
    source.mkdir()
    point.mkdir()
    return source, point


@pytest.fixture
def runner() -> ProcessRunner:
    return ProcessRunner(environ=dict(os.environ))


@contextmanager
def client(point: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start a client that holds the mount and asks for the names that it is told."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", ASK, point],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    ) as asking:  # fmt: skip
        try:
            yield asking
        finally:
            asking.kill()


def ask(asking: "subprocess.Popen[str]", name: str) -> None:
    assert asking.stdin is not None
    asking.stdin.write(f"{name}\n")


def answered(asking: "subprocess.Popen[str]") -> int:
    """Give the error that a client got, within the bound."""
    got: list[str] = []
    stream = asking.stdout
    assert stream is not None
    reader = threading.Thread(target=lambda: got.append(stream.readline()), daemon=True)
    reader.start()
    reader.join(BOUND)
    assert got, "the client still waits"
    return int(got[0])


REFUSED = {errno.ENOTCONN, errno.ECONNABORTED, errno.EIO, errno.ENODEV}


def test_who_waits_for_a_slow_answer_gets_an_error(
    places: tuple[Path, Path], runner: ProcessRunner
) -> None:
    source, point = places
    shown = StandIn(source=source, delay=Delay(operation_s=600))
    with client(point.parent) as asking:
        with shown.mounted(point, runner):
            ask(asking, f"{point.name}/one")
            assert poll(lambda: shown.counters.counted().metadata > 0, 60)
        assert answered(asking) in REFUSED
    assert mounting.mounted_at(point) == 0


def test_who_asks_after_the_end_gets_an_error(
    places: tuple[Path, Path], runner: ProcessRunner
) -> None:
    source, point = places
    (source / "file").write_text("x")
    with StandIn(source=source).mounted(point, runner):
        asking = client(point)
        inside = asking.__enter__()
        ask(inside, "file")
        assert answered(inside) == 0
    try:
        # It still holds the mount that is gone from its place.
        ask(inside, "another")
        assert answered(inside) in REFUSED
    finally:
        asking.__exit__(None, None, None)


def test_nobody_waits_where_the_unmount_fails(
    places: tuple[Path, Path], runner: ProcessRunner, tmp_path: Path
) -> None:
    source, point = places
    real = find_program("fusermount3", os.environ)
    assert real is not None
    failing = tmp_path / "bin"
    failing.mkdir()
    program, mark = failing / "fusermount3", new_mark()
    # Mounts as ever; what unmounts hangs.
    program.write_text(f'#!/bin/sh\n[ "$1" != -u ] || exec sleep 600\nexec {real} "$@"\n')
    program.chmod(0o755)
    path = f"{failing}:{os.environ['PATH']}"
    theirs = replace(runner, environ={**runner.environ, "PATH": path, MARK: mark})
    ended = threading.Event()

    def work() -> None:
        with StandIn(source=source).mounted(point, theirs):
            pass
        ended.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        assert ended.wait(BOUND + 20), "it did not end"
        assert mounting.mounted_at(point) == 1, "the unmount was to fail"
        with client(point.parent) as asking:
            ask(asking, f"{point.name}/one")
            assert answered(asking) in REFUSED
    finally:
        kill_marked(mark)
        subprocess.run([real, "-u", "-z", "--", point], check=False)
        shutil.rmtree(source)
