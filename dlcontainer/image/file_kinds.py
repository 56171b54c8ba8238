"""Which kind of image a file is, by its first bytes."""

from pathlib import Path
from typing import Literal

from dlcontainer.errors import ChecksFailedError, UsageError
from dlcontainer.system import foreign_files

FileKind = Literal["archive", "sif"]
_TAR_MAGIC_AT, _TAR_MAGIC = 257, b"ustar"
_SIF_MAGIC_AT, _SIF_MAGIC = 32, b"SIF_MAGIC"


def kind(path: Path, next_step: str) -> FileKind:
    """Return a file's kind.

    Raises UsageError for one that can't be read, ChecksFailedError for one that is no image.
    """
    try:
        with foreign_files.opened(path) as file:
            head = file.read(512)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"can't read {path}: {error.strerror if isinstance(error, OSError) else error}",
            next_step=next_step,
        ) from None
    if head[_TAR_MAGIC_AT:].startswith(_TAR_MAGIC):
        return "archive"
    if head[_SIF_MAGIC_AT:].startswith(_SIF_MAGIC):
        return "sif"
    raise ChecksFailedError(
        f"{path} is neither a SIF nor an OCI archive",
        why=f"it begins with {head[:16]!r}",
        next_step=next_step,
    )
