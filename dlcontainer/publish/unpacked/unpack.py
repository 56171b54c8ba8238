"""An image file -> its unpacked tree, beside the published tree, before anybody holds that."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dlcontainer.errors import PublishError
from dlcontainer.image.contents.squashfs_tree import SquashfsTree
from dlcontainer.publish.ownership import Ownership
from dlcontainer.publish.unpacked import listing
from dlcontainer.system import digests
from dlcontainer.system.process import Runner
from dlcontainer.system.workspace import workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class UnpackedTree:
    """An unpacked image in a private folder of the root's file system, and its listing."""

    path: Path
    text: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class UnpackTools:
    """What unpacking needs: processes, their environment, and somebody to tell.

    `admit` looks at the private copy that is unpacked.
    """

    runner: Runner
    environ: Mapping[str, str]
    note: Callable[[str], None]
    admit: Callable[[Path], object] | None = None


@contextlib.contextmanager
def unpacked(
    image: BinaryIO, sha256: str, root: Path, ownership: Ownership, by: UnpackTools
) -> Iterator[UnpackedTree]:
    """Unpack an open image below the root; what is not taken from there is removed at the end.

    Raises PublishError where it is not the image of its record.
    """
    with workspace(root, by.runner, by.note) as folder:
        copy, target = folder / "image.sif", folder / "tree"
        # Its name may lead elsewhere by now: what was opened is copied, and that is unpacked.
        with copy.open("wb") as file:
            actual = digests.of_open(image, write=file.write)
        if actual != sha256:
            raise PublishError(
                "the image does not match its record",
                next_step="copy the image and its record again, both from the folder of the build",
            )
        if by.admit is not None:
            by.admit(copy)
        SquashfsTree.of(copy, by.environ, by.runner).unpack(target)
        copy.unlink()
        left_out = listing.settle(target, ownership)
        if left_out:
            names = ", ".join(left_out[:5])
            by.note(f"skipped (only root can create them): {names}{', …' * bool(left_out[5:])}")
        yield UnpackedTree(path=target, text=listing.text(target))
