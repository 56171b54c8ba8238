"""`dlcontainer publish` as a user types it, with a real image and the real checks."""

import json
import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.integration.publish.tools import Shelf
from tests.integration.world import Built, World
from tests.processes import files_below, poll


def names(root: Path) -> list[str]:
    """Name the modules that users see."""
    found = [*root.glob("modules/*/*/*")]
    return sorted(path.relative_to(root / "modules").as_posix() for path in found)


def test_again_says_so(world: World, shelf: Shelf, pytorch_image: Built) -> None:
    site = shelf.root.parent / "lab.yaml"
    done = world.run("publish", pytorch_image.image, "-s", site, "--root", shelf.root)
    first, *lines = done.stdout.splitlines()
    assert first == f"already published, identical: {shelf.folder}"
    use = [shlex.split(line, comments=True) for line in lines]
    assert use == [
        ["module", "use", f"{shelf.root}/modules/lmod"],
        ["module", "use", f"{shelf.root}/modules/tcl"],
        ["module", "load", "pytorch/2.13.0"],
    ]


def test_the_checks_are_kept(shelf: Shelf) -> None:
    body = json.loads((shelf.folder / "checks.json").read_text())
    record = json.loads((shelf.folder / "record.json").read_text())
    assert body["image_sha256"] == record["image"]["sha256"]
    assert {check["name"] for check in body["checks"]} >= {"runs", "verify", "import torch"}
    assert all(check["ok"] for check in body["checks"])


def test_no_root(world: World, pytorch_image: Built) -> None:
    done = world.run("publish", pytorch_image.image, "-s", "local", code=3)
    assert "--root DIR" in done.stderr
    assert "modules.root" in done.stderr


def test_no_image(world: World, tmp_path: Path) -> None:
    text = tmp_path / "text.sif"
    text.write_text("no image")
    for image, code in ((text, 6), (tmp_path / "none.sif", 2)):
        done = world.run("publish", image, "-s", "local", "--root", tmp_path / "root", code=code)
        assert image.name in done.stderr
    assert not (tmp_path / "root").exists()


def test_an_image_that_fails(world: World, pytorch_image: Built, tmp_path: Path) -> None:
    image, size = tmp_path / pytorch_image.image.name, pytorch_image.image.stat().st_size
    shutil.copyfile(pytorch_image.record, image.with_suffix(".json"))
    root = tmp_path / "root"
    for length, says in ((1_000_000, "is truncated or damaged"), (size, "checks failed: record")):
        with pytorch_image.image.open("rb") as whole, image.open("wb") as spoiled:
            spoiled.write(whole.read(1_000_000))
            spoiled.truncate(length)  # to the whole length: what follows is zeros
        done = world.run("publish", image, "-s", "local", "--root", root, "--json", code=6)
        body = json.loads(done.stdout)
        assert (body["exit_code"], says in body["what"]) == (6, True), body
        assert names(root) == []
        assert not (root / "releases").exists()


@pytest.mark.parametrize(
    "numbers",
    [[signal.SIGKILL], pytest.param([signal.SIGTERM, signal.SIGKILL], marks=pytest.mark.long)],
    ids=["SIGKILL", "SIGTERM, then SIGKILL"],
)
def test_killed_while_it_copies(
    world: World, pytorch_image: Built, tmp_path: Path, numbers: list[signal.Signals]
) -> None:
    root = tmp_path / "root"
    argv = ["publish", str(pytorch_image.image), "-s", "local", "--root", str(root)]
    for number in numbers:
        with subprocess.Popen(
            [*world.program, *argv],
            env=dict(world.environ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                assert poll(lambda: bool(files_below(root, "/image.sif")), 120)
            finally:
                os.kill(process.pid, number)
        left = list(root.glob(".dlcontainer-build-*"))
        # SIGTERM lets it clean up; what SIGKILL leaves is hidden, and reaped by the next publisher.
        assert (len(left), names(root)) == (int(number == signal.SIGKILL), [])
