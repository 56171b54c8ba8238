"""Whoever ends a build, and when: nobody is left, nothing half is left, the next one works."""

import os
import re
import signal
import subprocess
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dlcontainer.system.workspace import PREFIX
from tests.integration.world import World, write_bare
from tests.processes import MARK, kill_marked, marked, poll

SUFFIXES = (".cdx.json", ".json", ".log", ".sif")
# Seconds from the end of dlcontainer until nobody of the build is left: a few where it gets a core.
# Who is not ended sleeps for 300.
LIMIT = 60.0
READY = 120.0  # seconds to come as far as a test wants; only a broken test needs them

# Phase -> (the progress line that begins it, the program that must be at work before the kill).
PHASES = {
    "base": ("base: debian", "apt-get"),
    "post": ("step work", "sleep"),
    "pack": ("pack the image", "mksquashfs"),
}


@dataclass
class Running:
    """A build in progress, and all who came from it."""

    process: "subprocess.Popen[str]"
    mark: str
    lines: list[str] = field(default_factory=list)
    reader: threading.Thread | None = None

    def read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(iter(self.process.stderr.readline, ""))

    def descendants(self) -> dict[int, str]:
        """Give each living process below dlcontainer, with its command line."""
        parents: dict[int, int] = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    stat = (folder / "stat").read_text().rpartition(")")[2].split()
                except (FileNotFoundError, ProcessLookupError):
                    continue
                if stat[0] not in "ZX":
                    parents[int(folder.name)] = int(stat[1])
        below, grown = {self.process.pid}, True
        while grown:
            new = {pid for pid, parent in parents.items() if parent in below} - below
            below, grown = below | new, bool(new)
        return {pid: command(pid) for pid in below}

    def reached(self, phase: str) -> None:
        """Wait until the build is in a phase."""
        line, program = PHASES[phase]
        assert poll(lambda: any(line in said for said in self.lines), READY), self.lines

        def at_work() -> bool:
            words = [text.split()[:1] for text in self.descendants().values()]
            return [program] in [[Path(word).name for word in first] for first in words]

        # What is quick may be over already: packing a small image takes a moment.
        assert poll(lambda: at_work() or self.process.poll() is not None, READY)
        assert self.process.poll() is None, self.lines

    def alive(self, seen: dict[int, str]) -> dict[int, str]:
        """Give who is left: of those seen before, and of those with the mark."""
        left = {pid: text for pid, text in seen.items() if command(pid) == text != ""}
        return left | {pid: command(pid) for pid in marked(self.mark)} | mentioning(self.mark)


def command(pid: int) -> str:
    """Give a process's command line; nothing for who has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        text = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if stat[0] in "ZX" else text.decode(errors="replace") + " "


def mentioning(mark: str) -> dict[int, str]:
    """Give who has the mark in the environment's paths, the command line or the folder it is in."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                texts = [(folder / "environ").read_bytes(), (folder / "cmdline").read_bytes()]
                texts.append(os.fsencode((folder / "cwd").readlink()))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            if any(mark.encode() in text for text in texts):
                found[int(folder.name)] = command(int(folder.name))
    return {pid: text for pid, text in found.items() if text}


@dataclass
class Site:
    """Where the builds of one test happen; its path holds the mark."""

    world: World
    folder: Path
    mark: str
    running: list[Running] = field(default_factory=list)

    @property
    def output(self) -> Path:
        return self.folder / "out put"

    @property
    def scratch(self) -> Path:
        return self.folder / "scratch"

    def start(self, recipe: Path, world: World | None = None) -> Running:
        user = (world or self.world).having(**{MARK: self.mark})
        argv = [*user.program, "build", str(recipe), "--site", "local", "-o", str(self.output)]
        process = subprocess.Popen(
            [*argv, "--tmpdir", str(self.scratch)],
            env=dict(user.environ),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        running = Running(process, self.mark)
        running.reader = threading.Thread(target=running.read, daemon=True)
        running.reader.start()
        self.running.append(running)
        return running

    def recipe(self, work: str = "true") -> Path:
        return write_bare(self.folder / "a recipe", work)

    def left(self) -> list[str]:
        """Name what lies in output and tmpdir."""
        folders = [folder for folder in (self.output, self.scratch) if folder.is_dir()]
        return sorted(path.name for folder in folders for path in folder.iterdir())


@pytest.fixture
def site(world: World, tmp_path: Path, fast: Path) -> Iterator[Site]:
    mark = uuid.uuid4().hex
    folder = fast / f"interrupt {mark}"
    (folder / "scratch").mkdir(parents=True)
    site = Site(world, folder, mark)
    yield site
    for running in site.running:
        if running.process.poll() is None:
            running.process.kill()
        running.process.wait()
        assert running.reader is not None
        running.reader.join(30)
        assert running.process.stderr is not None
        running.process.stderr.close()
    kill_marked(mark)
    subprocess.run(["rm", "-rf", "--", str(folder)], check=True)


def mounts(mark: str) -> list[str]:
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if mark in line]


# Each phase once and each signal once; the other pairs are among the long tests.
SHORT = {("base", "SIGKILL"), ("post", "SIGTERM"), ("pack", "SIGINT")}


@pytest.mark.parametrize(
    ("phase", "name"),
    [
        pytest.param(phase, name, marks=() if (phase, name) in SHORT else pytest.mark.long)
        for phase in PHASES
        for name in ("SIGINT", "SIGTERM", "SIGKILL")
    ],
)
def test_build_ended_from_outside(site: Site, phase: str, name: str) -> None:
    number = signal.Signals[name]
    # In packing there must be something to pack: it is to last longer than a look round.
    work = {
        "post": "setsid sleep 300 & sleep 300 & wait",
        "pack": "head -c 400000000 /dev/urandom > /opt/bare/noise",
    }.get(phase, "true")
    user = site.world
    if phase == "base":
        user = user.having(XDG_CACHE_HOME=site.folder / "cache")
    running = site.start(site.recipe(work), user)
    running.reached(phase)
    seen = running.descendants()
    assert len(seen) >= 4, seen
    os.kill(running.process.pid, number)
    assert poll(lambda: not running.alive(seen), LIMIT), (running.alive(seen), running.lines)
    assert mounts(site.mark) == []
    assert [path for path in site.output.iterdir() if not path.name.startswith(PREFIX)] == []
    code = running.process.wait()
    if name == "SIGKILL":
        assert code == -signal.SIGKILL
        assert len(site.left()) == 2, site.left()
    else:
        assert code == 130
        how = "interrupted by Ctrl-C" if name == "SIGINT" else "interrupted by SIGTERM"
        assert running.reader is not None
        running.reader.join(READY)
        assert running.lines[-1].strip() == f"dlcontainer: {how}"
        assert site.left() == []
        return
    # The next one removes the leftovers and works.
    again = site.start(site.recipe())
    assert again.process.wait(READY) == 0, again.lines
    assert site.left() == [f"bare-1.0-local{suffix}" for suffix in SUFFIXES]


def test_ctrl_c_of_a_terminal_reaches_the_whole_group(site: Site) -> None:
    running = site.start(site.recipe("sleep 300"))
    running.reached("post")
    seen = running.descendants()
    os.killpg(running.process.pid, signal.SIGINT)
    assert poll(lambda: not running.alive(seen), LIMIT), running.alive(seen)
    assert running.process.wait() == 130
    assert site.left() == []


def test_two_builds_of_one_image_at_once(site: Site) -> None:
    recipe = site.recipe("head -c 2000000 /dev/urandom > /opt/bare/noise")
    both = [site.start(recipe), site.start(recipe)]
    assert [running.process.wait(READY) for running in both] == [0, 0], both
    assert site.left() == [f"bare-1.0-local{suffix}" for suffix in SUFFIXES]
    image = site.output / "bare-1.0-local.sif"
    checks = site.world.run("validate", image, code=1).stdout
    # No Python is in it; but the record is the image's own, whoever came last.
    assert re.search(r"^ok      record: ", checks, re.MULTILINE), checks
    assert re.search(r"^ok      labels: ", checks, re.MULTILINE), checks


def test_leftovers_of_others_at_work_stay(site: Site) -> None:
    """A build in progress must not lose its folders to the next one."""
    first = site.start(site.recipe("sleep 300"))
    first.reached("post")
    before = [name for name in site.left() if name.startswith(PREFIX)]
    assert len(before) == 2
    second = site.start(write_bare(site.folder / "another recipe"))
    assert second.process.wait(READY) == 0, second.lines
    assert [name for name in site.left() if name.startswith(PREFIX)] == before
    assert first.process.poll() is None
