"""The trial of the calibration kernels: what it counts, with the bound."""

import json
import random
from pathlib import Path

import pytest

from benchmarks import calibration


def drawn(ratio: float, seed: int) -> dict[str, object]:
    lot = random.Random(seed)

    def side(factor: float) -> list[dict[str, float]]:
        return [
            {name: factor * lot.lognormvariate(0, 0.01) for name in calibration.KERNELS}
            for _ in range(8)
        ]

    return {"seconds": 4.0, "load": 1.0, "native": side(1.0), "container": side(ratio)}


def test_what_is_refused_is_counted() -> None:
    found = calibration.summary([drawn(1.0, 1), drawn(1.0, 2), drawn(1.2, 3)])
    assert (found["runs"], found["refused"], found["own_kernels_differ"]) == (3, 1, 1)
    # Of 3 runs none or one is refused in 5 % of cases: (1 - p)^3 + 3 p (1 - p)^2.
    assert found["bound"] == pytest.approx(0.8646, abs=1e-4)
    assert found["half_width"].keys() == set(calibration.KERNELS)


def test_the_rate_of_false_refusals_is_the_declared_one() -> None:
    runs = [drawn(1.0, seed) for seed in range(400)]
    assert calibration.summary(runs)["refused"] <= 10


def test_a_trial_goes_on_after_a_cut_line(tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    whole = json.dumps(drawn(1.0, 1)) + "\n"
    path.write_text(whole + whole[:20])
    assert len(calibration._done(path)) == 1
    assert path.read_text() == whole
    assert calibration._done(tmp_path / "none") == []
