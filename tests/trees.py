"""What tests of the tree of generations share: releases of a few bytes, and what users see."""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from dlcontainer.publish import modulefiles
from dlcontainer.publish.modulefiles import ModuleRelease
from dlcontainer.publish.tree import changes, contents, numbers
from dlcontainer.publish.tree.layout import PublishedTree
from dlcontainer.publish.tree.numbers import Succession
from dlcontainer.publish.tree.store import ImageKey, ReleaseDraft
from dlcontainer.publish.tree.transaction import Publisher, opened
from dlcontainer.system.workspace import PREFIX
from tests.fakes import RecordingRunner
from tests.values import TEMPLATES

DAY = 86400.0


class Clock:
    """A clock that a test moves."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def hand(clock: Callable[[], float] | None = None, *, strict: bool = True) -> Publisher:
    notes: list[str] = []
    runner = RecordingRunner(strict=strict)
    return Publisher(runner=runner, note=notes.append, clock=clock or Clock())


def image_file(folder: Path, data: bytes = b"an image") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    image = folder / f"{hashlib.sha256(data).hexdigest()[:12]}.sif"
    image.write_bytes(data)
    return image


@contextlib.contextmanager
def draft(
    image: Path,
    version: str = "1.0",
    facts: str = "",
    name: str = "demo",
    fallback: str = "",
    number: int | None = None,
) -> Iterator[ReleaseDraft]:
    """Make a release's draft of real modulefiles; `facts` are those of the site.

    Without a number it is one of dlcontainer 0.13 and earlier.
    """
    sha256 = hashlib.sha256(image.read_bytes()).hexdigest()
    about = ModuleRelease(
        name=name,
        version=version,
        summary="a demo",
        homepage=None,
        license=None,
        commands=("python", "tool"),
        prefix="/opt/demo",
        digest="0" * 64,
        sha256=sha256,
        offset=0,
        number=number or 1,
    )
    folder = contents.PLACEHOLDER
    lua, tcl = modulefiles.modulefiles(
        about, folder, [TEMPLATES], catalogue=contents.catalogue_of(folder)
    )
    files = {
        "bin/python": b"#!/bin/sh\n# " + f"{facts}\n{fallback}".encode(),
        "bin/tool": b"#!/bin/sh\n",
        "launch/site.sh": b"# " + facts.encode() + b"\n",
        "module.lua": lua.encode(),
        "module.tcl": tcl.encode(),
        "record.json": json.dumps({"image": {"sha256": sha256}}).encode(),
        "checks.json": b"{}",
    }
    with image.open("rb") as file:
        yield ReleaseDraft(
            name=name, version=version, image=file, sha256=sha256, files=files, number=number
        )


def put(
    root: Path, image: Path, version: str = "1.0", facts: str = "", by: Publisher | None = None
) -> int:
    """Publish; give the generation's number."""
    with opened(root, by or hand()) as tree, draft(image, version, facts) as given:
        return changes.publish(tree, given).number


def put_release(
    root: Path,
    image: Path,
    version: str = "1.0",
    facts: str = "",
    *,
    succession: Succession | None = Succession(),  # noqa: B008  it can't be changed
    by: Publisher | None = None,
) -> int:
    """Publish as `publish --release` does; give the release's number."""
    sha256 = hashlib.sha256(image.read_bytes()).hexdigest()
    key = ImageKey(name="demo", version=version, sha256=sha256)
    with opened(root, by or hand()) as tree:
        number = numbers.of_image(tree.top, key, succession)
        with draft(image, version, facts, number=number) as given:
            changes.publish(tree, given, succession)
    return number


def act(root: Path, change: Callable[[PublishedTree], object], by: Publisher | None = None) -> None:
    with opened(root, by or hand()) as tree:
        change(tree)


def seen(root: Path, below: str = "modules") -> list[str]:
    """List what module users see, after a look that each thing works."""
    found = []
    for path in sorted((root / below).resolve().rglob("*")):
        if path.is_dir() or path.name.startswith(".modulerc"):
            continue
        text = path.read_text()
        assert text.startswith(("-- Written by", "#%Module1.0"))
        # The file of a deprecated version is no link.
        digest = text.partition("/releases/")[2][:64]
        folder = path.resolve().parent if path.is_symlink() else root / "releases" / digest
        # As far as it is quoted alike in all languages.
        assert f"/{folder.name}/bin" in text
        assert contents.PLACEHOLDER.name not in text
        record = json.loads((folder / "record.json").read_text())
        image = (folder / "image.sif").read_bytes()
        assert hashlib.sha256(image).hexdigest() == record["image"]["sha256"]
        assert folder.stat().st_mode & 0o777 == 0o755
        for command in ("python", "tool"):
            assert os.access(folder / "bin" / command, os.X_OK)
        found.append("/".join(path.parts[-3:]))
    return found


def both(*versions: str, name: str = "demo") -> list[str]:
    lmod = [f"lmod/{name}/{version}.lua" for version in versions]
    return sorted([*lmod, *(f"tcl/{name}/{version}" for version in versions)])


def hidden(root: Path) -> list[str]:
    return [path.name for path in root.glob(f"{PREFIX}*")]
