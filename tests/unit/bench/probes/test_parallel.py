"""`bench train --parallel`, `--script`, `--apart`: what is declared, launched and refused."""

import ast
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.probes import PROBES
from dlcontainer.bench.probes.networks import gradient_check, parallel
from dlcontainer.bench.probes.probe import ParameterContext, ProbeCell, ProbeSubject
from dlcontainer.config.resources import PROBE
from dlcontainer.errors import UsageError

TRAIN = PROBES["train"]
TORCH = ProbeSubject(image="x.sif", recipe="demo", modules=("torch",))
HOROVOD = ProbeSubject(image="x.sif", recipe="demo", modules=("torch", "horovod"))
TENSORFLOW = ProbeSubject(image="x.sif", recipe="demo", modules=("tensorflow",))


def cell(contents: ProbeSubject = TORCH, ranks: int = 4, **typed: Any) -> ProbeCell:
    setting = ParameterContext(contents=contents, ranks=ranks)
    return ProbeCell(values=TRAIN.values(typed, setting), threads=2, steps=3, ranks=ranks)


def words(one: ProbeCell) -> str:
    return " ".join(TRAIN.words(one))


def test_a_strategy_is_declared_and_launched_by_its_full_name() -> None:
    one = cell(parallel="pp2", workload="transformer", batch=8)
    declared = TRAIN.declared(one)
    assert (declared["parallel"], declared["micro_batches"]) == ("dp2xpp2", 4)
    assert one.values["distributed"] == "parallel"
    assert "--parallel dp2xpp2 --micro-batches 4" in words(one)
    assert "--distributed" not in words(one)
    assert "--gate" not in words(one)


def test_the_gate_is_the_warm_up_s() -> None:
    one = cell(parallel="dp")
    warm = ProbeCell(values=one.values, threads=2, steps=3, ranks=4, is_warmup=True)
    assert words(warm) == words(one) + " --gate"


def test_other_ways_keep_data_parallelism() -> None:
    assert cell(HOROVOD, parallel="dp").values["distributed"] == "horovod"
    assert cell(TENSORFLOW, parallel="dp").values["distributed"] == "tensorflow"
    # Of Horovod's image the rest is PyTorch's own.
    assert cell(HOROVOD, parallel="fsdp").values["distributed"] == "parallel"
    assert "--parallel" not in words(cell(HOROVOD, parallel="dp"))


def test_ranks_that_never_talk() -> None:
    one = cell(distributed="none", apart=None)
    assert "--distributed none" in words(one)
    bodies = [{"workload": {"distributed": "none"}} for _ in range(2)]
    assert gradient_check.problem(bodies) == ""


@pytest.mark.parametrize(
    ("ranks", "typed", "says"),
    [
        (4, {"parallel": "tp2"}, "the network residual has no plan for tensor parallelism"),
        (4, {"parallel": "pp2", "workload": "resnet50"}, "no plan for pipeline parallelism"),
        (3, {"parallel": "tp3", "workload": "transformer"}, "the 8 heads of transformer can't be"),
        (4, {"parallel": "pp4", "workload": "transformer"}, "the 6 layers of transformer can't be"),
        (4, {"parallel": "tp3"}, "4 ranks can't be divided by 3"),
        (2, {"parallel": "pp2", "workload": "transformer", "batch": 6}, "a batch of 6 can't be"),
        (2, {"parallel": "pp2", "workload": "transformer", "micro_batches": 1}, "as many or more"),
        (2, {"parallel": "dp", "micro_batches": 4}, "has no pipeline"),
        (2, {"micro_batches": 4}, "--micro-batches requires --parallel"),
        (0, {"parallel": "dp"}, "--parallel requires --ranks"),
        (0, {"apart": 3}, "--apart requires --ranks"),
        (2, {"parallel": "fsdp", "optimizer": "lars"}, "lars is not available with it"),
        (2, {"parallel": "fsdp", "precision": "fp16"}, "no loss scaling for it"),
        (2, {"parallel": "zero3"}, "unknown term 'zero3'"),
    ],
)
def test_what_is_refused(ranks: int, typed: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        cell(TORCH, ranks, **typed)
    assert says in str(refused.value)
    assert refused.value.next_step


def test_horovod_and_tensorflow_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match="horovod has data parallelism only"):
        cell(HOROVOD, parallel="tp2", distributed="horovod", workload="transformer")
    with pytest.raises(UsageError, match="tensorflow has data parallelism only"):
        cell(TENSORFLOW, parallel="fsdp")


def test_the_numbers_that_must_divide_are_the_network_s() -> None:
    (numbers,) = [
        ast.literal_eval(line.partition(" = ")[2])
        for line in (PROBE / "networks_text.py").read_text().splitlines()
        if line.startswith("LAYERS, WIDTH, HEADS")
    ]
    cut = parallel.CUTS["transformer"]
    assert (cut.blocks, cut.heads) == (numbers[0], numbers[2])


def test_a_script_s_folder_is_declared_by_its_digest(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def build(): ...\n")
    (tmp_path / "parts.py").write_text("A = 1\n")
    one = cell(script=f"{tmp_path}/mine.py:build", parallel="tp2")
    declared = TRAIN.declared(one)
    assert declared["script"] == "mine.py:build"
    assert "--script mine.py:build" in words(one)
    assert str(tmp_path) not in words(one) + str(declared)
    (tmp_path / "parts.py").write_text("A = 2\n")
    other = TRAIN.declared(cell(script=f"{tmp_path}/mine.py:build", parallel="tp2"))
    assert other["script_sha256"] != declared["script_sha256"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mine.py", "not a function of a Python file"),
        ("mine.txt:build", "not a function of a Python file"),
        ("none.py:build", "no file"),
    ],
)
def test_a_script_that_is_none(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        cell(script=f"{tmp_path}/{text}")


def test_a_script_in_a_folder_of_data(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    with (tmp_path / "data.bin").open("wb") as file:
        file.truncate(65_000_000)
    with pytest.raises(UsageError, match="more than 1000 files or 64 MB"):
        cell(script=f"{tmp_path}/mine.py:build")


GATE = {"checked": "the network", "loss": 1e-7, "weights": 0.0, "tolerance": 1e-5, "ok": True}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, ""),
        ({"checked": "nothing", "ok": None}, ""),
        ({"loss": 2e-2}, "losses differ by 0.02"),
        ({"weights": 9e-3, "ok": False}, "weights by 0.009"),
        ({"loss": float("nan")}, "don't train what one process trains"),
        ({"ok": False}, "don't train what one process trains"),
        ({"loss": None}, "not said whole"),
    ],
)
def test_a_gate_is_judged(change: dict[str, Any], says: str) -> None:
    problem = gradient_check.gate_problem([GATE, {**GATE, **change}])
    assert says in problem
    assert bool(says) == bool(problem)


def test_ranks_of_one_part_are_held_against_each_other() -> None:
    def said(**parts: float) -> dict[str, Any]:
        moved = {part: {"length": 1.0, "sums": [one]} for part, one in parts.items()}
        return {"workload": {"distributed": "parallel"}, "moved": moved}

    # Shards differ, and what both hold doesn't.
    assert gradient_check.problem([said(all=0.1, tp0=0.3), said(all=0.1, tp1=0.9)]) == ""
    problem = gradient_check.problem([said(pp0=0.1), said(pp1=0.5), said(pp0=0.2), said(pp1=0.5)])
    assert "weights of pp0 end 0.1 of their way apart" in problem
