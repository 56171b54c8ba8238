"""The watch of a rank's processes: real ones, looked at when they are known to be somewhere."""

import errno
import importlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dlcontainer.bench.job import trace_hook
from dlcontainer.bench.job.scripts import CLOCK
from dlcontainer.bench.trace.watch import watch_file
from dlcontainer.config.resources import PROBE
from tests.processes import poll
from tests.skips import skip

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
HEADERS = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "aarch64": "/usr/include/asm-generic/unistd.h",
}


STARTED: set[int] = set()


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Give the watch's modules as a rank's clock imports them: from one folder."""
    monkeypatch.syspath_prepend(PROBE)
    for name in trace_hook.WATCH_FILES:
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    return importlib.import_module


@pytest.fixture
def watch(
    modules: Callable[[str], ModuleType],
    real_processes: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    """Give a watch of this process's children that looks when it is told to.

    Of those that `child` starts: the session's fixtures have daemons here too, which read files,
    begin others, and are waited for by those who started them.
    """
    module, proc = modules("process_watch"), modules("watch_proc")
    own, real_children, real_parents = os.getpid(), proc.children, proc.parents

    def children(pid: int, tid: int) -> list[int]:
        return [each for each in real_children(pid, tid) if pid != own or each in STARTED]

    def parents() -> dict[int, int]:
        pairs = real_parents().items()
        return {pid: parent for pid, parent in pairs if parent != own or pid in STARTED}

    monkeypatch.setattr(proc, "children", children)
    monkeypatch.setattr(proc, "parents", parents)
    # This process keeps away from others' orphans.
    monkeypatch.setattr(module, "adopt", lambda: False)
    return module.Watch(str(tmp_path), "0")


@contextmanager
def child(script: str, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a Python program that may print and be told to go on by lines."""
    argv = [sys.executable, "-I", "-S", "-c", script, *words]
    running = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    STARTED.add(running.pid)
    try:
        yield running
    finally:
        running.kill()
        running.communicate()
        STARTED.discard(running.pid)


def record(watch: Any, pid: int) -> Any:
    """Look, with figures, and give a process's record."""
    watch.figures_at = 0.0
    watch._look()
    return watch.alive.get(pid) or next(each for each in watch.ended if each.pid == pid)


def doing(watch: Any, pid: int) -> str:
    """Look, and give what a process's first thread was at."""
    before = dict(watch.alive[pid].main) if pid in watch.alive else {}
    after = record(watch, pid).main
    [(state, _)] = [each for each in after if after[each] != before.get(each, 0)]
    return str(state)


@pytest.mark.parametrize(
    ("script", "state"),
    [
        ("import time; time.sleep(1000)", "asleep"),
        ("import select; select.poll().poll()", "poll"),
        ("import select; select.select([0], [], [])", "poll"),
        ("import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()", "futex"),
        ("import os; os.read(0, 1)", "pipe"),
        ("import os; os.fork() or os.read(0, 1); os.wait()", "child"),
        ("import socket; a, b = socket.socketpair(); a.recv(1)", "socket"),
        ("while True: pass", "running"),
    ],
)
def test_what_a_thread_does(watch: Any, script: str, state: str) -> None:
    with child(script) as running:
        if os.uname().machine not in HEADERS:
            skip("this machine's calls are not in the table")
        assert poll(lambda: doing(watch, running.pid) == state, 60)


def test_bytes_by_positions_are_exact_between_two_looks(watch: Any, tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(bytes(3000))
    script = (
        "import sys; file = open(sys.argv[1], 'rb', 0)\n"
        "for size in (1000, 500, 0):\n"
        "    file.read(size); print(size, flush=True); input()\n"
        "file.seek(0); file.seek(3000); print(0, flush=True); input()"
    )
    with child(script, str(tmp_path / "input")) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        moved = []
        for _ in range(4):
            running.stdout.readline()
            record(watch, running.pid)
            device = tmp_path.stat().st_dev
            key = f"{os.major(device)}:{os.minor(device)}"
            moved.append(watch.tally.moved.get(key, [0, 0])[0])
            running.stdin.write("\n")
            running.stdin.flush()
    # What it had read before the first look is not known; a seek is nothing that was read.
    assert moved[:3] == [0, 500, 500]
    assert moved[3] <= 500 + 1500


def test_the_last_figures_of_a_process_are_its_own(watch: Any) -> None:
    script = "import os\nwhile sum(os.times()[:2]) < 0.3: pass\nprint(repr(sum(os.times()[:2])))"
    with child(script) as running:
        record(watch, running.pid)
        assert poll(
            lambda: watch.alive[running.pid].is_dead or record(watch, running.pid).is_dead, 60
        )
        assert running.stdout is not None
        told = float(running.stdout.read())
        seen = watch.alive[running.pid]
        assert told - TICK_S <= seen.user + seen.system
        running.wait()
        assert record(watch, running.pid) in watch.ended


def test_names_that_are_meant_to_break_it(watch: Any, modules: Callable[[str], ModuleType]) -> None:
    hostile = b") R 1\n\x1b[2J("
    script = f"open('/proc/self/comm', 'wb').write({hostile!r}); input()"
    with child(script) as running:
        comm = Path(f"/proc/{running.pid}/comm")
        assert poll(lambda: comm.read_bytes()[:-1] == hostile, 60)
        assert record(watch, running.pid).parent == os.getpid()
        seen = modules("watch_proc").stat(running.pid)
        assert (seen.comm, seen.parent) == (hostile, os.getpid())
    assert modules("watch_proc").printed(hostile) == ") R 1??[2J("
    assert modules("watch_proc").printed(b"\xff" * 900, 60) == "\ufffd" * 60


def test_a_process_that_ends_between_two_reads(
    watch: Any, modules: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every file that a look reads, in turn."""
    proc = modules("watch_proc")
    real_line, real_content, real_listdir = proc.line, proc.content, os.listdir
    for ends_at in range(12):
        reads = [0]
        with child("input()") as running:

            def count(reads: list[int] = reads, ends_at: int = ends_at) -> None:
                reads[0] += 1
                if reads[0] == ends_at:
                    running.kill()
                    running.wait()

            def line(path: str) -> object:
                count() if f"/{running.pid}/" in path else None
                return real_line(path)

            def content(path: str, most: int = 65536) -> object:
                count() if f"/{running.pid}/" in path else None
                return real_content(path, most)

            def listdir(path: str) -> list[str]:
                count() if f"/{running.pid}/" in path else None
                return real_listdir(path)

            monkeypatch.setattr(proc, "line", line)
            monkeypatch.setattr(proc, "content", content)
            monkeypatch.setattr(os, "listdir", listdir)
            for _ in range(3):
                watch.figures_at = 0.0
                watch._look()
            monkeypatch.undo()
    watch._write(is_over=True)
    assert watch.notes == set()


def test_files_of_proc_that_are_closed_to_us(
    watch: Any, modules: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    proc = modules("watch_proc")
    real_line, real_content = proc.line, proc.content
    closed = re.compile(r"/proc/\d+/(task/\d+/syscall|io|fdinfo/\d+|cmdline)$")
    monkeypatch.setattr(proc, "line", lambda path: None if closed.match(path) else real_line(path))
    monkeypatch.setattr(
        proc,
        "content",
        lambda path, *most: None if closed.match(path) else real_content(path, *most),
    )
    with child("input()") as running:
        seen = record(watch, running.pid)
        assert poll(lambda: doing(watch, running.pid) == "waiting", 60)
        assert (seen.bytes, seen.is_closed) == (None, True)
        assert seen.name.startswith("python")


def test_a_full_disk_keeps_what_was_written_before(
    watch: Any, modules: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, target: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with child("input()") as running:
        record(watch, running.pid)
        watch._write(is_over=False)
        (before,) = watch_file.read(Path(watch.path).parent)
        monkeypatch.setattr(os, "replace", full)
        record(watch, running.pid)
        watch._write(is_over=False)
        monkeypatch.undo()
        assert not Path(f"{watch.path}.part").exists()
        assert watch_file.read(Path(watch.path).parent)[0].head == before.head
        record(watch, running.pid)
        watch._write(is_over=True)
    (after,) = watch_file.read(Path(watch.path).parent)
    assert after.head.notes == ("not written: No space left on device",)
    assert sum(run.looks for runs in after.runs.values() for run in runs) >= 3


def test_a_disk_that_is_full_within_a_line(watch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write

    def cut(number: int, text: bytes) -> int:
        if len(text) < 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(number, text[:10])

    with child("input()") as running:
        record(watch, running.pid)
        watch._write(is_over=False)
        before = Path(f"{watch.path}.runs").read_text()
        assert before.endswith("\n")
        record(watch, running.pid)
        monkeypatch.setattr(os, "write", cut)
        watch._write(is_over=False)
        monkeypatch.undo()
        assert Path(f"{watch.path}.runs").read_text() == before
        watch._write(is_over=True)
    (left,) = watch_file.read(Path(watch.path).parent)
    assert sum(run.looks for runs in left.runs.values() for run in runs) == 2


def test_children_of_others_are_left_alone(watch: Any) -> None:
    with child("input()") as running, subprocess.Popen(["true"]) as other:
        assert poll(lambda: Path(f"/proc/{other.pid}/stat").read_text().split()[2] == "Z", 60)
        record(watch, running.pid)
        assert set(watch.alive) == {running.pid}
        assert other.wait() == 0


def test_many_short_processes_are_summed_up_by_name(
    watch: Any, modules: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modules("process_watch"), "_MOST_ENDED", 4)
    with child("input()") as running:
        seen = record(watch, running.pid)
        text = Path(f"/proc/{running.pid}/stat").read_bytes()
    make = modules("watch_record").ProcessRecord
    for number in range(20):
        ended = make(10**8 + number, modules("watch_proc").Stat(text), 0.0)
        ended.user, ended.name = 1.0, "short"
        watch._gone(ended)
    watch._write(is_over=True)
    (file,) = watch_file.read(Path(watch.path).parent)
    short = [row for row in file.head.processes if row.name == "short"]
    assert len(short) <= 5
    assert sum(row.many for row in short) == 20
    assert sum(row.user_s for row in short) == pytest.approx(20)
    assert seen.pid == running.pid


def test_runs_beyond_a_number_are_counted(watch: Any) -> None:
    watch.runs.most = 2
    with child("input()") as running:
        seen = record(watch, running.pid)
        for number in range(6):
            watch.runs.add(seen, number, "running" if number % 2 else "asleep", None)
        watch._write(is_over=False)
    assert watch.runs.left_out >= 3


def test_figures_are_kept_more_rarely_of_an_old_process(watch: Any) -> None:
    with child("input()") as running:
        seen = record(watch, running.pid)
        begun = seen.first
        for half_s in range(2000):
            watch.series.add(seen, begun + 0.5 * half_s)
        watch.series.most = watch.series.count
        watch.series.add(seen, begun + 2000.0)
        watch._write(is_over=True)
    (left,) = watch_file.read(Path(watch.path).parent)
    first, *rest = left.figures[running.pid, seen.begun]
    assert first.resident_bytes is not None
    assert first.resident_bytes <= 1024 * seen.peak_kib
    assert first.bytes is not None
    # Each half second for 100 s, then each two hundredth of the age: 1000 s are 660 of 2000 looks.
    assert 500 < len(rest) < 700
    assert left.head.figures_left_out == watch.series.left_out == 1


def test_the_numbers_of_calls_are_the_kernel_s(modules: Callable[[str], ModuleType]) -> None:
    """Powerpc's were read once in arch/powerpc/kernel/syscalls/syscall.tbl; here is no header."""
    calls = modules("watch_calls")
    compared = 0
    for machine, header in HEADERS.items():
        if not Path(header).exists():
            continue
        pattern = r"#define __NR(?:3264)?_(\w+) (\d+)$"
        numbers = dict(re.findall(pattern, Path(header).read_text(), re.MULTILINE))
        numbers |= {"newfstatat": numbers.get("newfstatat") or numbers.get("fstatat", "")}
        for pair in calls._NUMBERS[machine].split():
            name, number = pair.split("=")
            assert (machine, name, numbers[name]) == (machine, name, number)
            compared += 1
    if not compared:
        skip("no headers of the kernel here (linux-libc-dev)")
    assert (
        calls.call(b"0 0xffffffff 0x0 0x1 0x0 0x0 0x0 0x7f 0x7e\n", calls.table("x86_64")).fd == -1
    )
    assert calls.call(b"-1 0x7ffe 0x7fa\n", {}).kind == "fault"
    assert calls.call(b"0 0x3 0x0 0x1\n", calls.table("sparc64")).kind == "waiting"


def test_a_path_tells_its_file_system(
    watch: Any, modules: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    mounts = watch.tally.mounts
    proc = Path("/proc").stat().st_dev
    assert mounts.of_path(os.getpid(), "/proc/self/status") == f"{os.major(proc)}:{os.minor(proc)}"
    assert mounts.file_systems[mounts.of_path(os.getpid(), "/proc")].point == "/proc"
    here = tmp_path.stat().st_dev
    assert mounts.of_path(os.getpid(), str(tmp_path)) == f"{os.major(here)}:{os.minor(here)}"
    import ctypes

    text = ctypes.create_string_buffer(b"/proc/a name")
    path_at = modules("watch_proc").path_at
    assert path_at(os.getpid(), ctypes.addressof(text)) == "/proc/a name"
    assert path_at(os.getpid(), 1) is None


def traced(folder: Path, script: str, *before: str) -> watch_file.ProcessWatch:
    """Run a command under the clock of a traced rank; give what its watch left."""
    (folder / "trace").mkdir(parents=True, exist_ok=True)
    (folder / "watch").mkdir()
    for name in trace_hook.WATCH_FILES:
        shutil.copyfile(PROBE / name, folder / "watch" / name)
    shutil.copyfile(CLOCK, folder / CLOCK.name)
    python = "/usr/bin/python3" if before else sys.executable
    argv = [python, "-I", "-S", str(folder / CLOCK.name), "traced", str(folder), "M", "", "", "--"]
    subprocess.run([*before, *argv, "bash", "-c", script], timeout=120, check=False)
    (left,) = watch_file.read(folder / "trace")
    return left


def test_a_rank_that_was_killed(real_processes: None, tmp_path: Path) -> None:
    head = traced(tmp_path, "kill -KILL $$").head
    assert head.is_over
    assert head.command in {row.pid for row in head.processes}


def test_a_user_without_root_in_namespaces_of_their_own(
    real_processes: None,
) -> None:
    """As an engine starts an image: another user, other PIDs, a mount of its own."""
    # Who has no root is such a user already.
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    user = ["env"] if os.getuid() else user
    inside = ["unshare", "-Urmp", "--fork", "--mount-proc"]
    tried = subprocess.run([*user, *inside, "/usr/bin/python3", "-V"], check=False)
    if tried.returncode:
        skip("the system's own Python and user namespaces are needed to play a user")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        (folder / "input").write_bytes(bytes(300_000))
        folder.chmod(0o777)
        program = (
            "import os, time; file = os.open('/mnt/input', os.O_RDONLY); time.sleep(2); "
            "os.read(file, 200_000); time.sleep(2); print(os.getpid())\n"
            "while sum(os.times()[:2]) < 0.3: pass"
        )
        script = (
            f"mount --bind {name} /mnt && exec /usr/bin/python3 -I -S -c {shlex.quote(program)}"
        )
        (folder / "trace").mkdir(mode=0o777)
        (folder / "trace").chmod(0o777)
        left = traced(folder, f"exec {shlex.join(inside)} bash -c {shlex.quote(script)}", *user)
    (row,) = [row for row in left.head.processes if row.inner_pid == 1]
    assert not row.calls_closed
    assert row.pid != 1
    # Its own last moments may be missed, never those that the command had waited for.
    (command,) = [row for row in left.head.processes if row.pid == left.head.command]
    assert command.children_s >= 0.3 - 2 * TICK_S
    assert row.bytes is not None
    assert row.bytes[0] >= 200_000
    assert "asleep" in {doing for doing, _, _ in row.main}
    assert {"/mnt"} <= {place for system in left.head.file_systems for place in system.within}


def test_what_the_trace_itself_runs_is_left_out(watch: Any, tmp_path: Path) -> None:
    ours = tmp_path / trace_hook.MPI_SCRIPT
    ours.write_text("sleep 1000 &\nwait\n")
    script = f"import subprocess; subprocess.run(['sh', {str(ours)!r}])"

    def is_below() -> bool:
        record(watch, running.pid)
        return any(each.comm == b"sleep" for each in watch.alive.values())

    with child(script) as running:
        assert poll(is_below, 60)
        watch._write(is_over=True)
        (left,) = watch_file.read(Path(watch.path).parent)
        assert [row.pid for row in left.head.processes] == [running.pid]
        assert {pid for pid, _ in left.runs} <= {running.pid}
        for each in watch.alive.values():
            os.kill(each.pid, signal.SIGKILL)


def test_a_process_whose_parent_ended_stays_below_the_clock(
    real_processes: None, tmp_path: Path
) -> None:
    script = f"""
        cd {tmp_path}
        (setsid bash -c 'sleep 1000 & echo $! > new; mv new pid')
        while [ ! -e pid ]; do sleep 0.05; done
        read -r pid < pid
        while read -r name parent; do [ "$name" = PPid: ] && echo $parent; done \
            < /proc/$pid/status > parent
        echo $PPID >> parent
        kill $pid
        while [ -e /proc/$pid ]; do sleep 0.05; done  # the clock waits for it
    """
    head = traced(tmp_path, script).head
    parent, clock = (tmp_path / "parent").read_text().split()
    assert head.is_adopting
    assert parent == clock


def test_a_node_whose_python_has_no_watch_runs_the_rank(
    real_processes: None, tmp_path: Path
) -> None:
    argv = [sys.executable, "-I", "-S", str(CLOCK), "traced", str(tmp_path), "MARK", "", "", "--"]
    done = subprocess.run([*argv, "echo", "it ran"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "it ran\n")
    assert "not watched" in done.stderr
