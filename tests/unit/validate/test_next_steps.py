"""Each cause has a next step of its own: what to type, copy or correct."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.system.process import CommandTimeoutError
from tests.fakes import RecordingRunner, completed
from tests.unit.validate.inspecting import (
    DIGEST,
    INSIDE,
    LABELS,
    VERIFY,
    answers,
    check,
    inspected,
    kept_apart,
    said,
)

ENTRY = INSIDE["imports"][0]
GPU = {
    "vendor": "nvidia",
    "model": "NVIDIA A100",
    "per_node": 4,
    "remembered": ["vendor", "model", "per_node"],
}
OTHER_LABEL = {**LABELS, "org.dlcontainer.digest": "sha256:" + "c" * 64}


def steps(image: Path, site: dict[str, Any] | None = None, **changes: Any) -> dict[str, str]:
    """Give the next step of each check that fails."""
    runner = RecordingRunner(answers(**changes))
    return {
        name: one.next_step
        for name, one in check(image, runner, **(site or {})).items()
        if one.state == "failed"
    }


def change_record(image: Path, **changes: Any) -> None:
    path = image.with_suffix(".json")
    body = json.loads(path.read_text())
    body["content"].update(changes)
    path.write_text(json.dumps(body))


def lose_record(image: Path) -> None:
    image.with_suffix(".json").unlink()


def grow(image: Path) -> None:
    image.write_bytes(image.read_bytes() + b"more")


@pytest.mark.parametrize(
    ("spoil", "name", "step"),
    [
        (
            lose_record,
            "record",
            "save its record beside it as it's an image.json: who built the image has it",
        ),
        (grow, "record", "copy the image and it's an image.json again"),
    ],
)
def test_files(image: Path, spoil: Callable[[Path], None], name: str, step: str) -> None:
    spoil(image)
    assert steps(image)[name].startswith(step)


@pytest.mark.parametrize(
    ("site", "step"),
    [
        ({"arch": "ppc64le"}, "build it for this site: dlcontainer build demo --site demo"),
        (None, "--site demo"),
    ],
)
def test_another_architecture(foreign: Path, site: dict[str, Any] | None, step: str) -> None:
    arch = {"arch": "aarch64"} if site else None
    found = steps(foreign, arch)
    assert list(found) == ["architecture"]
    assert step in found["architecture"]


@pytest.mark.parametrize(
    ("changes", "name", "step"),
    [
        ({"labels": inspected({})}, "labels", "dlcontainer adopt "),
        ({"labels": inspected(OTHER_LABEL)}, "labels", "image.json is another image's: copy"),
        ({"labels": completed("x", code=255)}, "labels", "dlcontainer doctor"),
        (
            {"inside": completed("x", code=255, stderr="FATAL: no loop devices\n")},
            "runs",
            "check that the engine runs images on this host: dlcontainer doctor",
        ),
        (
            {"inside": completed("x", code=127, stderr="sh: python: not found\n")},
            "runs",
            "the image was changed after the build",
        ),
        (
            {"inside": completed("x", stdout="hello\n")},
            "runs",
            "remove the output that appears whenever",
        ),
        ({"inside": CommandTimeoutError(completed("x"), 600)}, "runs", "on an idle machine"),
        ({"verify": completed("x")}, "verify", "let the recipe's verify.script print"),
        ({"verify": said({**VERIFY, "ok": False})}, "verify", "read the recipe's verify.script"),
        (
            {"verify": completed("x", code=1, stderr="no luck\n")},
            "verify",
            "see its full output: apptainer exec ",
        ),
    ],
)
def test_engine_and_scripts(image: Path, changes: dict[str, Any], name: str, step: str) -> None:
    assert step in steps(image, **changes)[name]


@pytest.mark.parametrize(
    ("changes", "name", "step"),
    [
        ({"machine": "aarch64"}, "machine", "its programs are not for"),
        ({"sys_prefix": "/usr"}, "python", "create the environment in its prefix, /opt/demo"),
        ({"digest": "c" * 64}, "manifest", "image.json is another image's: copy"),
        (
            {"imports": [{**ENTRY, "version": "1.9"}]},
            "import torch",
            "pin torch 2.0 in the recipe's steps",
        ),
        (
            {"imports": [{**ENTRY, "version": "", "error": "ImportError: x"}]},
            "import torch",
            "install torch and its dependencies in a step of the recipe",
        ),
        (
            {"imports": [{**ENTRY, "file": "/srv/torch.py"}]},
            "import torch",
            "another torch comes first in sys.path",
        ),
        ({"leaks": ["variable X"]}, "host stays out", "from the engine's settings"),
        ({"leftovers": ["/etc/pip.conf"]}, "no leftovers", "remove them in the recipe step"),
        (
            {"pack": {"error": "wrong size", "folders": 9, "fresh": 0}},
            "pack",
            "the image was changed after the build",
        ),
    ],
)
def test_inside(image: Path, changes: dict[str, Any], name: str, step: str) -> None:
    assert step in steps(image, inside=said({**INSIDE, **changes}))[name]


def test_no_step_is_another_cause_s(image: Path) -> None:
    """Nothing tells to build again what a copy, or the engine, would repair."""
    lose_record(image)
    assert "build" not in steps(image)["record"].replace("was built", "")


def site_line(image: Path, site: dict[str, Any], **changes: Any) -> tuple[str, str, str]:
    vouched = answers if image.with_suffix(".json").exists() else kept_apart
    found = check(image, RecordingRunner(vouched(**changes)), **site)["site"]
    return found.state, found.detail, found.next_step


def test_an_image_of_its_site(image: Path) -> None:
    assert site_line(image, {"name": "demo"}) == ("ok", "built for demo", "")
    assert "site" not in check(image, RecordingRunner(answers()))


def test_an_image_of_another_site(image: Path) -> None:
    change_record(image, site="local")
    state, detail, step = site_line(image, {"name": "demo"})
    assert (state, step) == ("failed", "build it for this site: dlcontainer build demo --site demo")
    assert detail == (
        "built for the site local, not for demo: its base, libraries "
        f"and settings follow the plan for local ({DIGEST[:12]}…)"
    )


def test_an_image_of_another_epoch_or_node_type(image: Path) -> None:
    change_record(image, epoch="2024", node_type="cpu")
    state, detail, step = site_line(image, {"name": "demo"})
    assert (state, step) == ("failed", "build it for this site: dlcontainer build demo --site demo")
    assert detail.startswith("built for the site demo@2024:cpu, not for demo: ")


def test_an_image_for_cpus_at_a_site_of_gpus(image: Path) -> None:
    """Of this site it was wanted so, which is said; of another it is one more thing amiss."""
    site = {"name": "demo", "accelerator": GPU}
    state, detail, _ = site_line(image, site)
    assert state == "ok"
    assert detail == (
        "built for demo; its recipe states no device code (--cpu): programs leave NVIDIA A100 alone"
    )
    change_record(image, site="local")
    state, detail, _ = site_line(image, site)
    assert state == "failed"
    assert "its recipe states no device code, and demo has NVIDIA A100" in detail
    recipe = json.loads(image.with_suffix(".json").read_text())["content"]["recipe"]
    change_record(image, site="demo", recipe={**recipe, "stack": {"cuda": "12.8"}})
    assert site_line(image, site)[:2] == ("ok", "built for demo")


def test_without_a_record_the_manifest_says_the_site(image: Path) -> None:
    lose_record(image)
    assert site_line(image, {"name": "demo"})[0] == "ok"
    state, detail, _ = site_line(image, {"name": "other"})
    assert (state, detail.split(":")[0]) == (
        "failed",
        "built for the site demo, not for other",
    )


@pytest.mark.parametrize("content", [None, 3, {}, {"site": "a\nb"}, {**INSIDE["content"], "x": 1}])
def test_a_manifest_that_says_no_site(image: Path, content: object) -> None:
    lose_record(image)
    inside = said({**INSIDE, "content": content})
    state, detail, _ = site_line(image, {"name": "demo"}, inside=inside)
    whole = isinstance(content, dict) and "x" in content
    assert state == ("ok" if whole else "not tried"), detail


def test_an_adopted_image_of_another_site_is_adopted_again(image: Path) -> None:
    own = json.loads(image.with_suffix(".json").read_text())["content"]["recipe"]
    adopted = {
        **own,
        "source": "docker://x",
        "digest": "sha256:" + "d" * 64,
        "python": "/opt/demo/bin/python",
    }
    change_record(image, site="local", recipe=None, adopted=adopted)
    _, detail, step = site_line(image, {"name": "demo", "accelerator": GPU})
    assert step == "adopt it for this site: dlcontainer adopt SOURCE --site demo"
    assert "no device code" not in detail
