"""The memory probe where PyTorch's private modules go another way: a refusal by name."""

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest


def run(probe: Any, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """Weigh with a PyTorch whose private modules are there, and fail."""
    torch = SimpleNamespace(__version__=version, set_num_threads=lambda _count: None)
    monkeypatch.setitem(sys.modules, "torch", torch)

    def fail(*_arguments: object) -> None:
        raise NotImplementedError("c10d._allgather_base_")

    class NeverError(Exception):
        """Nothing raises it."""

    step = SimpleNamespace(row=fail, StrategyError=NeverError)
    monkeypatch.setitem(sys.modules, "memory_step", step)
    monkeypatch.setitem(sys.modules, "memory_build", SimpleNamespace(ScriptError=NeverError))
    monkeypatch.setattr(probe("memory_torch"), "missing", lambda: "")
    probe("probe_memory").run(["--strategies", "fsdp2", "--workload", "convnet"], {})


def test_a_version_that_was_not_tried_is_refused_with_what_failed(
    probe: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(probe, monkeypatch, "2.7.1+cpu")
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert not answer["ok"]
    refusal = answer["refusal"]
    assert "PyTorch 2.7.1+cpu can't tell memory without a device" in refusal["what"]
    assert "fsdp2: NotImplementedError: c10d._allgather_base_" in refusal["what"]
    assert "tried with 2.11, 2.13" in refusal["why"]
    assert "dlcontainer bench train" in refusal["next_step"]


def test_a_fault_with_a_version_that_was_tried_is_ours(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotImplementedError, match="allgather"):
        run(probe, monkeypatch, "2.13.0+cpu")
