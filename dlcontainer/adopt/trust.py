"""Who trusts an image of somebody else's: written into its record, by the image's SHA-256."""

import json
import time
from collections.abc import Mapping
from pathlib import Path

from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import record
from dlcontainer.image.record import RecordFile
from dlcontainer.system import atomic_files, digests
from dlcontainer.system.guarded_files import Owners


def of(user: str, sha256: str) -> Mapping[str, str]:
    """Return what a record says of somebody's trust."""
    return {
        "by": user,
        "sha256": sha256,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def of_others(image: Path, owners: Owners) -> RecordFile | None:
    """Return the record beside an image that was adopted, or pulled unverified; None for others."""
    try:
        file = record.opened(record.beside(image), owners)
    except ChecksFailedError:
        return None  # a file of that name that is no record says nothing of the image
    if file is None:
        return None
    trusted = file.record
    is_foreign = trusted.content.is_foreign or trusted.unverified or trusted.stranger
    return file if is_foreign else None


def write(image: Path, file: RecordFile, user: str) -> None:
    """Note in such an image's record that this user trusts it; raises ChecksFailedError."""
    sha256 = digests.of_file(image)
    if sha256 != file.record.image.sha256:
        raise ChecksFailedError(
            f"{image} does not match its record",
            why=f"its SHA-256 is {sha256[:12]}…, the record has {file.record.image.sha256[:12]}…",
            next_step="adopt it again from its source, or pull it again",
        )
    body = {**file.body, "trust": of(user, sha256)}
    path = record.beside(image)
    try:
        atomic_files.write(path, json.dumps(body, indent=1) + "\n")
    except OSError as error:
        raise ChecksFailedError(
            f"can't write {path}: {error.strerror}",
            next_step="copy the image and its record to a folder that you can write to",
        ) from None
