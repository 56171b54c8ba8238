"""A bundle that nobody can change while a build reads it: as it lies, or as a private copy.

It was checked file by file, and pip, apt and the engine open those files again by their names. In a
folder where others may write, another file may stand there by then.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dlcontainer.errors import BuildError
from dlcontainer.packages import bundle as bundles
from dlcontainer.packages import carried_image
from dlcontainer.packages.bundle import Bundle
from dlcontainer.registry import oci_layout
from dlcontainer.registry.oci_layout import DamagedLayoutError, OciLayout
from dlcontainer.system import guarded_files


def secured(bundle: Bundle, folder: Path) -> Bundle:
    """Return a bundle whose files this user and root alone can change: itself, or a copy in
    `folder`.

    `folder` is new and private. The copy has no finished base: the build copies that one itself.
    Raises BuildError for a file that is not what the lock says.
    """
    if _is_ours_alone(bundle):
        return bundle
    for path, sha256 in _files(bundle):
        target = folder / path.relative_to(bundle.folder)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _copy(path, target, sha256, bundle.folder)
    return replace(bundle, folder=folder, image=_image(bundle, folder))


def _is_ours_alone(bundle: Bundle) -> bool:
    files = [path for path, _ in _files(bundle)]
    folders = {path.parent for path in files} | {bundle.folder}
    if not all(guarded_files.is_private(Path(os.path.realpath(path))) for path in folders):
        return False
    closed = guarded_files.is_closed(Path(os.path.realpath(bundle.folder)))
    return all(guarded_files.is_own(path, closed=closed) for path in files)


def _files(bundle: Bundle) -> Iterator[tuple[Path, str]]:
    for name, sha256 in bundles.named_files(bundle.lock):
        yield bundle.folder / name, sha256
    if bundle.image is not None:
        for digest in bundle.image.blobs:
            sha256 = digest.removeprefix("sha256:")
            yield bundle.image.folder / oci_layout.BLOBS / sha256, sha256


def _copy(source: Path, target: Path, sha256: str, folder: Path) -> None:
    try:
        with (
            guarded_files.file(source) as opened,
            guarded_files.created(target, mode=0o644) as copy,
        ):
            copied = guarded_files.copy(opened, copy)
    except OSError as error:
        raise _changed(folder, f"{source.name}: {error.strerror}") from None
    if copied != sha256:
        raise _changed(folder, f"{source.name} has another checksum now: {copied[:12]}…")


def _image(bundle: Bundle, folder: Path) -> OciLayout | None:
    try:
        return carried_image.of(bundle.lock.base.image, bundle.lock.arch, folder / bundles.BASE)
    except DamagedLayoutError as error:
        raise _changed(bundle.folder, str(error)) from None


def _changed(folder: Path, why: str) -> BuildError:
    return BuildError(
        f"{folder} changed while dlcontainer read it",
        why=why,
        next_step="use a folder that only you can write to: dlcontainer fetch -o FOLDER",
    )
