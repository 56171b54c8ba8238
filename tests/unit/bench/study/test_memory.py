"""Bytes of a rank: what is asked of a Python, what its answer becomes, and whether it fits."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.study.forecast import memory, memory_fit
from dlcontainer.bench.study.forecast.memory_fit import Reserve
from dlcontainer.bench.study.forecast.memory_records import MemoryQuestion, RankMemory
from dlcontainer.errors import ChecksFailedError, UsageError
from tests.fakes import RecordingRunner, completed

PARTS = ("parameters", "gradients", "optimizer", "activations", "inputs", "temporary")
ROW = dict.fromkeys(PARTS, 10) | {
    "strategy": "fsdp2", "batch": 8, "micro_batches": 1, "stage": 0, "peak": 60, "seconds": 2.5,
}  # fmt: skip
FSDP, TENSOR = ParallelStrategy(fsdp=2), ParallelStrategy(tp=3)


def answer(**more: Any) -> str:
    body = {"schema": "dlcontainer/probe/1", "probe": "memory", "ok": True, **more}
    return json.dumps(body)


def weighed() -> str:
    refused = [{"strategy": "tp3", "why": "its 8 heads can't be divided by 3"}]
    said = {"torch": "2.13.0+cpu", "tried": True, "rows": [ROW], "refused": refused}
    # Longer than a line may be: it comes in pieces.
    return answer(memory=said, stack={"packages": "x" * 20_000})


def native(stdout: str, code: int = 0) -> memory.NativePython:
    runner = RecordingRunner(answers=[completed(stdout=stdout, code=code)])
    return memory.NativePython(python=Path("/opt/bin/python"), runner=runner, environment={})


def question(**more: Any) -> MemoryQuestion:
    return MemoryQuestion(strategies=(FSDP, TENSOR), workload="transformer", **more)


def test_rows_and_refusals() -> None:
    text = f"dlc-memory: fsdp2 (1 of 2)\nnoise {{}}\n{weighed()}\nWarning: at its end"
    told = memory.of(question(batch=8), native(text))
    (row,) = told.rows
    assert (row.strategy, row.peak, row.ranks, told.torch) == (FSDP, 60, 2, "2.13.0+cpu")
    assert [refusal.why for refusal in told.refusals] == ["its 8 heads can't be divided by 3"]
    assert told.of(FSDP) is row
    assert told.of(TENSOR) is None


def test_pieces_of_a_line_are_one_result() -> None:
    text = weighed()
    lines = memory._Lines(tell=lambda _: None)
    for begin in range(0, len(text), 16_384):
        lines.take(text[begin : begin + 16_384])
    assert lines.result() == json.loads(text)


def test_the_words_of_a_question() -> None:
    place = native(weighed())
    memory.of(question(batch=8, optimizer="adamw"), place)
    assert isinstance(place.runner, RecordingRunner)
    (argv,) = place.runner.argvs
    words = "memory --strategies fsdp2,tp3 --device cpu --batch 8 --micro-batches 0"
    words += " --optimizer adamw --precision fp32 --workload transformer"
    assert list(argv[2:]) == words.split()


def test_a_torch_without_the_modules_is_refused_by_name() -> None:
    refusal = {"of": "torch", "what": "PyTorch 1.13.1 is missing FakeStore", "why": "tried with"}
    text = answer(ok=False, error="x", refusal={**refusal, "where": None, "next_step": "take"})
    with pytest.raises(ChecksFailedError, match="missing FakeStore") as failed:
        memory.of(question(), native(text))
    assert (failed.value.why, failed.value.next_step) == ("tried with", "take")


def test_a_script_is_refused_with_its_line(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    refusal = {"of": "script", "what": "build() needs a GPU", "where": f"{script}:3"}
    text = answer(ok=False, error="x", refusal={**refusal, "why": None, "next_step": None})
    asked = MemoryQuestion(strategies=(FSDP,), script=f"{script}:build")
    with pytest.raises(UsageError, match="needs a GPU") as failed:
        memory.of(asked, native(text))
    assert failed.value.where == f"{script}:3"


def test_a_missing_script_starts_nothing(tmp_path: Path) -> None:
    place = native("")
    asked = MemoryQuestion(strategies=(FSDP,), script=f"{tmp_path}/x.py:build")
    with pytest.raises(UsageError, match="is no file"):
        memory.of(asked, place)
    assert isinstance(place.runner, RecordingRunner)
    assert place.runner.argvs == []


@pytest.mark.parametrize("text", ["", "Killed", answer(memory={}), '{"schema": 1}'])
def test_an_answer_that_is_none(text: str) -> None:
    with pytest.raises(ChecksFailedError, match="can't tell the memory of a rank"):
        memory.of(question(), native(text, code=1))


def rank(peak: int) -> RankMemory:
    parts = dict.fromkeys(PARTS, 0)
    return RankMemory(
        strategy=FSDP, batch=1, micro_batches=1, stage=0, seconds=1.0, peak=peak, **parts
    )  # fmt: skip


@pytest.mark.parametrize(
    ("peak", "word"),
    [(85, "fits"), (86, "fits"), (88, "not told"), (91, "not told"), (93, "does not fit")],
)
def test_nearer_than_the_error_it_is_not_told(peak: int, word: str) -> None:
    reserve = Reserve(bytes=5 * 10**9, share=0.06, source="a test")
    fit = memory_fit.judge(rank(peak * 10**9), 100 * 10**9, reserve)
    assert fit.word == word
    assert fit.needed == peak * 10**9 + fit.reserve == fit.limit - fit.spare


@pytest.mark.parametrize(
    ("text", "size"), [("40GB", 40 * 10**9), ("1.5GiB", 3 << 29), ("80 GB", 80 * 10**9)]
)
def test_sizes(text: str, size: int) -> None:
    assert memory_fit.read_size("--memory", text) == size


@pytest.mark.parametrize("text", ["40", "GB", "-1GB", "0GB", "40gb", "4e1GB", "40GB\n"])
def test_a_size_without_its_unit_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no size"):
        memory_fit.read_size("--memory", text)
