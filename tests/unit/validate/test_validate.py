"""Validation: every check holds, and fails in its own way."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.engines import emulation
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.errors import ChecksFailedError
from dlcontainer.system.process import CommandTimeoutError, Completed
from dlcontainer.validate import validate as validating
from dlcontainer.validate.checks import CHECKS, ENDING
from dlcontainer.validate.checks.base import Answer
from dlcontainer.validate.inspected import PROBE, Check, Inspected, Inspector
from tests.fakes import RecordingRunner, completed
from tests.values import CONTENT, HOST, TRIAL, site_of

IMAGE = b"\0" * 32 + b"SIF_MAGIC\0" + b"01\0" + b"02\0" + bytes(80)
DIGEST = "ab" * 32
INSIDE: dict[str, Any] = {
    "schema": "dlcontainer/inside/1",
    "machine": "x86_64",
    "python": "3.11.2",
    "interpreter": "/opt/demo/bin/python",
    "prefix": "/opt/demo",
    "sys_prefix": "/opt/demo",
    "packages": "/usr/lib/python3/dist-packages",
    "digest": DIGEST,
    "verify": "/opt/dlcontainer/verify.py",
    "leaks": [],
    "leftovers": [],
    "imports": [
        {
            "module": "torch",
            "wanted": "2.0",
            "version": "2.0",
            "file": "/opt/demo/lib/torch.py",
            "error": "",
        }
    ],
}
LABELS = {
    "org.dlcontainer.digest": f"sha256:{DIGEST}",
    "org.opencontainers.image.title": "demo",
    "org.opencontainers.image.version": "1.0",
}
VERIFY = {"ok": True, "what": "30 training steps", "loss_last": 0.5}


def said(body: object) -> Completed:
    return completed("x", stdout=json.dumps(body) + "\n")


def inspected(labels: object) -> Completed:
    return said({"data": {"attributes": {"labels": labels}}})


def answers(**changes: Completed | Exception) -> list[Completed | Exception]:
    given = {
        "labels": inspected(LABELS),
        "inside": said(INSIDE),
        "verify": completed("x", stdout="warming up\n" + json.dumps(VERIFY) + "\n"),
    }
    return list({**given, **changes}.values())


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "it's an image.sif"
    path.write_bytes(IMAGE)
    body = {
        "schema": "dlcontainer/record/1",
        "image": {"sha256": hashlib.sha256(IMAGE).hexdigest(), "size": len(IMAGE)},
        "digest": DIGEST,
        "content": CONTENT,
    }
    path.with_suffix(".json").write_text(json.dumps(body))
    return path


def check(image: Path, runner: RecordingRunner, **site: Any) -> dict[str, Check]:
    seen: list[Check] = []
    inspector = Inspector(
        engine=Apptainer(program=Path("/opt/apptainer")),
        trial=TRIAL,
        host=HOST,
        runner=runner,
        on_check=seen.append,
    )
    wanted = site_of(**site).value if site else None
    assert validating.validate(image, wanted, inspector) == seen
    return {one.name: one for one in seen}


def failed(checks: dict[str, Check]) -> dict[str, str]:
    return {name: one.detail for name, one in checks.items() if not one.ok}


def test_a_good_image(image: Path) -> None:
    runner = RecordingRunner(answers(), strict=True)
    checks = check(image, runner, arch="x86_64")
    assert list(checks) == [
        *("architecture", "record", "labels", "runs", "machine", "python", "manifest"),
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


def test_another_architecture_ends_it(image: Path) -> None:
    checks = check(image, RecordingRunner(strict=True), arch="ppc64le")
    assert failed(checks) == {"architecture": "x86_64, wanted ppc64le"}


FOREIGN = IMAGE.replace(b"02\0", b"06\0")


@pytest.fixture
def foreign(image: Path) -> Path:
    """Make it an image for ppc64le."""
    image.write_bytes(FOREIGN)
    body = json.loads(image.with_suffix(".json").read_text())
    body["image"] = {"sha256": hashlib.sha256(FOREIGN).hexdigest(), "size": len(FOREIGN)}
    image.with_suffix(".json").write_text(json.dumps(body))
    return image


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
    assert wrong == {"runs": "no ppc64le program runs here: no qemu; root types once: a line"}


def test_a_foreign_image_needs_its_site(foreign: Path) -> None:
    wrong = failed(check(foreign, RecordingRunner(strict=True)))
    assert list(wrong) == ["architecture"]
    assert wrong["architecture"].endswith("wanted x86_64; for another site's image name it: --site")


def test_packages_of_the_distribution(image: Path) -> None:
    """A recipe may put them on its path; what lies beside that folder is not meant."""
    for place, ok in (("dist-packages", True), ("dist-packages-2", False)):
        entry = {**INSIDE["imports"][0], "file": f"/usr/lib/python3/{place}/torch/__init__.py"}
        runner = RecordingRunner(answers(inside=said({**INSIDE, "imports": [entry]})), strict=True)
        assert check(image, runner)["import torch"].ok is ok


def test_no_image(tmp_path: Path) -> None:
    (tmp_path / "x.sif").write_text("#!/bin/sh\n")
    with pytest.raises(ChecksFailedError, match="is not a SIF image"):
        check(tmp_path / "x.sif", RecordingRunner(strict=True))


def test_no_record(image: Path) -> None:
    image.with_suffix(".json").unlink()
    checks = check(image, RecordingRunner(answers(), strict=True))
    assert failed(checks) == {"record": "no it's an image.json beside the image"}
    assert "manifest" not in checks


def test_an_image_that_is_not_the_records(image: Path) -> None:
    with image.open("ab") as file:
        file.write(b"one byte more")
    wrong = failed(check(image, RecordingRunner(answers(), strict=True)))
    assert list(wrong) == ["record"]
    assert "is not the record's" in wrong["record"]


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (inspected({}), "no digest: not an image of dlcontainer"),
        (inspected(None), "no digest: not an image of dlcontainer"),
        (
            inspected({**LABELS, "org.dlcontainer.digest": "sha256:" + "c" * 64}),
            "is not the record's",
        ),
        (completed("x", code=255), "the engine could not read them: `x` ended with exit code 255"),
        (completed("x", stdout="not JSON"), "the engine could not read them"),
        (said({"data": {}}), "the engine could not read them"),
    ],
)
def test_labels(image: Path, answer: Completed, detail: str) -> None:
    wrong = failed(check(image, RecordingRunner(answers(labels=answer), strict=True)))
    assert list(wrong) == ["labels"]
    assert detail in wrong["labels"]


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (completed("x", code=255, stderr="INFO: a\nFATAL: no loop devices\n\n"), "FATAL: no loop"),
        (completed("x", code=1), "`x` ended with exit code 1"),
        (completed("x", stdout="sitecustomize says hello\n"), "Expecting value"),
        (said([]), "did not answer as the probe does"),
        (said(3), "did not answer as the probe does"),
        (said({"machine": "x86_64"}), "did not answer as the probe does"),
        (CommandTimeoutError(completed("x"), 600), "did not end within 600 s"),
    ],
)
def test_an_image_that_does_not_run(
    image: Path, answer: Completed | Exception, detail: str
) -> None:
    runner = RecordingRunner([inspected(LABELS), answer], strict=True)
    wrong = failed(check(image, runner))
    assert list(wrong) == ["runs"]
    assert detail in wrong["runs"]


ENTRY = INSIDE["imports"][0]


@pytest.mark.parametrize(
    ("changes", "name", "detail"),
    [
        ({"machine": "aarch64"}, "machine", "aarch64 inside"),
        ({"sys_prefix": "/usr"}, "python", "3.11.2 in /usr"),
        ({"digest": "c" * 64}, "manifest", "plan cccccccccccc…"),
        (
            {"imports": [{**ENTRY, "version": "1.9"}]},
            "import torch",
            "1.9 from /opt/demo/lib/torch.py, wanted 2.0",
        ),
        (
            {"imports": [{**ENTRY, "file": "/home/ada/.local/torch.py"}]},
            "import torch",
            "2.0 from /home/ada/.local/torch.py",
        ),
        (
            {"imports": [{**ENTRY, "version": "", "error": "ImportError: x"}]},
            "import torch",
            "ImportError: x, wanted 2.0",
        ),
        (
            {"leaks": ["variable LD_PRELOAD", "user site /x"]},
            "host stays out",
            "variable LD_PRELOAD, user site /x",
        ),
        ({"leftovers": ["/mnt/routing.sh"]}, "no leftovers", "/mnt/routing.sh"),
    ],
)
def test_what_is_seen_inside(image: Path, changes: dict[str, Any], name: str, detail: str) -> None:
    runner = RecordingRunner(answers(inside=said({**INSIDE, **changes})), strict=True)
    assert failed(check(image, runner)) == {name: detail}


NO_OBJECT = "the script printed no JSON object with 'ok' and 'what'"


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (said({**VERIFY, "ok": False}), "30 training steps: loss_last 0.5"),
        (said({**VERIFY, "ok": 1}), "30 training steps: loss_last 0.5"),
        (completed("x"), NO_OBJECT),
        (said([]), NO_OBJECT),
        (said({"ok": True}), NO_OBJECT),
        (completed("x", stdout="done\n"), NO_OBJECT),
        (
            completed("x", code=1, stderr="Traceback\nRuntimeError: it's broken\n"),
            "RuntimeError: it's",
        ),
        (completed("x", code=-9), "was ended by signal 9"),
        (CommandTimeoutError(completed("x"), 600), "did not end within 600 s"),
    ],
)
def test_the_verify_script(image: Path, answer: Completed | Exception, detail: str) -> None:
    wrong = failed(check(image, RecordingRunner(answers(verify=answer), strict=True)))
    assert list(wrong) == ["verify"]
    assert detail in wrong["verify"]


def test_failed_checks_are_named() -> None:
    checks = [Check(name=name, ok=name == "b", detail="") for name in "abc"]
    with pytest.raises(ChecksFailedError, match=r"^2 of 3 checks failed: a, c") as caught:
        validating.require_ok(checks)
    assert caught.value.exit_code == 1


def test_a_new_check_is_a_line_of_the_table(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def size(inspected: Inspected) -> Iterator[Answer]:
        yield Answer(ok=False, detail=f"{inspected.arch}, {inspected.image.stat().st_size} bytes")
        # What was asked before is not asked again: the runner has no further answer.
        yield Answer(ok=True, detail=str(inspected.inside["python"]), of="again")

    monkeypatch.setitem(CHECKS, "size", size)
    checks = check(image, RecordingRunner(answers(), strict=True))
    assert list(checks)[-2:] == ["size", "size again"]
    assert failed(checks) == {"size": f"x86_64, {len(IMAGE)} bytes"}
    assert checks["size again"].detail == "3.11.2"


def test_what_ends_a_validation_is_a_check() -> None:
    assert set(CHECKS) > ENDING


def test_the_site_s_accelerators_are_let_in(image: Path) -> None:
    for flags, given in ((["--nv"], True), ([], False)):
        runner = RecordingRunner(answers(), strict=True)
        gpu = {"vendor": "nvidia", "model": "X", "per_node": 4}
        check(image, runner, accelerator=gpu, jobs={"flags": flags})
        # This machine has no device: the flag is the site's own word.
        if given or not Path("/dev/nvidiactl").exists():
            assert {"--nv" in call.argv for call in runner.calls[1:]} == {given}
