"""What is given to `publish`: an image, and the files beside it. Whoever made them is not trusted.

Each is opened once, and what was opened is what is checked and copied: a name may lead elsewhere by
then. A published file can be read by everybody, so nothing may get there that its owner did not
mean to show.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dlcontainer.errors import ChecksFailedError, PublishError
from dlcontainer.image import bill_file, record, sbom
from dlcontainer.image.record import RecordFile
from dlcontainer.system import foreign_files
from dlcontainer.system.guarded_files import Owners, name_of

_MOST_LOG_BYTES = 256_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishCandidate:
    """An image, opened, and what lies beside it; `path` is the image's own, through all links."""

    path: Path
    image: BinaryIO
    record: RecordFile
    bill: bytes | None
    log: bytes | None

    @property
    def size(self) -> int:
        """Size of the image, bytes."""
        return os.fstat(self.image.fileno()).st_size


@contextlib.contextmanager
def opened(image: Path, owners: Owners | None = None) -> Iterator[PublishCandidate]:
    """Open an image and read what is beside it.

    Raises PublishError for what can't be published, ChecksFailedError for a record that is none.
    """
    path = _resolved(image)
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(foreign_files.opened(path, follow=False))
        except OSError as error:
            raise PublishError(
                f"can't read {path}: {error.strerror}", next_step="give the path of an image (.sif)"
            ) from None
        owner = os.fstat(file.fileno()).st_uid
        yield PublishCandidate(
            path=path,
            image=file,
            record=_record(path, owner, owners),
            bill=_bill(path.with_suffix(sbom.SUFFIX), owner),
            log=_beside(path.with_suffix(".log"), owner, _MOST_LOG_BYTES),
        )


def _resolved(image: Path) -> Path:
    try:
        return image.resolve(strict=True)
    except (OSError, RuntimeError):  # RuntimeError: a link that leads to itself
        raise PublishError(
            f"there is no image {image}", next_step="build one: dlcontainer build"
        ) from None


def _record(image: Path, owner: int, owners: Owners | None) -> RecordFile:
    path = record.beside(image)
    try:
        with _opened(path, owner) as file:
            return record.of_file(file, path, owners)
    except FileNotFoundError:
        raise PublishError(
            f"{image.name} has no record: there is no {path.name} beside it",
            why="a module is published with the record of its image",
            next_step=record.copy_too(path),
        ) from None
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from None


def _bill(path: Path, owner: int) -> bytes | None:
    data = _beside(path, owner, sbom.MOST_BYTES)
    if data is not None:
        try:
            bill_file.count(data)
        except ChecksFailedError as error:
            raise PublishError(
                f"{path}: {error.what}",
                next_step="remove this file, or build the image again",
            ) from None
    return data


def _beside(path: Path, owner: int, most: int) -> bytes | None:
    try:
        with _opened(path, owner) as file:
            return foreign_files.content(file, most)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from None


def _opened(path: Path, owner: int) -> BinaryIO:
    """Open a file beside an image of this owner; raises OSError, and PublishError for a trap."""
    file = foreign_files.opened(path, follow=False)
    why = _foreign(os.fstat(file.fileno()), owner)
    if why is None:
        return file
    file.close()
    raise _refused(path, why)


def _foreign(info: os.stat_result, owner: int) -> str | None:
    """Return why a file may be none that the image's owner put there; None where it is theirs."""
    if info.st_nlink != 1:
        return "the file has a second name elsewhere (a hard link)"
    if info.st_uid == owner:
        return None
    whose = f"it belongs to {name_of(info.st_uid)}, the image to {name_of(owner)}"
    if info.st_uid not in (0, os.geteuid()):
        return whose
    # A file of the publisher's own, moved there by the image's owner, may be a secret.
    return None if info.st_mode & stat.S_IROTH else f"{whose}, and not all users may read it"


def _refused(path: Path, why: str) -> PublishError:
    return PublishError(
        f"{path} can't be published",
        why=f"{why}; all users could read the published copy",
        next_step="check the file, then remove it or replace it with a regular file that the "
        "image's owner owns",
    )
