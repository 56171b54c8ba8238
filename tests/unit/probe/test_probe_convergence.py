"""The convergence probe: rows with their outcomes, the check before any time, LARS by hand."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.probes import PROBES
from dlcontainer.bench.probes.convergence import DATA, RULES, SHA256, TESTING
from dlcontainer.bench.probes.probe import ParameterContext, ProbeCell, ProbeSubject
from dlcontainer.bench.samples.rows import agreement, joining
from tests.unit.probe.test_probe import copied, oldest

# A framework of plain Python: after n steps of LARS n images are right, of SGD always the half.
FRAMEWORK = """
import os
import time

import rows

FAULT = os.environ.get("FAULT", "")


class Trainer(object):
    framework = None

    def __init__(self, device, threads, training, testing):
        assert (device, threads, len(training), len(testing)) == ("cpu", 2, 1437, 360)

    def network(self, draws):
        return {"drawn": draws.weights(4, 0.5), "right": 180}

    def timed(self, weights, rule, number, batch):
        assert len(set(batch)) == len(batch) or len(batch) > 700
        weights["right"] += 1 if rule.trust else 0
        begin = time.perf_counter()
        while time.perf_counter() == begin:
            pass
        return time.perf_counter() - begin

    def right(self, weights):
        return weights["right"]

    def check(self, rule, size, draws):
        if str(size) == FAULT:
            raise rows.WrongError("1 of 9 weights are not those of fp64")
        return 9
"""
TYPED: dict[str, Any] = {"batches": "32,full", "most_steps": 50, "accuracy": 60.0}
SETTING = ParameterContext(contents=ProbeSubject(image="x.sif", recipe="demo", modules=("torch",)))


def cell(**more: Any) -> ProbeCell:
    return ProbeCell(values=PROBES["convergence"].values({**TYPED, **more}, SETTING), threads=2)


def launched(
    folder: Path, given: ProbeCell, python: str = sys.executable, fault: str = ""
) -> subprocess.CompletedProcess[str]:
    code = copied(folder / "p") if not (folder / "p").exists() else folder / "p"
    (code / "convergence_torch.py").write_text(FRAMEWORK)
    argv = [python, "-S", str(code), *PROBES["convergence"].words(given)]
    return subprocess.run(
        [*argv, "--data", str(DATA.parent)],
        env={**os.environ, "FAULT": fault}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.usefixtures("real_processes")
@pytest.mark.parametrize("which", ["this", "oldest"])
def test_each_row_has_its_outcome(tmp_path: Path, which: str) -> None:
    given = cell()
    done = launched(tmp_path, given, sys.executable if which == "this" else oldest())
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    plan = PROBES["convergence"].rows(given)
    assert plan is not None
    found = joining.read(said["rows"])
    assert agreement.problem(plan, found) == ""
    assert len(found) == 2 * 2 * 8
    for row in found:
        assert (row.n, row.checked) == (1, 9)
        outcome: dict[str, Any] = dict(row.outcome)
        if row.parameters["optimizer"] == "sgd":
            # Stated in words: no number stands for what was not reached.
            assert outcome.pop("reached") == "not reached within 50 steps"
            assert outcome == {"right": 180, "tested": TESTING, "curve": [180] * 25}
            continue
        # 60 % of 360 are 216: 36 steps after 180.
        assert (outcome["reached"], outcome["steps"], outcome["right"]) == ("yes", 36, 230)
        assert 0 < outcome["seconds"] < row.median
        assert outcome["curve"] == list(range(182, 232, 2))
    assert said["workload"]["data"] == SHA256
    stamps = said["stamps_ns"]
    assert stamps["import"] <= stamps["data"] <= stamps["checked"] <= stamps["rows"]


@pytest.mark.usefixtures("real_processes")
def test_launches_draw_the_same_and_attest_it(tmp_path: Path) -> None:
    def drawn(**more: Any) -> str:
        done = launched(tmp_path, cell(optimizers="sgd", most_steps=25, **more))
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout.splitlines()[-1])["workload"]["drawn"])

    assert drawn(batches="32") == drawn(batches="32")
    assert drawn(batches="32") != drawn(batches="33")


@pytest.mark.usefixtures("real_processes")
def test_a_wrong_step_ends_the_launch_before_any_time(tmp_path: Path) -> None:
    done = launched(tmp_path, cell(), fault="1437")
    assert done.returncode != 0
    assert "sgd, batch 1437, seed 1: 1 of 9 weights are not those of fp64" in done.stderr
    assert not done.stdout


def test_rates_follow_batch_and_step(probe: Any) -> None:
    rule = probe("probe_convergence").Rule
    sgd, lars = rule(dict(RULES["sgd"]), 100), rule(dict(RULES["lars"]), 100)
    # By the root of the batch over 32; SGD's stays, LARS' falls as a square.
    assert [sgd.rate(32, 0), sgd.rate(128, 0), sgd.rate(128, 99)] == pytest.approx(
        [0.12, 0.24, 0.24]
    )
    assert [lars.rate(32, 0), lars.rate(128, 0)] == pytest.approx([0.3, 0.6])
    assert [lars.rate(32, 50), lars.rate(32, 90)] == pytest.approx([0.3 * 0.25, 0.3 * 0.01])
    with pytest.raises(ValueError, match="--rules: each has batch, decay"):
        rule({"rate": 0.1}, 100)


class Vector:
    """What LARS asks of a tensor, in fp64."""

    def __init__(self, *values: float, grad: "Vector | None" = None) -> None:
        self.values, self.grad = list(values), grad

    def norm(self) -> float:
        return float(sum(value * value for value in self.values) ** 0.5)

    def __add__(self, other: "Vector") -> "Vector":
        return Vector(*(a + b for a, b in zip(self.values, other.values, strict=True)))

    def __mul__(self, factor: float) -> "Vector":
        return Vector(*(factor * value for value in self.values))

    __rmul__ = __mul__

    def sub_(self, other: "Vector") -> None:
        self.values = [a - b for a, b in zip(self.values, other.values, strict=True)]


def lars(probe: Any, one: Vector, steps: int, trust: float = 0.02) -> list[float]:
    for _ in range(steps):
        probe("lars").lars_step([one], rate=2.0, momentum=0.9, weight_decay=0.1, trust=trust)
    return one.values


def test_lars_by_hand(probe: Any) -> None:
    # |w| = 5, |g| = 1: the layer's rate is 0.02 * 5 / (1 + 0.1 * 5) = 1 / 15, and the step
    # 2 / 15 (g + 0.1 w) = (0.12, 0.16). Then |w| = 4.8: 0.096 / 1.48, a step of (0.1152, 0.1536)
    # on 0.9 (0.12, 0.16).
    assert lars(probe, Vector(3, 4, grad=Vector(0.6, 0.8)), 1) == pytest.approx([2.88, 3.84])
    found = lars(probe, Vector(3, 4, grad=Vector(0.6, 0.8)), 2)
    assert found == pytest.approx([2.6568, 3.5424], rel=1e-14)
    # A wrong trust ratio is seen.
    wrong = lars(probe, Vector(3, 4, grad=Vector(0.6, 0.8)), 2, trust=0.0201)
    assert wrong != pytest.approx([2.6568, 3.5424], rel=1e-4)


@pytest.mark.parametrize(
    ("weights", "gradient", "wanted"),
    [((0.0, 0.0), (0.5, 0.0), [-1.0, 0.0]), ((1.0, 0.0), (0.0, 0.0), [0.8, 0.0])],
)
def test_lars_of_what_has_no_norm(
    probe: Any, weights: tuple[float, float], gradient: tuple[float, float], wanted: list[float]
) -> None:
    found = lars(probe, Vector(*weights, grad=Vector(*gradient)), 1)
    assert found == pytest.approx(wanted)
