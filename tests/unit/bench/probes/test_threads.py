"""`bench threads`: the settings that are declared, and which is said to be best."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.probes import PROBES, kernels, threads
from dlcontainer.bench.probes.probe import ParameterContext, ProbeCell, ProbeSubject
from dlcontainer.bench.samples import reader
from dlcontainer.errors import UsageError
from tests import kernelseries
from tests.judging import analyse
from tests.kernelseries import Plant

TORCH = ProbeSubject(image="x.sif", recipe="demo", modules=("torch",))


def settled(own: int = 2, **typed: Any) -> ProbeCell:
    values = PROBES["threads"].values(typed, ParameterContext(contents=TORCH))
    return ProbeCell(values=values, threads=own)


@pytest.mark.parametrize(
    ("own", "wanted"),
    [(1, (1,)), (2, (1, 2)), (4, (1, 2, 4)), (6, (1, 2, 4, 6)), (8, (1, 2, 4, 8))],
)
def test_threads_double_as_far_as_a_launch_has_them(own: int, wanted: tuple[int, ...]) -> None:
    assert threads.counts(settled(own)) == wanted


def test_settings_of_each_kernel() -> None:
    plan = PROBES["threads"].rows(settled(2))
    assert plan is not None
    assert len({kernels.fact(row) for row in plan.rows}) == len(plan.rows) == (1 + 3 + 3) * 2 * 2
    quick = PROBES["threads"].rows(settled(2, quick=True))
    assert quick is not None
    assert len(quick.rows) == (1 + 3) * 2 * 2
    assert {str(row["library"]) for row in quick.rows} == set(threads.LIBRARIES)
    assert quick.curve == "threads"


def test_xeon_phi_s_are_declared_as_asked() -> None:
    # Of 64 cores with four threads each: never run here, the declaration alone.
    cell = settled(256, counts="128,32,64", quick=True)
    assert cell.values["counts"] == "32,64,128"
    plan = PROBES["threads"].rows(cell)
    assert plan is not None
    settings = [(row["library"], row["threads"]) for row in plan.rows if row["kernel"] == "gemm"]
    assert settings == [(name, count) for name in threads.LIBRARIES for count in (32, 64, 128)]


@pytest.mark.parametrize("counts", ["0", "x", "1,,2", "5000", "-1", "1.5"])
def test_what_is_no_number_of_threads(counts: str) -> None:
    with pytest.raises(UsageError, match="numbers of threads from 1 to 4096"):
        settled(counts=counts)


def test_the_best_setting_and_how_sure_that_is(tmp_path: Path) -> None:
    plan = PROBES["threads"].rows(settled(2, quick=True))
    assert plan is not None
    path = kernelseries.write(tmp_path / "a.jsonl", Plant(plan=plan, probe="threads"))
    section = analyse(reader.read(path)).traits.section
    assert section is not None
    assert len(section.rows) == 4 * 2
    for row in section.rows:
        line = dict(zip(section.head, row, strict=True))
        assert line["best"] == "oneDNN x2"
        assert line["next"] == "without oneDNN x2"
        assert line["next / best"] == "1.250"
        assert line["how sure"] == "sure"
        assert line["ran"] == f"oneDNN {line['kernel']}"
