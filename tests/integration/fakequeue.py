"""Runs the jobs that the fake programs of LSF and PBS (tests/fakebin/queue) were given."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.values import ROOT

PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "lsf": ("bsub", "bjobs", "bkill"),
    "pbs": ("qsub", "qselect", "qstat", "qdel"),
}


@dataclass(slots=True, kw_only=True)
class FakeQueue:
    """Jobs on this host; how one is to end, where it isn't by itself, is by its number."""

    folder: Path
    environ: Mapping[str, str]
    ends: dict[int, str] = field(default_factory=dict)
    running: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)

    def scripts(self) -> list[str]:
        """Give the scripts of all jobs that were submitted."""
        found = sorted(self.folder.glob("*.job"), key=lambda one: int(one.stem))
        return [one.read_text().split("\n", 2)[2] for one in found]

    def look(self) -> None:
        """Begin what was submitted, end what is to end, note what has ended."""
        for path in self.folder.glob("*.job"):
            if path.stem not in self.running:
                self._begin(path)
        for number, process in self.running.items():
            code = self.folder / f"{number}.code"
            if code.exists():
                continue
            told = self.ends.get(int(number))
            if told or (self.folder / f"{number}.kill").exists():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if process.poll() is not None:
                draft = self.folder / f"{number}.coded"
                draft.write_text(told or str(process.returncode % 256))
                draft.rename(code)

    def _begin(self, path: Path) -> None:
        _, log, script = path.read_text().split("\n", 2)
        file = path.with_suffix(".sh")
        file.write_text(script)
        with Path(log).open("wb") as out:
            self.running[path.stem] = subprocess.Popen(
                ["bash", file], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env=dict(self.environ), start_new_session=True,
            )  # fmt: skip


@contextlib.contextmanager
def serving(kind: str, folder: Path, environ: Mapping[str, str]) -> Iterator[FakeQueue]:
    """Run jobs until the end of the block; the programs are in `folder`/bin."""
    (folder / "bin").mkdir(parents=True)
    for name in PROGRAMS[kind]:
        (folder / "bin" / name).symlink_to(ROOT / "tests/fakebin/queue/program")
    queue = FakeQueue(folder=folder, environ=environ)
    over = threading.Event()

    def serve() -> None:
        while not over.wait(0.05):
            queue.look()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield queue
    finally:
        over.set()
        thread.join()
        for process in queue.running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
