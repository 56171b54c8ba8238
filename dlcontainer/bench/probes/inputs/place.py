"""Where the samples of `bench input` lie: the session's own folder, or one of the user's."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dlcontainer.bench.probes.base import Values
from dlcontainer.bench.probes.lending import SharedFolder, SharedStorage
from dlcontainer.errors import ChecksFailedError, UsageError
from dlcontainer.system import foreign_files

# Where a container sees the session's folder; every tree has an empty /mnt.
_INSIDE = "/mnt"
# What the probe writes last into a data set.
MADE = "made.json"
# Pages, headers and indexes beside the samples: of LMDB a third of 12 kB samples.
_BESIDE = 1.4
_COPIED = ("staged", "mixed")


def sizes(folder: Path) -> list[int]:
    """Return the sizes of all files below a user's folder; raises UsageError where there are
    none.
    """
    if not folder.is_dir():
        raise UsageError(f"--data {folder}: no such folder")
    sizes = [
        path.stat().st_size
        for parent, _, names in os.walk(folder)
        for name in names
        if not (path := Path(parent, name)).is_symlink() and path.is_file()
    ]
    if len(sizes) < 2:
        raise UsageError(
            f"--data {folder}: {len(sizes)} files, and a sample is a file",
            next_step="name a folder with two files or more",
        )
    return sizes


@contextmanager
def lent(values: Values, lending: SharedStorage) -> Iterator[tuple[SharedFolder, ...]]:
    """Hand all launches the session's folder and that of the data set, made by the first of them.

    Raises ChecksFailedError where a disk has no room for it, or nothing can be written.
    """
    work = lending.work / "input"
    # The data set, or where a container sees the user's folder.
    (work / "at").mkdir(parents=True, mode=0o700)
    copied = bytes_of(values) if set(_COPIED) & set(str(values["tiers"]).split(",")) else 0
    made_here = not values["folder"] and not values["data"]
    require_room(work, copied + (bytes_of(values) if made_here else 0), "TMPDIR")
    with _placed(values, lending, work / "at") as at:
        yield (
            SharedFolder(option="work", source=work, inside=_INSIDE),
            SharedFolder(option="at", source=at, inside=f"{_INSIDE}/at"),
        )


def bytes_of(values: Values) -> int:
    """Foresee the bytes of all formats on the disk."""
    if values["total"] is not None:
        return int(values["total"])
    formats = len(str(values["formats"]).split(","))
    return int(_BESIDE * int(values["samples"] or 0) * int(values["sample_bytes"] or 0) * formats)


def require_room(
    folder: Path,
    needed: int,
    what: str,
    fewer: str = "fewer --samples or --formats, or another folder",
) -> None:
    """Refuse samples that don't fit on a disk; raises ChecksFailedError."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ChecksFailedError(
            f"{what}: the samples take {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free",
            where=str(folder),
            why="each format is a copy of all samples, and so is what is staged",
            next_step=fewer,
        )


@contextmanager
def _placed(values: Values, lending: SharedStorage, source: Path) -> Iterator[Path]:
    if values["data"]:
        yield Path(str(values["data"]))
        return
    if not values["folder"]:
        yield source
        return
    from dlcontainer.system.workspace import workspace

    folder = Path(str(values["folder"]))
    if not folder.is_dir():
        raise UsageError(f"--folder {folder}: no such folder", next_step=f"mkdir -p {folder}")
    name = "dlcontainer-input-{samples}x{sample_bytes}-{shards}".format(**values)
    kept = folder / name
    if (kept / MADE).is_file():
        _require_formats(values, kept)
        lending.note(f"the data set that is there is read: {kept}")
        yield kept
        return
    if not os.access(folder, os.W_OK):
        raise ChecksFailedError(
            f"--folder {folder}: there is no {name} in it, and it can't be written",
            next_step="make it where it can: the same command with --keep and the writable folder",
        )
    require_room(folder, bytes_of(values), "--folder")
    if values["keep"]:
        kept.mkdir(exist_ok=True)
        lending.note(f"the data set stays: {kept}")
        yield kept
        return
    with workspace(folder, lending.runner, lending.note) as private:
        (private / "samples").mkdir()
        yield private / "samples"


def _require_formats(values: Values, kept: Path) -> None:
    """Refuse a data set without what is asked for, where that can't be added."""
    if os.access(kept, os.W_OK):
        return
    try:
        formats = set(foreign_files.loads((kept / MADE).read_text())["formats"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ChecksFailedError(
            f"{kept / MADE}: not what `bench input` writes ({error!r})",
            next_step="make the data set again, with --keep",
        ) from None
    absent = [name for name in str(values["formats"]).split(",") if name not in formats]
    if absent:
        raise ChecksFailedError(
            f"{kept}: there is no {', '.join(absent)} in it, and it can't be written",
            next_step=f"--formats {','.join(sorted(formats))}, or add them where it can be written",
        )
