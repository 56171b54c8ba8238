"""What tests of publishing share: images that are a few bytes, and a look at what users see."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlcontainer.image.checks_file import CheckRecord
from dlcontainer.publish.modulefiles import FallbackPrograms
from dlcontainer.publish.publish import Publication, PublishContext, publish
from dlcontainer.sites.site import Site
from dlcontainer.system.workspace import PREFIX
from tests.fakes import RecordingRunner
from tests.sifs import TREE, write_sif
from tests.values import TEMPLATES, site_of

SITE = site_of(name="lab").value
RECIPE: dict[str, Any] = {
    "name": "demo",
    "version": "1.0",
    "summary": "a demo",
    "homepage": None,
    "license": "MIT",
    "prefix": "/opt/demo",
    "exposes": ["python", "tool"],
    "steps": "whatever else a recipe has",
}


class Quiet:
    """A progress that notes what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def step(self, title: str) -> None:
        self.said.append(title)

    note = line = step

    def phase(self, title: str) -> None:
        """Nothing is said of what comes and goes."""

    def expect(self, count: int) -> None:
        """Nothing is said of how many there are."""


def image_of(
    folder: Path,
    data: bytes = b"an image",
    more: Mapping[str, object] | None = None,
    **changes: Any,
) -> Path:
    """Make an image's file, its record and its log; `more` stands beside the recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    image = folder / "demo-1.0-lab.sif"
    tree = (*TREE[:2], data, TREE[3])
    data = write_sif(image, [tree]).read_bytes()
    content = {"site": "lab", "recipe": {**RECIPE, **changes}, **(more or {})}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    body = {
        "schema": "dlcontainer/record/1",
        "image": {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)},
        "digest": hashlib.sha256(text.encode()).hexdigest(),
        "content": content,
    }
    image.with_suffix(".json").write_text(json.dumps(body))
    image.with_suffix(".log").write_text("a log")
    return image


def context(*, ok: bool = True, **changes: Any) -> PublishContext:
    given = PublishContext(
        resort=FallbackPrograms(engine=Path("/opt/bin/apptainer")),
        runner=RecordingRunner(strict=True),
        templates=(TEMPLATES,),
        progress=Quiet(),
        check=lambda image, written, site: [CheckRecord(name="runs", ok=ok, detail="x")],
    )
    return replace(given, **changes)


def put(image: Path, root: Path | None, site: Site = SITE, **changes: Any) -> Publication:
    return publish(image, site, root, context(**changes))


def seen(root: Path) -> list[str]:
    """List what module users see, after a look that each thing works."""
    found = []
    for link in sorted((root / "modules").resolve().rglob("*")):
        if link.is_dir() or link.name.startswith(".modulerc"):
            continue
        text = link.read_text()
        assert text.startswith(("-- Written by", "#%Module1.0"))
        folder = link.resolve().parent
        record = json.loads((folder / "record.json").read_text())
        image = (folder / "image.sif").read_bytes()
        assert hashlib.sha256(image).hexdigest() == record["image"]["sha256"]
        assert json.loads((folder / "checks.json").read_text())["checks"][0]["ok"]
        for command in ("python", "tool"):
            assert os.access(folder / "bin" / command, os.X_OK)
        assert f"{folder}/bin" in text
        found.append("/".join(link.parts[-3:]))
    return found


def hidden(root: Path) -> list[Path]:
    return list(root.glob(f"{PREFIX}*"))


BOTH = ["lmod/demo/1.0-1.lua", "lmod/demo/1.0.lua", "tcl/demo/1.0", "tcl/demo/1.0-1"]
