"""The image that a bundle carries: blobs in a folder, checked from the lock's digest on."""

import shutil
from pathlib import Path

from dlcontainer.config.field_types import Arch
from dlcontainer.config.image_names import ImageReference, parse_image
from dlcontainer.errors import BuildError, ConfigError
from dlcontainer.registry import image_files, oci_layout, pull
from dlcontainer.registry.connection import RegistryAccess
from dlcontainer.registry.oci_layout import DamagedLayoutError, OciLayout

_INDEX = "index.json"


def fetch(image: str, arch: Arch, access: RegistryAccess, folder: Path) -> OciLayout:
    """Fetch a lock's image into a folder; blobs that are there and right stay.

    Raises BuildError where the registry does not give it, or the disk does not give it back.
    """
    reference = _reference(image)
    if folder.exists() and not (folder / oci_layout.BLOBS).is_dir():
        shutil.rmtree(folder)  # a finished base of before
    pull.pull(reference, arch, access, folder, image_files.MOST_PACKED)
    try:
        carried = oci_layout.follow(folder, str(reference.digest), arch)
    except DamagedLayoutError as error:
        raise BuildError(
            "the image on disk differs from what was just written",
            where=str(folder),
            why="\n    ".join(["", *error.faults[:10]]),
            next_step="fetch again (it keeps correct files); if the error comes back, check "
            "the file system",
        ) from None
    oci_layout.remove_strays(carried)
    return carried


def of(image: str | None, arch: Arch, folder: Path) -> OciLayout | None:
    """Check the image that lies in a folder; None where there is none.

    Raises DamagedLayoutError for blobs that are missing, or are not the locked ones.
    """
    if image is None or not any((folder / name).exists() for name in ("blobs", _INDEX)):
        return None
    return oci_layout.follow(folder, str(_reference(image).digest), arch)


def _reference(image: str) -> ImageReference:
    """Read the image's name; raises ConfigError where somebody wrote another thing."""
    try:
        reference = parse_image(image)
    except ValueError as error:
        raise _refused(str(error)) from None
    if reference.digest is None:
        raise _refused(f"{image} has no digest")
    return reference


def _refused(why: str) -> ConfigError:
    return ConfigError(
        "the base of the lock is not a pinned image",
        why=why,
        next_step="copy the lock file again, or write a new one: dlcontainer lock",
    )
