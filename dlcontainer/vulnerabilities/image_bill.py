"""The bill of an image, held against the package databases inside: a bill may lie, or be old."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import contents, layout
from dlcontainer.image.contents import SquashfsTree
from dlcontainer.image.contents.rpm import RpmReader
from dlcontainer.system.process import Runner
from dlcontainer.system.workspace import temporary
from dlcontainer.vulnerabilities import bill_packages


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageBill:
    """A bill, and where it and the image's own databases differ."""

    text: bytes
    unlike: tuple[str, ...]


def read(
    image: Path, environ: Mapping[str, str], runner: Runner, bill: bytes | None = None
) -> ImageBill:
    """Read the bill inside an image, or take the one that lies beside it; nothing of it runs.

    Raises ChecksFailedError for no image and no bill, EngineError without unsquashfs.
    """
    tree = SquashfsTree.of(image, environ, runner)
    taken = contents.take(tree, RpmReader(runner=runner, environ=environ))
    text = _inside(tree, environ, runner) if bill is None else bill
    if text is None:
        raise ChecksFailedError(
            f"{image} has no bill of materials",
            why=f"there is none beside it, and no {layout.SBOM} inside",
            next_step="build it again, or adopt it: dlcontainer adopt",
        )
    unlike = (*bill_packages.differences(text, taken), *taken.notes)
    return ImageBill(text=text, unlike=unlike)


def _inside(tree: SquashfsTree, environ: Mapping[str, str], runner: Runner) -> bytes | None:
    with temporary(environ, runner) as folder:
        files = tree.fetch([layout.SBOM], folder)
        return files[layout.SBOM].read_bytes() if layout.SBOM in files else None
