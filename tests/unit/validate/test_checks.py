"""Each check of `validate` fails in its own way."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.system.process import CommandTimeoutError, CompletedCommand
from tests.fakes import RecordingRunner, completed
from tests.unit.validate.inspecting import (
    INSIDE,
    LABELS,
    VERIFY,
    answers,
    check,
    failed,
    inspected,
    kept_apart,
    said,
)


def test_packages_of_the_distribution(image: Path) -> None:
    """A recipe may put them on its path; what lies beside that folder is not meant."""
    for place, ok in (("dist-packages", True), ("dist-packages-2", False)):
        entry = {**INSIDE["imports"][0], "file": f"/usr/lib/python3/{place}/torch/__init__.py"}
        runner = RecordingRunner(answers(inside=said({**INSIDE, "imports": [entry]})), strict=True)
        assert check(image, runner)["import torch"].ok is ok


def test_no_record(image: Path) -> None:
    image.with_suffix(".json").unlink()
    checks = check(image, RecordingRunner(kept_apart(), strict=True))
    assert failed(checks) == {"record": "no it's an image.json beside the image"}
    assert "manifest" not in checks


def test_an_image_that_is_not_the_records(image: Path) -> None:
    with image.open("ab") as file:
        file.write(b"one byte more")
    wrong = failed(check(image, RecordingRunner(kept_apart(), strict=True)))
    assert list(wrong) == ["record"]
    assert "is not the record's" in wrong["record"]


@pytest.mark.parametrize("lost", [True, False])
def test_what_nobody_vouches_for_sees_nothing_of_this_host(image: Path, lost: bool) -> None:
    """A stranger's image without a record, or beside the record of another image."""
    if lost:
        image.with_suffix(".json").unlink()
    else:
        image.write_bytes(image.read_bytes() + b"x")
    runner = RecordingRunner(kept_apart(), strict=True)
    assert check(image, runner)["contained"].ok
    for call in runner.calls[1:]:
        assert {"--containall", "--no-privs", "none"} <= set(call.argv)


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (inspected({}), "no digest: not an image of dlcontainer"),
        (inspected(None), "no digest: not an image of dlcontainer"),
        (
            inspected({**LABELS, "org.dlcontainer.digest": "sha256:" + "c" * 64}),
            "is not the record's",
        ),
        (
            completed("x", code=255),
            "the engine could not read the image's labels: `x` ended with exit code 255",
        ),
        (completed("x", stdout="not JSON"), "the engine could not read the image's labels"),
        (said({"data": {}}), "the engine could not read the image's labels"),
    ],
)
def test_labels(image: Path, answer: CompletedCommand, detail: str) -> None:
    wrong = failed(check(image, RecordingRunner(answers(labels=answer), strict=True)))
    assert list(wrong) == ["labels"]
    assert detail in wrong["labels"]


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (completed("x", code=255, stderr="INFO: a\nFATAL: no loop devices\n\n"), "FATAL: no loop"),
        (completed("x", code=1), "`x` ended with exit code 1"),
        (completed("x", stdout="sitecustomize says hello\n"), "Expecting value"),
        (said([]), "did not print the probe's answer"),
        (said(3), "did not print the probe's answer"),
        (said({"machine": "x86_64"}), "did not print the probe's answer"),
        (CommandTimeoutError(completed("x"), 600), "did not end within 600 s"),
    ],
)
def test_an_image_that_does_not_run(
    image: Path, answer: CompletedCommand | Exception, detail: str
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
        (
            {"pack": {"error": "wrong magic or size", "folders": 9, "fresh": 0}},
            "pack",
            "wrong magic or size",
        ),
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
def test_the_verify_script(image: Path, answer: CompletedCommand | Exception, detail: str) -> None:
    wrong = failed(check(image, RecordingRunner(answers(verify=answer), strict=True)))
    assert list(wrong) == ["verify"]
    assert detail in wrong["verify"]


def test_an_image_that_was_built_by_hand(image: Path) -> None:
    """The engine alone made it from a rendered text: no record, and nothing of `build` inside."""
    image.with_suffix(".json").unlink()
    inside = said({**INSIDE, "provenance": False})
    checks = check(image, RecordingRunner(kept_apart(inside=inside), strict=True))
    assert [name for name, one in checks.items() if one.state == "failed"] == []
    assert checks["record"].state == "not tried"
    assert checks["record"].detail == (
        "no it's an image.json beside the image: built by hand from a rendered text"
    )
    assert checks["manifest"].ok


@pytest.mark.parametrize("changes", [{"provenance": True}, {}])
def test_an_image_that_lost_its_record(image: Path, changes: dict[str, bool]) -> None:
    image.with_suffix(".json").unlink()
    inside = said({**INSIDE, **changes})
    checks = check(image, RecordingRunner(kept_apart(inside=inside), strict=True))
    assert checks["record"].state == "failed"


def test_a_label_that_names_another_plan_than_the_manifest(image: Path) -> None:
    image.with_suffix(".json").unlink()
    inside = said({**INSIDE, "provenance": False, "digest": "c" * 64})
    wrong = failed(check(image, RecordingRunner(kept_apart(inside=inside), strict=True)))
    assert wrong["manifest"].endswith("is not the label's")
