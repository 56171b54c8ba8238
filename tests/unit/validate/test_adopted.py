"""Validation of images that somebody else built: kept apart until they are trusted."""

import json
from pathlib import Path
from typing import Any

from dlcontainer.system.process import CommandTimeoutError
from tests.fakes import RecordingRunner, completed
from tests.unit.validate.inspecting import INSIDE, LABELS, check, inspected, said

ADOPTED = {
    "site": "demo",
    "adopted": {
        "name": "vendor",
        "version": "24.1",
        "summary": "Somebody else's",
        "source": f"docker://registry.example.org/vendor@sha256:{'cd' * 32}",
        "digest": f"sha256:{'cd' * 32}",
        "python": "/opt/demo/bin/python",
        "prefix": "/opt/demo",
        "exposes": ["python"],
        "verify": {"imports": {}},
    },
}


def adopted(image: Path, **more: Any) -> None:
    """Make the image's record that of an adopted one."""
    path = image.with_suffix(".json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"content": ADOPTED} | more))


def test_an_adopted_image_is_contained_and_its_recipe_unknown(image: Path) -> None:
    adopted(image)
    runner = RecordingRunner([inspected(LABELS), completed("x"), said(INSIDE)])
    seen = check(image, runner)
    assert seen["contained"].state == "ok"
    assert (seen["verify"].ok, seen["verify"].state) == (False, "not tried")
    assert seen["no leftovers"].state == "not tried"
    for call in runner.calls[1:]:
        assert {"--containall", "--no-privs", "none"} <= set(call.argv)


def test_an_engine_that_cant_take_the_network_away(image: Path) -> None:
    adopted(image)
    fails = CommandTimeoutError(completed("x"), 1)
    runner = RecordingRunner([inspected(LABELS), fails, said(INSIDE)])
    seen = check(image, runner)
    assert seen["contained"].state == "not tried"
    assert "--network" not in runner.calls[-1].argv
    assert "--no-privs" in runner.calls[-1].argv


def test_a_trusted_image_runs_as_any_other(image: Path) -> None:
    sha256 = json.loads(image.with_suffix(".json").read_text())["image"]["sha256"]
    adopted(image, trust={"by": "ada", "sha256": sha256, "at": "2026-01-01T00:00:00Z"})
    runner = RecordingRunner([inspected(LABELS), said(INSIDE)])
    assert "contained" not in check(image, runner)
    assert "--no-privs" not in runner.calls[-1].argv


def test_trust_in_another_image_is_none(image: Path) -> None:
    adopted(image, trust={"by": "ada", "sha256": "0" * 64, "at": "2026-01-01T00:00:00Z"})
    runner = RecordingRunner([inspected(LABELS), completed("x"), said(INSIDE)])
    assert check(image, runner)["contained"].state == "ok"
