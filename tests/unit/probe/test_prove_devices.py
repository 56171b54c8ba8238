"""Devices are held against the CPU: right, wrong, busy, hidden and absent ones."""

import importlib
import json
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dlcontainer.config.resources import PROBE

CPU = [0.9, 0.6, 0.4, 0.3, 0.25]


@pytest.fixture
def prove_devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(PROBE)
    yield importlib.import_module("prove_devices")
    sys.modules.pop("prove_devices", None)


def proved(prove_devices: Any, monkeypatch: pytest.MonkeyPatch, *each: Any, own: Any = None) -> Any:
    """Prove devices that give these losses, or raise these errors."""

    class Devices:
        def names(self) -> list[str]:
            return ["GPU A"] * len(each)

        def losses(self, index: int | None, steps: int) -> list[float]:
            given = CPU if index is None else each[index]
            if isinstance(given, Exception):
                raise given
            return list(given[:steps])

    monkeypatch.setitem(sys.modules, "devices_torch", SimpleNamespace(Devices=Devices))
    for name in prove_devices.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return prove_devices.proved("torch", own)


def test_no_device_is_not_tried_and_never_ok(
    prove_devices: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = proved(prove_devices, monkeypatch)
    assert (found["state"], found["detail"]) == ("not tried", "torch sees no device")


def test_what_hides_devices_is_named(prove_devices: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = proved(prove_devices, monkeypatch)
    found["variables"] = {"CUDA_VISIBLE_DEVICES": ""}
    state, detail = prove_devices.judged(found)
    assert (state, detail) == ("not tried", "torch sees no device; CUDA_VISIBLE_DEVICES=''")


def test_every_device_is_tried(prove_devices: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = proved(prove_devices, monkeypatch, [loss * 1.0001 for loss in CPU], CPU)
    assert (found["state"], found["count"]) == ("ok", 2)
    assert [entry["index"] for entry in found["devices"]] == [0, 1]
    assert found["detail"].startswith("2 of 2 devices trained as the CPU does (losses 1.0e-04")
    assert found["detail"].endswith(": 2 x GPU A")


def test_a_rank_can_try_its_own_alone(prove_devices: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = proved(prove_devices, monkeypatch, CPU, CPU, own=3)
    assert [entry["index"] for entry in found["devices"]] == [1]


@pytest.mark.parametrize(
    "losses",
    [
        [loss * 1.001 for loss in CPU],  # as bfloat16 rounds
        [0.9] * 5,  # does not train
        [float("nan")] * 5,
        [0.0] * 5,
        CPU[:4],
    ],
)
def test_one_device_that_computes_otherwise_fails(
    prove_devices: Any, monkeypatch: pytest.MonkeyPatch, losses: list[float]
) -> None:
    found = proved(prove_devices, monkeypatch, CPU, losses)
    assert found["state"] == "failed"
    assert found["detail"].startswith("device 1 (GPU A): losses ")


def test_a_busy_device_says_why(prove_devices: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # PyTorch's words on a device in exclusive-process mode: modelscope/ms-swift issue 5118.
    error = RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable\nmore")
    found = proved(prove_devices, monkeypatch, error)
    assert found["state"] == "failed"
    assert "exclusive-process mode a device takes one rank" in found["detail"]
    assert "more" not in found["detail"]


def test_a_cpu_that_does_not_train_proves_nothing(
    prove_devices: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "CPU", [0.9] * 5)
    found = proved(prove_devices, monkeypatch, [0.9] * 5)
    assert found["state"] == "failed"
    assert "the CPU's own losses do not move" in found["detail"]


def test_a_recipes_proof_hears_of_an_error(
    prove_devices: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "devices_torch", SimpleNamespace())
    state, detail = prove_devices.line("torch")
    assert state == "failed"
    assert "Devices" in detail


def test_each_framework_has_a_file(prove_devices: Any) -> None:
    files = {path.stem for path in PROBE.glob("devices_*.py")}
    assert files == {f"devices_{name}" for name in prove_devices.FRAMEWORKS}


def test_no_known_framework_is_an_answer_and_no_error(
    probe: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = probe("probe_devices")
    monkeypatch.setattr(asked.prove_devices, "present", lambda: None)
    asked.run([], None)
    said = json.loads(capsys.readouterr().out)
    assert (said["schema"], said["state"], said["framework"]) == (
        "dlcontainer/devices/1",
        "not tried",
        None,
    )
    assert said["detail"].endswith("torch, tensorflow, mxnet, jax, caffe")
