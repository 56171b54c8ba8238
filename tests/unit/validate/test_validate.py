"""Validation: the checks in their order, images of other architectures, what ends it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.engines import emulation
from dlcontainer.errors import ChecksFailedError
from dlcontainer.validate import validate as validating
from dlcontainer.validate.checks import CHECKS, ENDING
from dlcontainer.validate.checks.check import CheckOutcome
from dlcontainer.validate.inspected import PROBE, CheckResult, ImageInspection
from tests.fakes import RecordingRunner, completed
from tests.unit.validate.inspecting import (
    IMAGE,
    INSIDE,
    LABELS,
    answers,
    check,
    failed,
    inspected,
    said,
)


def test_a_good_image(image: Path) -> None:
    runner = RecordingRunner(answers(), strict=True)
    checks = check(image, runner, arch="x86_64")
    assert list(checks) == [
        *("architecture", "record", "labels", "site", "files", "runs", "machine", "python"),
        "manifest",
        *("import torch", "host stays out", "no leftovers", "verify"),
    ]
    assert failed(checks) == {}
    assert checks["verify"].detail == "30 training steps: loss_last 0.5"
    validating.require_ok(list(checks.values()))
    for call in runner.calls[1:]:
        assert {"--cleanenv", "--containall", "--no-home", "--userns"} <= set(call.argv)
        assert ("PYTHONNOUSERSITE=1" in call.argv, call.timeout) == (True, 600.0)
    assert runner.calls[1].stdin == PROBE.read_text()
    assert runner.argvs[1][-1] == "sh"
    assert runner.argvs[2][-2:] == ("/opt/demo/bin/python", "/opt/dlcontainer/verify.py")


def test_the_proofs_of_recipes_below_run_first(image: Path) -> None:
    path = image.with_suffix(".json")
    body = json.loads(path.read_text())
    below = [{"recipe": name, "script": "verify.py"} for name in ("lowest", "below")]
    body["content"]["recipe"]["verify"]["before"] = below
    path.write_text(json.dumps(body))
    no = completed("x", code=1, stdout='{"ok": false}\n')
    *before, own = answers()
    runner = RecordingRunner([*before, own, no, own], strict=True)
    checks = check(image, runner, arch="x86_64")
    assert list(checks)[-3:] == ["verify lowest", "verify below", "verify"]
    assert [argv[-1] for argv in runner.argvs[2:]] == [
        f"/opt/dlcontainer/verify{name}.py" for name in ("-lowest", "-below", "")
    ]
    assert list(failed(checks)) == ["verify below"]
    assert checks["verify lowest"].detail == "30 training steps: loss_last 0.5"


def test_another_architecture_ends_it(image: Path) -> None:
    checks = check(image, RecordingRunner(strict=True), arch="ppc64le")
    assert failed(checks) == {"architecture": "x86_64, wanted ppc64le"}


def test_an_image_that_is_emulated(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulation, "obstacle", lambda arch: None)
    inside = {**INSIDE, "machine": "ppc64le"}
    runner = RecordingRunner(answers(inside=said(inside)), strict=True)
    checks = check(foreign, runner, arch="ppc64le")
    assert failed(checks) == {}
    assert checks["runs"].detail == "engine mode userns, emulated by qemu as power9"
    assert checks["verify"].detail.endswith("loss_last 0.5, emulated by qemu as power9")
    for call in runner.calls[1:]:
        assert ("QEMU_CPU=power9" in call.argv, call.timeout) == (True, 3600.0)
    # The probe is told which variable is not the host's.
    assert runner.argvs[1][-2:] == ("sh", "QEMU_CPU")


def test_an_image_that_can_not_be_emulated(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulation, "obstacle", lambda arch: ("no qemu", "a line"))
    runner = RecordingRunner([inspected(LABELS)], strict=True)
    wrong = failed(check(foreign, runner, arch="ppc64le"))
    assert wrong == {"runs": "no ppc64le program runs here: no qemu; root runs once: a line"}


def test_a_foreign_image_needs_its_site(foreign: Path) -> None:
    wrong = failed(check(foreign, RecordingRunner(strict=True)))
    assert list(wrong) == ["architecture"]
    assert wrong["architecture"].endswith(
        "wanted x86_64; if the image is for another site: --site SITE"
    )


def test_no_image(tmp_path: Path) -> None:
    (tmp_path / "x.sif").write_text("#!/bin/sh\n")
    with pytest.raises(ChecksFailedError, match="is not a SIF image"):
        check(tmp_path / "x.sif", RecordingRunner(strict=True))


def test_failed_checks_are_named() -> None:
    checks = [
        CheckResult(name=name, ok=name == "b", detail="", state="ok" if name == "b" else "failed")
        for name in "abc"
    ]
    with pytest.raises(ChecksFailedError, match=r"^2 of 3 checks failed: a, c") as caught:
        validating.require_ok(checks)
    assert caught.value.exit_code == 1
    assert caught.value.next_step == "read the lines marked FAILED above"


def test_the_next_step_is_the_first_failure_s() -> None:
    """What fails behind it may follow from it."""
    checks = [
        CheckResult(name=name, ok=False, detail="", state="failed", next_step=f"do {name}")
        for name in ("record", "labels")
    ]
    with pytest.raises(ChecksFailedError) as caught:
        validating.require_ok(checks[:1])
    assert caught.value.next_step == "do record"
    with pytest.raises(ChecksFailedError) as caught:
        validating.require_ok(checks)
    assert caught.value.next_step == "do record (record; then validate again)"


def test_a_new_check_is_a_line_of_the_table(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def size(inspected: ImageInspection) -> Iterator[CheckOutcome]:
        detail = f"{inspected.arch}, {inspected.image.stat().st_size} bytes"
        yield CheckOutcome(ok=False, detail=detail, next_step="pack it again")
        # What was asked before is not asked again: the runner has no further answer.
        yield CheckOutcome(ok=True, detail=str(inspected.inside["python"]), of="again")

    monkeypatch.setitem(CHECKS, "size", size)
    checks = check(image, RecordingRunner(answers(), strict=True))
    assert list(checks)[-2:] == ["size", "size again"]
    assert failed(checks) == {"size": f"x86_64, {len(IMAGE)} bytes"}
    assert checks["size again"].detail == "3.11.2"


def test_what_ends_a_validation_is_a_check() -> None:
    assert set(CHECKS) > ENDING
