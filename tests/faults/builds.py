"""A tiny build, with a real engine: two files on a base that is there."""

import hashlib
import json
import re
import shutil
from pathlib import Path

from tests.faults.stage import Subject
from tests.integration.world import Built, World, write_bare

_OUTPUT = "out"
# The folders above an entry, and its two files; nothing that is still being made.
_KEPT_STEP = re.compile(
    r"cache/dlcontainer/steps(/by-[a-z0-9_-]+(/[0-9a-f]{2}(/[0-9a-f]{64}\.(json|sqfs))?)?)?"
)


def tiny(world: World) -> Subject:
    """Build the bare recipe; the base is that of a world's cache."""

    def prepare(state: Path) -> None:
        shutil.rmtree(state / "cache")
        shutil.copytree(world.environ["XDG_CACHE_HOME"], state / "cache", symlinks=True)
        write_bare(state / "recipe")

    argv = ("build", "./recipe", "--site", "local", "-o", _OUTPUT)
    return Subject(prepare=prepare, argv=argv, view=_image, ours=_is_kept_step)


def refreshed(built: Built, cache: Path, recipe: Path, wheels: Path) -> Subject:
    """Refresh the wheel of an image that is there: a folder has another file of the version.

    The base and the step before the wheel are in the cache.
    """

    keys = {step["key"] for step in built.recorded()["work"]}

    def others(_: str, names: list[str]) -> list[str]:
        """Leave out what other tests kept in that cache."""
        kept = (name for name in names if re.fullmatch(r"[0-9a-f]{64}\.(json|sqfs)", name))
        return ["twins", "locked", *(name for name in kept if name.partition(".")[0] not in keys)]

    def prepare(state: Path) -> None:
        shutil.rmtree(state / "cache")
        shutil.copytree(cache, state / "cache", symlinks=True, ignore=others)
        shutil.copytree(built.image.parent, state / _OUTPUT)
        shutil.copytree(recipe, state / "recipe")

    argv = ("build", "./recipe", "--site", "local", "-o", _OUTPUT, "--refresh", "python")
    index = ("--set", f"site.routing.wheels={json.dumps([str(wheels)])}")
    return Subject(prepare=prepare, argv=(*argv, *index), view=_wheel, ours=_is_kept_step)


def _wheel(state: Path) -> object:
    """Give the digest of the wheel in an image that is whole, as its bill has it."""
    assert _image(state) is not None
    (bill,) = (state / _OUTPUT).glob("*.cdx.json")
    components = json.loads(bill.read_text())["components"]
    (wheel,) = (component for component in components if component["name"] == "dlctiny")
    return wheel["hashes"]


def _is_kept_step(path: str) -> bool:
    """Tell whether a path is of a finished step, kept where it took 2 s: a matter of the load."""
    return _KEPT_STEP.fullmatch(path) is not None


def _image(state: Path) -> object:
    """Give the image's digest, which is its record's; None where there is none."""
    images = sorted((state / _OUTPUT).glob("*.sif"))
    digests = [hashlib.sha256(image.read_bytes()).hexdigest() for image in images]
    records = [json.loads(image.with_suffix(".json").read_text()) for image in images]
    assert digests == [record["image"]["sha256"] for record in records]
    return digests or None
