"""A tiny build, with a real engine: two files on a base that is there."""

import hashlib
import json
import shutil
from pathlib import Path

from tests.faults.stage import Subject
from tests.integration.world import World, write_bare

_OUTPUT = "out"


def tiny(world: World) -> Subject:
    """Build the bare recipe; the base is that of a world's cache."""

    def prepare(state: Path) -> None:
        shutil.rmtree(state / "cache")
        shutil.copytree(world.environ["XDG_CACHE_HOME"], state / "cache", symlinks=True)
        write_bare(state / "recipe")

    argv = ("build", "./recipe", "--site", "local", "-o", _OUTPUT)
    return Subject(prepare=prepare, argv=argv, view=_image)


def _image(state: Path) -> object:
    """Give the image's digest, which is its record's; None where there is none."""
    images = sorted((state / _OUTPUT).glob("*.sif"))
    digests = [hashlib.sha256(image.read_bytes()).hexdigest() for image in images]
    records = [json.loads(image.with_suffix(".json").read_text()) for image in images]
    assert digests == [record["image"]["sha256"] for record in records]
    return digests or None
