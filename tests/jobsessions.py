"""Made-up sessions of jobs: what ranks' clocks leave, and a submitter that only writes it."""

import itertools
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dlcontainer.bench.job import scripts
from dlcontainer.bench.job.job_records import JobDeclaration, Side, StepDeclaration
from dlcontainer.bench.job.job_session import JobContext
from dlcontainer.bench.job.scripts import JobFrame, RankSearch
from dlcontainer.bench.job.submit import JobEnding
from dlcontainer.schedulers.scheduler import Cause
from tests.fakes import Quiet
from tests.values import HOST

BOOT = "b-1"
NOW = 1_790_000_000.0
CAUSES: Mapping[str, Cause] = {"COMPLETED": "none", "NODE_FAIL": "outside", "TIMEOUT": "limit"}


def stamp(at: float, **changes: Any) -> dict[str, Any]:
    """Give a stamp so many seconds after a job's first instruction, of the first node's clock."""
    return {"at": NOW + at, "mono": 500 + at, "boot": BOOT, "node": "n1", **changes}


def rank(number: int, begin: float, **changes: Any) -> dict[str, Any]:
    """Give what a rank's clock leaves: it began at `begin` and lasted two seconds."""
    own = {"rank": number, "ranks": "2", "process_s": 0.1, "first_s": 0.5, "last_s": 1.5}
    own |= {"ended_s": 2.0, "matches": 3, "code": 0, "clock_set_s": 0.0, "lines": ["step 3"]}
    return stamp(begin) | own | changes


def leave(folder: Path, ranks: list[dict[str, Any]], *, end: float = 3.0, code: int = 0) -> None:
    """Write what a job's clocks leave."""
    written: dict[str, Mapping[str, Any]] = {
        "began.json": {**stamp(0), "code": 0},
        "ended.json": {**stamp(end), "code": code},
    }
    written |= {f"rank-{one['rank']}-{at}.json": one for at, one in enumerate(ranks)}
    for name, body in written.items():
        (folder / name).write_text(json.dumps(body) + "\n")


def leave_events(
    folder: Path, kinds: Mapping[str, Sequence[float]], *, number: int | None = 0, pid: int = 40
) -> None:
    """Write the file of a process's events, of each kind so long after one another."""
    head = {"schema": "dlcontainer/events/1", "node": "n1", "pid": pid, "rank": number, "mono": 5.0}
    lines = [
        f"{at:.9f} {name}"
        for name, lengths in kinds.items()
        for at in itertools.accumulate(lengths)
    ]
    folder.mkdir(exist_ok=True)
    (folder / f"n1-{pid}.events").write_text("\n".join([json.dumps(head), *lines, ""]))


def steps_declared(**changes: Any) -> StepDeclaration:
    usual = {"source": "optimizer", "mark": None, "warm_up": 10, "fewest": 10, "margin": 0.02}
    return StepDeclaration(**{**usual, **changes})


def declared(**changes: Any) -> JobDeclaration:
    usual: dict[str, Any] = {
        "command": ("python", "train.py"), "first_step": "step", "pairs": 8, "seed": 3,
        "margin_s": 1.0, "nodes": 1, "tasks_per_node": 1, "replace": 2, "site": "demo",
        "scheduler": "slurm", "image": {"image": "demo.sif", "sha256": "0" * 64},
        "native": {"prefix": "/sw/native", "why": "given by --native"},
        "scripts": {"native": "native\n", "container": "container\n"},
    }  # fmt: skip
    return JobDeclaration(**{**usual, **changes})


# What becomes of a job, by its number from 0: its state and its script's exit code.
Odd = Callable[[int], tuple[str, int] | BaseException | None]


@dataclass(slots=True)
class Clockwork:
    """A submitter whose jobs have a known start-up: `added` seconds more in the container."""

    added: float = 2.0
    noise: float = 0.05
    odd: Odd = lambda _: None
    # The steps of a job, by its number and side: how many there are, and how long each takes.
    steps: Callable[[int, Side], Sequence[float]] = lambda _number, _side: ()
    sides: list[Side] = field(default_factory=list)
    draw: random.Random = field(default_factory=lambda: random.Random(7))

    def run(self, frame: Path, log: Path) -> JobEnding:
        number = len(self.sides)
        contained = "export DLCONTAINER_IMAGE=" in frame.read_text()
        self.sides.append("container" if contained else "native")
        odd = self.odd(number)
        if isinstance(odd, BaseException):
            raise odd
        state, code = odd or ("COMPLETED", 0)
        log.write_text("a last word\n")
        start = 1 + self.added * contained + self.draw.uniform(0, self.noise)
        if state == "COMPLETED":
            own = rank(0, 0.2, ranks="1", first_s=start, last_s=start + 1, ended_s=start + 2)
            leave(frame.parent, [own], end=start + 3, code=code)
            lengths = self.steps(number, self.sides[-1])
            if lengths:
                leave_events(frame.parent / "events", {"optimizer-step/0": lengths})
        return JobEnding(
            job=str(number), submitted=NOW - 5, state=state, cause=CAUSES.get(state, "job"),
        )  # fmt: skip


def context(folder: Path, submitter: Clockwork, **changes: Any) -> JobContext:
    steps = changes["declared"].steps if "declared" in changes else None
    work = folder / "work"
    work.mkdir(exist_ok=True)
    framing = JobFrame(
        command=("python", "train.py"), search=RankSearch(first_step="step", steps=steps),
        cwd=folder, image=Path("/i/demo.sif"), head=("#SBATCH -N 1",),
    )  # fmt: skip
    usual: dict[str, Any] = {
        "declared": declared(), "framing": framing, "submitter": submitter, "work": work,
        "output": folder / "j.jsonl", "host": HOST, "progress": Quiet(),
    }  # fmt: skip
    assert scripts.CLOCK.is_file()
    return JobContext(**{**usual, **changes})
