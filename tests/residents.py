"""Resident processes that run nothing: threads that answer orders as the probe's baton.py does."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, Unpack

import pytest

from dlcontainer.bench.measure.units import groups
from dlcontainer.system.process import CommandFailedError, Completed, RunOptions
from tests.fakes import completed

STEP_S = 0.0005
# What a process does in place of an answer: it ends, or it answers so.
Odd = Callable[[str, int, str], str | None]


def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make groups short: turns of 2 ms, two rounds, hardly a wait."""
    monkeypatch.setattr(groups, "TURN_S", 0.002)
    monkeypatch.setattr(groups, "ROUNDS", 3)
    monkeypatch.setattr(groups, "_LEAST_GAP_S", 0.0005)
    monkeypatch.setattr(groups, "_LONGEST_SPIN_S", 0.01)


@dataclass(slots=True)
class ResidentRunner:
    """Runs processes as threads; `odd` says what one does otherwise: name, start, order."""

    odd: Odd = lambda *_: None
    # By whether it is in the container: how much longer a step takes there.
    ratio: Callable[[bool], float] = lambda _: 1.0
    stack: dict[str, Any] = field(default_factory=lambda: {"python": "3.11.2", "threads": 1})
    spun_s: float = 0.0
    starts: list[str] = field(default_factory=list)
    # Who was at work, to see that two never are.
    at_work: list[str] = field(default_factory=list)
    together: int = 0

    def __call__(self, argv: Sequence[str], **_options: Unpack[RunOptions]) -> Completed:
        if not any("dlc-start" in word for word in argv):
            return completed(*argv)
        words = list(argv)
        contained = any("apptainer" in word for word in words)
        folder = Path(words[words.index("--baton") + 1])
        if contained:
            shown = next(word for word in words if f":{folder}" in word)
            folder = Path(shown.rpartition("=")[2].partition(":")[0])
        name = words[words.index("--process") + 1]
        self.starts.append(name)
        with (folder / f"{name}.to").open() as orders, (folder / f"{name}.from").open("w") as said:
            process = _Process(self, name, len(self.starts), self.ratio(contained), said)
            process.serve(orders, tuple(argv))
        return completed(*argv, stdout=process.report())


@dataclass(slots=True)
class _Process:
    runner: ResidentRunner
    name: str
    start: int
    ratio: float
    said: TextIO
    steps: int = 0
    wall: float = 0.0

    def serve(self, orders: TextIO, argv: tuple[str, ...]) -> None:
        self._say({"here": 1})
        self._say({"ready": 1})
        while (order := orders.readline().strip()) not in {"", "end"}:
            odd = self.runner.odd(self.name, self.start, order)
            if odd == "dies":
                error = completed(*argv, code=-11, stderr="first\nSegmentation fault\n")
                raise CommandFailedError(error)
            if odd is not None:
                self.said.write(odd + "\n")
                self.said.flush()
            else:
                self._say(self._turn(int(order.split()[1])) if " " in order else {"made_s": 0.1})

    def _turn(self, count: int) -> dict[str, Any]:
        self.runner.at_work.append(self.name)
        self.runner.together += len(self.runner.at_work) > 1
        start = time.monotonic()
        steps = [round(STEP_S * self.ratio, 9)] * count
        # What is said to have passed must have passed: the session looks at its own clock.
        time.sleep(sum(steps) + 2 * STEP_S)
        self.steps, self.wall = self.steps + count, self.wall + sum(steps)
        self.runner.at_work.remove(self.name)
        return {
            "start_s": start,
            "first_s": STEP_S,
            "steps_s": steps,
            "wall_s": round(sum(steps), 9),
            "cpu_s": 0.9 * sum(steps),
            "voluntary": 1,
            "involuntary": 0,
            "faults": 0,
            "idle_cpu_s": self.runner.spun_s,
        }

    def _say(self, body: dict[str, Any]) -> None:
        self.said.write(json.dumps(body) + "\n")
        self.said.flush()

    def report(self) -> str:
        start = 1_700_000_000_000_000_000
        body = {
            "schema": "dlcontainer/probe/1",
            "probe": "train",
            "error": None,
            "stamps_ns": {"inside": start, "python": start},
            "values": {"wall_s": self.wall, "idle_cpu_s": self.runner.spun_s},
            "counts": {"max_rss_mb": 300.0, "samples_per_s": 16 / (STEP_S * self.ratio)},
            "losses": [2.0, 1.0],
            "steps_s": [STEP_S * self.ratio] * self.steps,
            "workload": {"batch": 16},
            "stack": self.runner.stack,
        }
        return f"dlc-start {start}\n{json.dumps(body)}\n"
