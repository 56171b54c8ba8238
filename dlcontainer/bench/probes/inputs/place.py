"""Where the samples of `bench input` lie: the session's own folder, or one of the user's."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dlcontainer.bench.probes.lending import SharedFolder, SharedStorage
from dlcontainer.bench.probes.probe import Values
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
            f"--data {folder}: too few files ({len(sizes)}); each file is one sample",
            next_step="name a folder with at least two files",
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
    fewer: str = "use fewer --samples or --formats, or another folder",
) -> None:
    """Refuse samples that don't fit on a disk; raises ChecksFailedError."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ChecksFailedError(
            f"{what}: the samples need {needed / 1e9:.3g} GB, but only {free / 1e9:.3g} GB are "
            "free",
            where=str(folder),
            why="each format stores a copy of all samples, and so does staging",
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
        lending.note(f"reading the existing data set {kept}")
        yield kept
        return
    if not os.access(folder, os.W_OK):
        raise ChecksFailedError(
            f"--folder {folder}: the data set {name} is missing, and the folder is not writable",
            next_step="make the data set first: run this command with --keep where the folder is "
            "writable",
        )
    require_room(folder, bytes_of(values), "--folder")
    if values["keep"]:
        kept.mkdir(exist_ok=True)
        lending.note(f"keeping the data set {kept}")
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
            f"{kept / MADE}: not a file of `bench input` ({error!r})",
            next_step="make the data set again with --keep",
        ) from None
    absent = [name for name in str(values["formats"]).split(",") if name not in formats]
    if absent:
        raise ChecksFailedError(
            f"{kept}: no samples in {', '.join(absent)}, and the data set is not writable",
            next_step=f"use --formats {','.join(sorted(formats))}, or add the missing formats "
            "where the data set is writable",
        )
