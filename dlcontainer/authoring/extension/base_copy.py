"""The image that is extended: a private copy, named by the digests of file and partition."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import BuildError, ChecksFailedError, MisfitError
from dlcontainer.image import record, sif
from dlcontainer.image.record import RecordFile
from dlcontainer.system import digests, foreign_files, guarded_files
from dlcontainer.system.guarded_files import Owners
from dlcontainer.system.machine import free_mb

# Of a release in a published tree the record has another name.
_PUBLISHED, _PUBLISHED_RECORD = "image.sif", "record.json"
_SIF_MAGIC_AT, _SIF_MAGIC = 32, b"SIF_MAGIC"


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseCopy:
    """A private copy of an image; `path` is that of the original, absolute.

    `record` is what vouches for the image: None for one of somebody else's.
    """

    path: Path
    copy: Path
    sha256: str
    tree_sha256: str
    is_signed: bool
    record: RecordFile | None
    identity: "FileIdentity"

    def require_same(self) -> None:
        """Refuse a file that is no longer the one that was copied; raises ChecksFailedError."""
        try:
            same = FileIdentity.of(self.path.stat()) == self.identity
        except OSError:
            same = False
        if not same:
            raise _changed(self.path)


@dataclass(frozen=True, kw_only=True, slots=True)
class FileIdentity:
    """What changes when a file is written to, or another one takes its place."""

    device: int
    inode: int
    size: int
    written_ns: int
    changed_ns: int

    @classmethod
    def of(cls, info: os.stat_result) -> "FileIdentity":
        """Return a file's identity, by its descriptor or its path."""
        return cls(
            device=info.st_dev,
            inode=info.st_ino,
            size=info.st_size,
            written_ns=info.st_mtime_ns,
            changed_ns=info.st_ctime_ns,
        )


def take(path: Path, target: Path, owners: Owners, tell: Callable[[str], None]) -> BaseCopy:
    """Copy an image to `target`, a new file in a private folder.

    Raises ChecksFailedError for what is no SIF, or changes meanwhile, or is not its record's;
    BuildError for a full disk.
    """
    try:
        with foreign_files.opened(path) as file:
            identity = FileIdentity.of(os.fstat(file.fileno()))
            _require_sif(path, file.read(_SIF_MAGIC_AT + len(_SIF_MAGIC)))
            _require_room(path, identity.size, target.parent)
            with guarded_files.created(target) as copy:
                sha256 = digests.of_open(
                    file, write=lambda block: guarded_files.append(copy, block), tell=tell
                )
    except OSError as error:
        raise BuildError(
            f"can't copy {path}: {error.strerror}",
            next_step="choose a folder with more space: --tmpdir DIR",
        ) from None
    part = sif.tree(target)
    with target.open("rb") as file:
        tree_sha256 = digests.of_part(file, part.offset, part.size)
    image = BaseCopy(
        path=path,
        copy=target,
        sha256=sha256,
        tree_sha256=tree_sha256,
        is_signed=any(part.kind == "signature" for part in sif.parts(target)),
        record=_record(path, sha256, owners),
        identity=identity,
    )
    image.require_same()
    return image


def _require_sif(path: Path, head: bytes) -> None:
    if head[_SIF_MAGIC_AT:] != _SIF_MAGIC:
        raise MisfitError(
            f"{path} is not a SIF: `extend` works with Apptainer and its images alone",
            why="images of Docker and Podman, OCI archives and unpacked folders have layers of "
            "their own",
            next_step="make a SIF of it first: dlcontainer adopt SOURCE --site SITE",
        )


def _require_room(path: Path, size: int, folder: Path) -> None:
    free = free_mb(folder) * 1_000_000
    # The copy, and the new image beside it.
    if free < 2 * size:
        raise BuildError(
            f"not enough space to extend {path.name}: {free / 1e9:.1f} GB free in {folder.parent}",
            why=f"a copy and the new image have {2 * size / 1e9:.1f} GB, its files unpacked more",
            next_step="choose a folder with more space: --tmpdir DIR",
        )


def _record(path: Path, sha256: str, owners: Owners) -> RecordFile | None:
    places = [record.beside(path)]
    real = path.resolve()
    if real.name == _PUBLISHED:
        places.append(real.with_name(_PUBLISHED_RECORD))
    for place in places:
        file = record.opened(place, owners)
        if file is None:
            continue
        if file.record.image.sha256 != sha256:
            raise ChecksFailedError(
                f"{path} does not match its record {place.name}",
                why=f"its SHA-256 is {sha256[:12]}…, the record has "
                f"{file.record.image.sha256[:12]}…",
                next_step="copy the image and its record again, both from one folder",
            )
        return file
    return None


def _changed(path: Path) -> ChecksFailedError:
    return ChecksFailedError(
        f"{path} changed while it was extended",
        why="the digests of the base would name another file than the one that lies there",
        next_step="wait until nobody writes to it, then extend it again; or extend a copy",
    )
