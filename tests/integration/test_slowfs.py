"""The stand-in with the real kernel: exact counts, real delays, one queue, and no mount left."""

import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.errors import ChecksFailedError
from dlcontainer.lab.slowfs import fuse_protocol, mounting
from dlcontainer.lab.slowfs.cache_profiles import PROFILES
from dlcontainer.lab.slowfs.counters import Counters
from dlcontainer.lab.slowfs.passthrough import Delay, PassThrough, open_root
from dlcontainer.lab.slowfs.server import StandIn
from dlcontainer.lab.slowfs.server_queue import ServerQueue, ServerRates
from dlcontainer.system import supervisor
from dlcontainer.system.machine import find_program
from dlcontainer.system.process import ProcessRunner
from dlcontainer.system.supervisor import processes
from tests.integration.world import missing
from tests.processes import poll, stop

DLCONTAINER = str(Path(sys.executable).with_name("dlcontainer"))


@pytest.fixture(autouse=True)
def fuse() -> None:
    if not os.access(mounting.DEVICE, os.R_OK | os.W_OK):
        missing("/dev/fuse that you may open")
    if find_program("fusermount3", os.environ) is None:
        missing("fusermount3 (package fuse3)")


@pytest.fixture
def runner() -> ProcessRunner:
    return ProcessRunner(environ=dict(os.environ))


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Give a small known tree and a place to show it at, with odd names."""
    source, point = tmp_path / "it's a source", tmp_path / "a, point"
    (source / "pkg/__pycache__").mkdir(parents=True)
    (source / "pkg/__init__.py").write_text("X = 1\n")
    (source / "pkg/big.bin").write_bytes(os.urandom(300_000))
    (source / "link").symlink_to("pkg/big.bin")
    point.mkdir()
    return source, point


def is_mounted(point: Path) -> bool:
    return mounting.mounted_at(point) > 0


def nonzero(shown: StandIn) -> dict[str, int]:
    return {name: count for name, count in shown.counters.counted().operations.items() if count}


def test_counts_of_a_known_tree_are_exact(places: tuple[Path, Path], runner: ProcessRunner) -> None:
    source, point = places
    shown = StandIn(source=source)
    with shown.mounted(point, runner):
        assert (point / "pkg/__init__.py").read_text() == "X = 1\n"  # 2 look-ups, open, read
        assert not (point / "pkg/none").exists()  # a failed look-up, kept
        assert not (point / "pkg/none").exists()
        assert sorted(path.name for path in (point / "pkg").iterdir()) == [
            "__init__.py",
            "__pycache__",
            "big.bin",
        ]
        assert (point / "link").readlink() == Path("pkg/big.bin")
        first = nonzero(shown)
        # All of it is in the client's cache: only opens are asked for again.
        assert (point / "pkg/__init__.py").read_text() == "X = 1\n"
        assert (point / "pkg/__init__.py").stat().st_size == 6
        again = nonzero(shown)
    assert first.pop("getattr", 0) <= 1, "of the root"
    assert first == {
        "lookup": 3,
        "failed_lookup": 1,
        "open": 1,
        "opendir": 1,
        "readdir": 1,
        "readlink": 1,
        "read": 1,
    }
    assert again["open"] == 2
    assert (again["lookup"], again["read"]) == (3, 1)
    assert shown.counters.counted().bytes == 6
    assert shown.counters.counted().files == ("pkg/__init__.py",)


def test_content_is_the_same(places: tuple[Path, Path], runner: ProcessRunner) -> None:
    source, point = places
    shown = StandIn(source=source)
    with shown.mounted(point, runner):
        assert (point / "link").read_bytes() == (source / "pkg/big.bin").read_bytes()
        with pytest.raises(OSError, match="Read-only"):
            (point / "new").write_text("x")
    assert shown.counters.counted().bytes == 300_000


def test_gpfs_keeps_no_missing_names(places: tuple[Path, Path], runner: ProcessRunner) -> None:
    source, point = places
    for profile, expected in (("lustre", 1), ("gpfs", 3)):
        shown = StandIn(source=source, profile=PROFILES[profile])
        with shown.mounted(point, runner):
            for _ in range(3):
                assert not (point / "none").exists()
        assert nonzero(shown)["failed_lookup"] == expected


def test_latency_is_added(places: tuple[Path, Path], runner: ProcessRunner) -> None:
    source, point = places
    delay = Delay(operation_s=0.02, read_s=0.1)
    with StandIn(source=source, delay=delay).mounted(point, runner):
        start = time.monotonic()
        for number in range(20):
            assert not (point / f"none{number}").exists()
        looked = time.monotonic() - start
        with (point / "pkg/__init__.py").open("rb") as file:
            start = time.monotonic()
            file.read()
            read = time.monotonic() - start
    # Never less; how much more is this machine's business.
    assert looked >= 20 * 0.02
    assert read >= 0.1


def test_waiting_clients_do_not_hold_each_other_up(
    places: tuple[Path, Path], runner: ProcessRunner
) -> None:
    source, point = places
    shown = StandIn(source=source, delay=Delay(operation_s=600))
    threads = [
        threading.Thread(target=missing_at, args=(point / f"none{n}",), daemon=True)
        for n in range(12)
    ]
    with shown.mounted(point, runner):
        for thread in threads:
            thread.start()
        # None has an answer yet, and all have asked.
        assert poll(lambda: shown.counters.counted().metadata >= 12, 120)
        assert all(thread.is_alive() for thread in threads)
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


def missing_at(path: Path) -> None:
    with suppress(OSError):  # what it gets once the mount is gone
        path.stat()


def ask(points: list[Path], each: int) -> float:
    """Look up so many missing names in each folder, all folders at once; give the seconds."""

    def work(point: Path) -> None:
        for number in range(each):
            assert not (point / f"none{number}").exists()

    start = time.monotonic()
    threads = [threading.Thread(target=work, args=(point,)) for point in points]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - start


def test_two_mounts_share_one_queue(
    places: tuple[Path, Path], runner: ProcessRunner, tmp_path: Path
) -> None:
    source, point = places
    other = tmp_path / "other"
    other.mkdir()
    speed = ServerRates(rate=50, service="constant")
    server = tmp_path / "server"
    with (
        StandIn(source=source, speed=speed, server=server).mounted(point, runner),
        StandIn(source=source, speed=speed, server=server).mounted(other, runner),
    ):
        together = ask([point, other], 25)
    # 50 operations at 50/s: the server needs a second, whoever asks.
    assert together >= 50 / 50 - 0.05


@contextmanager
def served(*argv: str | Path, point: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run `lab slowfs` until its mount is there; end it in the end."""
    running = subprocess.Popen(
        [DLCONTAINER, "lab", "slowfs", *map(str, argv)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert poll(lambda: is_mounted(point) or running.poll() is not None, 60)
        yield running
    finally:
        running.kill()
        running.communicate()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"])
def test_no_way_of_ending_leaves_a_mount(places: tuple[Path, Path], name: str) -> None:
    source, point = places
    with served(source, point, point=point) as running:
        # Someone has a file open: the mount goes all the same.
        held = os.open(point / "pkg/big.bin", os.O_RDONLY)
        try:
            running.send_signal(signal.Signals[name])
            code = running.wait(120)
            assert poll(lambda: not is_mounted(point), 60)
        finally:
            with suppress(OSError):  # nobody is there to hear that it is closed
                os.close(held)
    assert code == (-signal.SIGKILL if name == "SIGKILL" else 0)
    assert list(point.iterdir()) == []


def guard_of(point: Path) -> int:
    """Give the process that unmounts in the end, once it waits for that."""
    found: list[int] = []

    def waits() -> bool:
        children = processes()
        found[:] = [
            pid
            for many in children.values()
            for pid in many
            if (words := words_of(pid)).count(b"mount_guard.py") and str(point).encode() in words
            # Its supervisors, which have the same words, have children; so has it while it mounts.
            if not children.get(pid) and state_of(pid) == "S"
        ]
        return len(found) == 1

    assert poll(waits, 60)
    return found[0]


def state_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def words_of(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def test_who_unmounts_may_wait_for_a_processor(places: tuple[Path, Path]) -> None:
    """As on a busy machine, but surely: it is stopped for longer than others get to end."""
    source, point = places
    with served(source, point, point=point) as running:
        waiting = guard_of(point)
        stop(waiting)
        try:
            running.kill()
            running.wait(120)
            time.sleep(supervisor.OUTER_LIMIT + 1)
            assert is_mounted(point), "it was to be stopped"
        finally:
            with suppress(ProcessLookupError):
                os.kill(waiting, signal.SIGCONT)
        assert poll(lambda: not is_mounted(point), 60)
    assert list(point.iterdir()) == []


def test_a_killed_server_s_device_may_close_after_its_socket(
    places: tuple[Path, Path], runner: ProcessRunner
) -> None:
    """A question that comes between the two gets another error than one that comes later."""
    source, point = places
    program = mounting.helper(runner.environ)
    files = PassThrough(
        open_root(source), PROFILES["lustre"], Delay(), ServerQueue.alone(ServerRates()), Counters()
    )
    ours, theirs = socket.socketpair()
    with ours, theirs:
        guard = subprocess.Popen(
            mounting.guard_argv(program, point, theirs),
            env={**runner.environ, "_FUSE_COMMFD": str(theirs.fileno())},
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        _, (device,), _, _ = socket.recv_fds(ours, 1, 1)
    try:
        # `ours` is closed. The kernel's greeting is answered, nothing after it.
        os.write(device, files.answer(fuse_protocol.request(os.read(device, 1 << 20))) or b"")
        asked = select.poll()
        asked.register(device, select.POLLIN)
        assert poll(lambda: bool(asked.poll(0)) or guard.poll() is not None, 60)
    finally:
        os.close(device)
    try:
        assert guard.wait(120) == 0
        assert not is_mounted(point)
    finally:
        subprocess.run([program, "-u", "-q", "-z", point], check=False)


def test_a_mount_that_somebody_put_over_it_stays(
    places: tuple[Path, Path], runner: ProcessRunner
) -> None:
    source, point = places
    with served(source, point, point=point) as running:
        waiting = guard_of(point)
        with StandIn(source=source).mounted(point, runner):
            running.kill()
            running.wait(120)
            # Its guard leaves, as what is on top is not its own.
            assert poll(lambda: not words_of(waiting), 60)
            assert mounting.mounted_at(point) == 2
            assert (point / "pkg/__init__.py").read_text() == "X = 1\n"
        subprocess.run(["fusermount3", "-u", "-z", str(point)], check=True)
    assert not is_mounted(point)


def test_a_server_whose_guard_was_killed_unmounts_itself(
    places: tuple[Path, Path], runner: ProcessRunner
) -> None:
    source, point = places
    with StandIn(source=source).mounted(point, runner):
        os.kill(guard_of(point), signal.SIGKILL)
        assert (point / "pkg/__init__.py").read_text() == "X = 1\n"
    assert not is_mounted(point)


def test_a_dead_mount_is_named(places: tuple[Path, Path]) -> None:
    source, point = places
    with served(source, point, point=point) as running:
        os.kill(guard_of(point), signal.SIGKILL)
        running.kill()
        running.wait(120)
        try:
            # The device closes as the process ends.
            assert poll(lambda: is_dead(point), 60)
            argv = [DLCONTAINER, "lab", "slowfs", str(source), str(point)]
            again = subprocess.run(argv, capture_output=True, text=True, check=False)
            assert again.returncode == 2
            assert "stale mount" in again.stderr
        finally:
            subprocess.run(["fusermount3", "-u", "-z", str(point)], check=True)


def is_dead(point: Path) -> bool:
    try:
        point.stat()
    except OSError as error:
        return error.errno == errno.ENOTCONN
    return False


def test_an_unmount_from_outside_ends_it(places: tuple[Path, Path]) -> None:
    source, point = places
    with served(source, point, point=point) as running:
        subprocess.run(["fusermount3", "-u", str(point)], check=True)
        assert running.wait(120) == 0


def test_counts_are_written_on_a_signal_and_at_the_end(
    places: tuple[Path, Path], tmp_path: Path
) -> None:
    source, point = places
    stats = tmp_path / "counts.json"
    options: list[str | Path] = [
        "--stats",
        stats,
        "--profile",
        "nfs",
        "--latency-ms",
        "1",
        "--json",
    ]
    with served(source, point, *options, point=point) as running:
        assert not stats.exists()
        assert not (point / "one").exists()
        running.send_signal(signal.SIGUSR1)
        assert poll(stats.exists, 60)
        body = json.loads(stats.read_text())
        assert body["operations"]["failed_lookup"] == 1
        assert (body["setting"]["profile"]["name"], body["setting"]["latency_ms"]) == ("nfs", 1.0)
        assert not (point / "two").exists()
        running.send_signal(signal.SIGTERM)
        said, _ = running.communicate(timeout=120)
    assert json.loads(stats.read_text())["operations"]["failed_lookup"] == 2
    assert json.loads(said)["operations"]["failed_lookup"] == 2


def test_a_mount_that_is_refused(
    places: tuple[Path, Path], runner: ProcessRunner, tmp_path: Path
) -> None:
    source, point = places
    refusing = tmp_path / "bin"
    refusing.mkdir()
    program = refusing / "fusermount3"
    program.write_text("#!/bin/sh\necho not for you >&2\nexit 1\n")
    program.chmod(0o755)
    theirs = replace(runner, environ={**runner.environ, "PATH": f"{refusing}:/usr/bin:/bin"})
    with (
        pytest.raises(ChecksFailedError, match="can't mount") as caught,
        StandIn(source=source).mounted(point, theirs),
    ):
        pass
    assert caught.value.why == "not for you"
    assert not is_mounted(point)
