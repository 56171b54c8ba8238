"""The check of this host's accelerators: ok, failed, not tried; none at a site of CPUs."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import ChecksFailedError
from dlcontainer.system.process import CompletedCommand
from dlcontainer.validate import validate as validating
from dlcontainer.validate.inspected import ValidateContext
from tests.fakes import RecordingRunner, completed
from tests.unit.validate.inspecting import answers, check, said
from tests.values import execution_of, site_of

GPU_SITE: dict[str, Any] = {
    "arch": "x86_64",
    "accelerator": {
        "vendor": "nvidia",
        "model": "NVIDIA A100",
        "per_node": 2,
        "sources": ["s"],
        "remembered": ["vendor", "model", "per_node"],
    },
    "sources": {"s": "a page"},
}


def devices(state: str, detail: str) -> CompletedCommand:
    return said({"schema": "dlcontainer/devices/1", "state": state, "detail": detail})


def test_devices_that_train_as_the_cpu_does(image: Path) -> None:
    runner = RecordingRunner(answers(devices=devices("ok", "2 of 2 devices")), strict=True)
    found = check(image, runner, **GPU_SITE)
    assert (found["devices"].state, found["devices"].detail) == ("ok", "2 of 2 devices")
    assert runner.argvs[-1][-3:] == (
        "/opt/demo/bin/python",
        "/opt/dlcontainer/probe",
        "devices",
    )


def test_no_device_here_is_not_tried_and_no_failure(image: Path) -> None:
    runner = RecordingRunner(answers(devices=devices("not tried", "torch sees no device")))
    found = check(image, runner, **GPU_SITE)
    assert (found["devices"].ok, found["devices"].state) == (False, "not tried")
    validating.require_ok(list(found.values()))


@pytest.mark.parametrize(
    ("printed", "detail"),
    [
        (devices("failed", "device 1 (A): losses 2.0e-01 from"), "device 1 (A): losses"),
        (completed("x", stdout="no object\n"), "printed no JSON object with 'state'"),
        (completed("x", code=1, stderr="Segmentation fault\n"), "Segmentation fault"),
    ],
)
def test_devices_that_fail(image: Path, printed: CompletedCommand, detail: str) -> None:
    found = check(image, RecordingRunner(answers(devices=printed)), **GPU_SITE)
    assert found["devices"].state == "failed"
    assert detail in found["devices"].detail
    with pytest.raises(ChecksFailedError, match="devices"):
        validating.require_ok(list(found.values()))


def test_an_image_from_before_the_check_is_not_tried(image: Path) -> None:
    older = completed("x", code=1, stderr="usage: probe NAME [OPTION...]; NAME is one of: import\n")
    found = check(image, RecordingRunner(answers(devices=older)), **GPU_SITE)
    assert found["devices"].state == "not tried"
    assert "older than this check" in found["devices"].detail


def test_an_image_without_a_known_framework_is_not_tried(image: Path) -> None:
    """An image of JAX or NumPy, built by an earlier dlcontainer: its probe ends with an error."""
    said = completed("x", code=1, stderr="no framework here: torch, tensorflow, mxnet, caffe\n")
    found = check(image, RecordingRunner(answers(devices=said)), **GPU_SITE)
    assert found["devices"].state == "not tried"
    assert found["devices"].detail.startswith("no framework here: torch, ")
    validating.require_ok(list(found.values()))


def test_the_sites_own_word_lets_accelerators_in(image: Path) -> None:
    runner = RecordingRunner(answers(devices=devices("ok", "2 of 2")), strict=True)
    context = ValidateContext(execution=execution_of(image.parent, runner), on_check=lambda _: None)
    site = site_of(**GPU_SITE, jobs={"flags": ["--nv"]}).value
    validating.validate(image, site, context)
    assert ["--nv" in argv for argv in runner.argvs] == [False, True, True, True]
