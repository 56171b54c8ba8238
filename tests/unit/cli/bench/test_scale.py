"""The options of `bench import-matrix`, settled: those of every session, and the matrix's own."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.scale import matrix
from dlcontainer.bench.scale.matrix_context import ScaleSettings
from dlcontainer.cli.bench import scale
from dlcontainer.errors import BenchDataError, UsageError
from tests.unit.cli.bench.test_defaults import IMAGE, typed
from tests.values import ROOT

MATRIX = matrix.read(ROOT / "docs/measure/scale-laptop.yaml")


def settled(own: dict[str, Any] | None = None, **options: Any) -> ScaleSettings:
    usual = {"module": None, "rounds": None, "shared": None}
    measured = scale._MatrixOptions(file=Path("m.yaml"), matrix=MATRIX, **{**usual, **(own or {})})
    return scale._settings(typed(**options), measured, IMAGE)


def test_the_matrix_settles_what_was_not_typed() -> None:
    settings = settled(seed=5)
    assert (settings.rounds, settings.seed, settings.shared) == (MATRIX.rounds, 5, None)
    assert settings.module == (MATRIX.module or "torch")
    assert settings.output.name.startswith("demo-scale-")


def test_options_stand_in_place_of_the_matrix(tmp_path: Path) -> None:
    own = {"module": "numpy", "rounds": 2, "shared": tmp_path}
    settings = settled(own, target=tmp_path / "a.jsonl", timeout=9.0)
    assert (settings.module, settings.rounds, settings.shared) == ("numpy", 2, tmp_path)
    assert (settings.output, settings.timeout_s) == (tmp_path / "a.jsonl", 9.0)


def test_a_file_is_neither_replaced_nor_given_twice(tmp_path: Path) -> None:
    kept = tmp_path / "a.jsonl"
    kept.touch()
    with pytest.raises(BenchDataError, match="the file exists already"):
        settled(target=kept)
    with pytest.raises(UsageError, match="--resume takes no -o"):
        settled(target=tmp_path / "b.jsonl", resume=kept)
