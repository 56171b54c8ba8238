"""Resident processes that run nothing: threads that answer orders as the probe's baton.py does."""

import json
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO, Unpack

import pytest

from dlcontainer.bench.measure.units import groups
from dlcontainer.bench.samples.records import (
    GROUPS_PROCEDURE,
    AttestedStack,
    Order,
    Sample,
    SessionDeclaration,
    SessionHeader,
)
from dlcontainer.bench.samples.resident import agreement, order
from dlcontainer.bench.samples.resident.order import GroupOrder
from dlcontainer.bench.samples.resident.resident_records import (
    GroupPlan,
    LostGroup,
    ResidentProcess,
    Turn,
)
from dlcontainer.bench.samples.vocabulary import ArmName
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.system.process import CommandFailedError, CompletedCommand, RunOptions
from tests import benchseries
from tests.fakes import completed

STEP_S = 0.0005
# What a process does in place of an answer: it ends, or it answers so.
Odd = Callable[[str, int, str], str | None]


def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make groups short: turns of 2 ms, hardly a wait."""
    monkeypatch.setattr(groups, "TURN_S", 0.002)
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

    def __call__(self, argv: Sequence[str], **_options: Unpack[RunOptions]) -> CompletedCommand:
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


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What is known of a synthetic session of groups; scatters are standard deviations of logs."""

    ratio: float = 1.0
    between: float = 0.015
    turns: float = 0.01
    pairs: int = 8
    per_arm: int = 2
    rounds: int = 8
    turn_steps: int = 8
    seed: int = 1
    lost: tuple[ArmName, ...] = ()
    # How much longer the first timed step of a turn takes, in both arms.
    cold: float = 0.0
    change: Callable[[Sample], Sample] = lambda sample: sample


def write(path: Path, truth: Truth) -> Path:
    """Write a session of groups whose truth is known, by the writer that `bench` uses."""
    session = _session(truth)
    lot = _Lot(truth, random.Random(truth.seed), session.declared)
    with Writer(path, session) as out:
        out.stack(AttestedStack(arm="native", facts=benchseries.FACTS))
        out.stack(AttestedStack(arm="container", facts=benchseries.INSIDE))
        for arm in truth.lost:
            out.lost(
                LostGroup(group=1, arm=arm, process="x", reason="ended by signal 9", started="2026")
            )
        for group in agreement.schedule(session.declared)[0]:
            for sample in lot.group(group.number, group.order):
                out.sample(truth.change(sample))
        out.end(complete=True)
    return path


def _session(truth: Truth) -> SessionHeader:
    plan = GroupPlan(
        per_arm=truth.per_arm,
        rounds=truth.rounds,
        turn_steps=truth.turn_steps,
        renew_rounds=1,
        gap_s=0.01,
        cpus=(1,),
        lost_most=2,
    )
    session = benchseries.session(benchseries.Plan(pairs=truth.pairs, control_pairs=0))
    declared = replace(
        session.declared,
        metric="wall_s",
        groups=plan,
        steps=plan.steps,
        seed=truth.seed,
        procedure=GROUPS_PROCEDURE,
        secondary={"cpu_s_per_step": session.declared.margin},
    )
    return replace(session, declared=declared)


@dataclass
class _Lot:
    truth: Truth
    random: random.Random
    declared: SessionDeclaration
    now: float = 1000.0
    samples: int = 0

    def group(self, number: int, first: Order) -> list[Sample]:
        plan = self.declared.groups
        assert plan is not None
        pair = agreement.schedule(self.declared)[0]
        drawn = order.drawn(
            self.declared.seed,
            next(one for one in pair if one.number == number),
            plan,
        )
        began = self.now
        starts = {name: self._later(1.0) for name in drawn.start}
        steps = {name: self._step(name) for name in drawn.start}
        turns: dict[str, list[Turn]] = {name: [] for name in drawn.start}
        for place, names in enumerate(drawn.rounds):
            for at, name in enumerate(names.turns):
                turns[name].append(self._turn(place, at, steps[name]))
        group = _Group(drawn, starts, turns, began, self.now - began)
        return [self._sample(number, first, letter, group) for letter in first]

    def _later(self, seconds: float) -> float:
        self.now += seconds
        return self.now

    def _step(self, name: str) -> float:
        ratio = math.log(self.truth.ratio) if name[0] == order.CANDIDATE else 0.0
        return 0.025 * math.exp(ratio + self.random.gauss(0, self.truth.between))

    def _turn(self, number: int, place: int, step: float) -> Turn:
        step *= math.exp(self.random.gauss(0, self.truth.turns))
        steps = [round(step, 9)] * self.truth.turn_steps
        steps[0] = round(step * (1 + self.truth.cold), 9)
        wall = round(sum(steps), 9)
        start = round(self._later(0.01), 9)
        seen = step + wall + 0.001
        self._later(seen)
        return Turn(
            round=number, place=place, trainer=1 + number, start_s=start, first_s=step,
            wall_s=wall, cpu_s=0.98 * wall, steps_s=tuple(steps), voluntary=0, involuntary=1,
            faults=0, idle_cpu_s=0.0, seen_s=seen,
        )  # fmt: skip

    def _sample(self, number: int, first: Order, letter: str, group: "_Group") -> Sample:
        names = [name for name in order.names(self.truth.per_arm) if name[0] == letter]
        residents = tuple(
            ResidentProcess(
                name=name,
                started_s=group.starts[name],
                ready_s=0.005,
                turns=tuple(group.turns[name]),
            )
            for name in names
        )
        wall = sum(one.wall_s for one in residents)
        turns = [turn for one in residents for turn in one.turns]
        cpu = sum(turn.cpu_s for turn in turns) / sum(len(turn.steps_s) for turn in turns)
        self.samples += 1
        return Sample(
            index=self.samples - 1,
            role="pair",
            arm="native" if letter == order.REFERENCE else "container",
            started=(benchseries.BEGIN + timedelta(seconds=int(group.began_s))).isoformat(),
            returncode=0,
            wall_s=wall,
            pair=number,
            position=0 if first[0] == letter else 1,
            order=first,
            values={"elapsed_s": group.elapsed_s, "cpu_s_per_step": cpu, "loss": [2.0, 1.0]},
            residents=residents,
        )


@dataclass(frozen=True)
class _Group:
    drawn: GroupOrder
    starts: dict[str, float]
    turns: dict[str, list[Turn]]
    began_s: float
    elapsed_s: float
