"""A resident process of the probe, in a thread: what it answers, and what it does between."""

import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.config.resources import PROBE


@pytest.fixture
def baton(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(PROBE)
    before = set(sys.modules)
    module = importlib.import_module("baton")
    # The tests' own threads are not to be bound.
    monkeypatch.setattr(module, "pin", PINNED.append)
    PINNED.clear()
    yield module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(PROBE)):
            del sys.modules[name]


PINNED: list[list[int]] = []
STEP_S = 0.002


class Clock:
    def __init__(self) -> None:
        self.marks: list[float] = []

    def mark(self) -> None:
        self.marks.append(time.perf_counter())

    def steps_s(self) -> list[float]:
        return [b - a for a, b in zip(self.marks, self.marks[1:], strict=False)]


class Trainer:
    """A trainer whose step takes a known time."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def step(self, number: int) -> None:
        self.numbers.append(number)
        time.sleep(STEP_S)

    def settle(self) -> None:
        return

    def clock(self) -> Clock:
        return Clock()

    def losses(self) -> list[float]:
        return [float(number) for number in self.numbers]


class Session:
    """The other end of the pipes."""

    def __init__(self, module: Any, folder: Path) -> None:
        for end in ("to", "from"):
            os.mkfifo(folder / f"n0.{end}")
        self.trainers: list[Trainer] = []
        self.begun: list[list[list[int]]] = []
        self.stopped: list[int] = []
        self.resident: Any = module.Resident(
            self._make,
            2,
            [3],
            lambda: self.begun.append(list(PINNED)),
            lambda: self.stopped.append(len(self.resident.steps)),
        )
        self.served: list[bool] = []
        self.thread = threading.Thread(target=self._serve, args=(module, folder))
        self.thread.start()
        self._orders = (folder / "n0.to").open("w")
        self._answers = (folder / "n0.from").open()

    def _make(self) -> Trainer:
        self.trainers.append(Trainer())
        return self.trainers[-1]

    def _serve(self, module: Any, folder: Path) -> None:
        pipes = module.Baton(str(folder), "n0")
        self.served.append(self.resident.serve(pipes))
        pipes.close()

    def answer(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self._answers.readline())
        return said

    def ask(self, order: str) -> dict[str, Any]:
        self._orders.write(order + "\n")
        self._orders.flush()
        return self.answer()

    def end(self, order: str = "end\n") -> None:
        self._orders.write(order)
        self._orders.close()
        self.thread.join(10)
        self._answers.close()


@pytest.fixture
def session(baton: Any, tmp_path: Path) -> Iterator[Session]:
    made = Session(baton, tmp_path)
    yield made
    if made.thread.is_alive():
        made.end()


def test_a_turn_has_a_step_that_is_dropped(session: Session) -> None:
    assert session.answer() == {"ready": os.getpid()}
    assert session.ask("make")["made_s"] >= 2 * STEP_S
    assert PINNED == [[3]]
    assert session.begun == [[[3]]]  # once, and bound already
    turn = session.ask("turn 4")
    assert len(turn["steps_s"]) == 4
    assert turn["wall_s"] == pytest.approx(sum(turn["steps_s"]), abs=1e-8)
    assert turn["first_s"] >= STEP_S
    assert session.trainers[0].numbers == [0, 1, 2, 3, 4, 5, 6]
    session.end()
    assert session.served == [True]
    assert len(session.resident.steps) == 4


def test_turns_say_what_else_happened(session: Session) -> None:
    session.answer()
    session.ask("make")
    begin = time.perf_counter()
    turn = session.ask("turn 1")
    assert begin <= turn["start_s"] <= time.perf_counter()
    assert turn["voluntary"] >= 0
    assert {"cpu_s", "involuntary", "faults", "idle_cpu_s"} <= turn.keys()


def test_a_new_trainer_begins_anew_and_the_first_ones_losses_are_kept(session: Session) -> None:
    session.answer()
    session.ask("make")
    session.ask("turn 1")
    session.ask("make")
    session.ask("turn 2")
    session.end()
    first, second = session.trainers
    assert (first.numbers, second.numbers) == ([0, 1, 2, 3], [0, 1, 2, 3, 4])
    assert session.resident.losses == [0.0, 1.0, 2.0, 3.0]
    assert len(session.resident.steps) == 3
    # Bound once: what is made later is made where the first was.
    assert PINNED == [[3]]


def test_a_wait_costs_no_processor_time_and_spinning_is_seen(session: Session) -> None:
    session.answer()
    session.ask("make")
    session.ask("turn 1")
    time.sleep(0.05)
    assert session.ask("turn 1")["idle_cpu_s"] < 0.04
    end = time.process_time() + 0.05
    while time.process_time() < end:  # what a team of threads does that spins
        pass
    assert session.ask("turn 1")["idle_cpu_s"] > 0.04
    session.end()
    assert session.resident.idle > 0.04


def test_what_is_measured_once_more_is_measured_on_order(session: Session) -> None:
    session.answer()
    session.ask("make")
    session.ask("turn 3")
    assert session.stopped == []
    assert "idle_cpu_s" in session.ask("stop")
    assert session.stopped == [3]
    assert len(session.trainers) == 1
    session.end()


def test_a_rehearsal_trains_one_small_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PROBE)
    before = set(sys.modules)
    probe = importlib.import_module("probe_train")
    made: list[Any] = []

    class Rehearsed(Trainer):
        def __init__(self, wanted: Any) -> None:
            super().__init__()
            made.append((wanted, self))

    wanted = probe.options(["--threads", "1"])
    module = type("Module", (), {"Trainer": Rehearsed})
    probe._rehearsed(module, wanted)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(PROBE)):
            del sys.modules[name]
    ((small, trainer),) = made
    assert (small.batch, small.size, small.threads, trainer.numbers) == (2, 8, 1, [0])
    assert wanted.batch == 0  # the trainers to come are of the usual size


def test_a_session_that_is_gone_ends_the_process(session: Session) -> None:
    session.answer()
    session.end(order="")
    assert session.served == [False]
