"""Bad input of a session that no real machine here can give: GPUs, clocks, other versions."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.records import Json
from dlcontainer.errors import BenchDataError
from dlcontainer.system.process import CompletedCommand
from tests import benchseries
from tests.benchrunner import Bench, ProbeRunner, said
from tests.benchseries import FACTS, INSIDE, Plan
from tests.fakes import completed
from tests.judging import analyse

V100: dict[str, Json] = {"devices": ["Tesla V100-SXM2-16GB"] * 6, "driver": "450.80.02"}
A100: dict[str, Json] = {"devices": ["NVIDIA A100-SXM4-40GB"] * 4, "driver": "580.105.08"}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize("question", ["overhead", "deployment"])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(V100, A100), (V100, {**V100, "devices": V100["devices"][:5]}), (V100, {})],  # type: ignore[index]
    ids=["model", "number", "none"],
)
def test_different_gpus_are_not_comparable(
    tmp_path: Path, question: Any, ours: dict[str, Json], theirs: dict[str, Json]
) -> None:
    plan = Plan(question=question, reference={**FACTS, **ours}, candidate={**INSIDE, **theirs})
    series = benchseries.write(tmp_path / "x.jsonl", plan)

    judged = analyse(reader.read(series)).verdict
    assert judged.word == "NOT COMPARABLE"
    assert any(reason.startswith("devices differs: ") for reason in judged.reasons)
    assert any("Tesla V100" in reason for reason in judged.reasons)


def with_devices(*names: str) -> CompletedCommand:
    body = json.loads(said(1.0, train=False).splitlines()[1])
    body["stack"]["devices"] = list(names)
    first = said(1.0, train=False).splitlines()[0]
    return completed("probe", stdout=f"{first}\n{json.dumps(body)}\n")


def test_a_gpu_that_goes_within_the_session(bench: Bench) -> None:
    def answers(number: int) -> CompletedCommand:
        return with_devices("A100", "A100") if number < 5 else with_devices("A100")

    with pytest.raises(BenchDataError, match="changed within the session: devices"):
        bench.run(ProbeRunner(odd=answers))
    assert not bench.read().complete


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 0.01])
def test_the_clock_jumps_during_a_launch(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    real, moved = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + moved[0])

    def odd(number: int) -> None:
        if number >= 4:
            moved[0] += jump

    with pytest.raises(BenchDataError, match="clock was set during the launch"):
        bench.run(ProbeRunner(odd=odd))
    series = bench.read()
    assert not series.complete
    assert "clock was set" in str(series.samples[-1].error)
    assert all(sample.ok for sample in series.samples[:4])


@pytest.mark.parametrize("wall", [0.0, -1.0])
def test_a_time_that_is_none_stops_the_session(bench: Bench, wall: float) -> None:
    odd = completed("probe", stdout=said(wall, train=True))
    with pytest.raises(BenchDataError, match="implausible wall time"):
        bench.run(ProbeRunner(odd=lambda number: odd if number >= 3 else None), probe="train")
    series = bench.read()
    ok = [sample.ok for sample in series.samples]
    assert (ok[:3], set(ok[3:]), len(series.lost)) == ([True] * 3, {False}, 3)
    assert analyse(series).verdict.word == "INCONCLUSIVE"
