"""Releases: folders that never change, each named for the digest of what it runs (contents.py)."""

import contextlib
import errno
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dlcontainer.errors import PublishError
from dlcontainer.publish import checksums, tree_lock
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import contents, layout
from dlcontainer.publish.tree.layout import UNPACKED, PublishedTree
from dlcontainer.publish.unpacked import listing
from dlcontainer.system import digests, guarded_files

_COPIED = (errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENOSYS)


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageKey:
    """An image by its SHA-256, and the version that it is published as."""

    name: str
    version: str
    sha256: str

    @property
    def module(self) -> str:
        """NAME/VERSION, as users load it."""
        return f"{self.name}/{self.version}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseDraft:
    """All that a release is made of; modulefiles name contents.PLACEHOLDER as its folder.

    `source` is a folder whose image.sif may be linked instead of copied.
    """

    name: str
    version: str
    image: BinaryIO
    sha256: str
    files: Mapping[str, bytes]
    source: Folder | None = None
    # The image unpacked, in its place: a folder on the tree's file system, moved from there.
    tree: Path | None = None
    # Which release of its version it is; None of one that was made before these had numbers.
    number: int | None = None

    @property
    def key(self) -> "ImageKey":
        """The image, and the version that it is published as."""
        return ImageKey(name=self.name, version=self.version, sha256=self.sha256)


def digest_of_draft(draft: ReleaseDraft) -> str:
    """Return the digest of the release that a draft becomes."""
    sums = {path: hashlib.sha256(data).hexdigest() for path, data in draft.files.items()}
    image = {} if draft.tree is not None else {contents.IMAGE: draft.sha256}
    return contents.digest_of({**sums, **image})


def add(tree: PublishedTree, draft: ReleaseDraft) -> str:
    """Add a release and return its digest; one that is there already is checked, byte for byte.

    Raises PublishError for an image that is not the draft's, and for a damaged release.
    """
    _require_names(draft)
    digest = digest_of_draft(draft)
    if tree.releases.info(digest) is None:
        name = f"release-{digest[:16]}"
        with tree.aside.make(name) as staged:
            _stage(tree, draft, digest, staged)
            layout.settle_modes(staged, tree.ownership)
            # Refused here, nothing of it stays.
            layout.require_admitted(tree, staged, digest, f"{draft.name}/{draft.version}")
        if layout.settle(tree, name, tree.releases, digest):
            return digest
    contents.require_sound(tree.releases, digest, f"{draft.name}/{draft.version}")
    return digest


def _require_names(draft: ReleaseDraft) -> None:
    """Refuse paths that the checksums can't hold, before anything is made of them."""
    try:
        checksums.read(checksums.text(dict.fromkeys(draft.files, "0" * 64)))
    except ValueError as error:
        raise PublishError(
            f"a file of {draft.name}/{draft.version} has an unsupported name: {error}"
        ) from None


def _stage(tree: PublishedTree, draft: ReleaseDraft, digest: str, staged: Folder) -> None:
    folder = tree.root / layout.RELEASES / digest
    staged.write(tree_lock.MARK, b"dlcontainer/release/1\n")
    sums = {}
    if draft.tree is None:
        _image(tree, draft, staged)
        sums[contents.IMAGE] = draft.sha256
    else:
        layout.take(draft.tree, staged, UNPACKED)
        staged.write(listing.CATALOG, b"")
    with contextlib.ExitStack() as stack:
        opened = {"": staged}
        for path, data in draft.files.items():
            within, _, name = path.rpartition("/")
            if within not in opened:
                opened[within] = stack.enter_context(staged.make(within))
            text = contents.moved(path, data, contents.PLACEHOLDER, folder)
            opened[within].write(name, text)
            sums[path] = hashlib.sha256(text).hexdigest()
    body = {
        "schema": contents.SCHEMA,
        "name": draft.name,
        "version": draft.version,
        "image": draft.sha256,
        "folder": str(folder),
        **({} if draft.number is None else {"number": draft.number}),
    }
    staged.write(contents.FILE, (json.dumps(body, indent=1) + "\n").encode())
    staged.write(checksums.FILE, checksums.text(sums))


def _image(tree: PublishedTree, draft: ReleaseDraft, staged: Folder) -> None:
    """Link the image where a folder of ours has it already, else copy it."""
    if draft.source is not None and _linked(tree, draft, draft.source, staged):
        return
    for name in guarded_files.names(tree.releases.number):
        with contextlib.suppress(OSError, PublishError), tree.releases.sub(name) as folder:
            if contents.described(folder).image == draft.sha256 and _linked(
                tree, draft, folder, staged
            ):
                return
    with layout.striped(tree, staged, contents.IMAGE) as file:
        sha256 = digests.of_open(draft.image, write=file.write, tell=tree.line)
    if sha256 != draft.sha256:
        raise PublishError(
            f"{draft.name}/{draft.version}: the image does not match its record",
            why="the copied image has another SHA-256",
            next_step="copy the image and its record again, both from the folder of the build",
        )


def _linked(tree: PublishedTree, draft: ReleaseDraft, source: Folder, staged: Folder) -> bool:
    with contextlib.suppress(FileNotFoundError), source.open(contents.IMAGE) as file:
        info = os.fstat(file.fileno())
        # Another's file could be changed by them later, and modes are of all its names.
        ours = info.st_uid == os.geteuid() and info.st_gid == tree.ownership.group
        if not ours or stat.S_IMODE(info.st_mode) != contents.mode_of(contents.IMAGE):
            return False
        if digests.of_open(file, tell=tree.line) != draft.sha256:
            return False
        try:
            os.link(
                contents.IMAGE,
                contents.IMAGE,
                src_dir_fd=source.number,
                dst_dir_fd=staged.number,
                follow_symlinks=False,
            )
        except OSError as error:
            if error.errno not in _COPIED:
                raise
            return False
        linked = staged.info(contents.IMAGE)
        if linked is not None and os.path.samestat(linked, info):
            return True
        os.unlink(contents.IMAGE, dir_fd=staged.number)
    return False
