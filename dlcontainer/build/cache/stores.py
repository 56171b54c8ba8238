"""All that builds keep on this machine, of every kind: what it is, how big, when last used."""

import calendar
import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, get_args

from dlcontainer.build.cache.cached_step import CachedStep
from dlcontainer.build.cache.oci_layers import OciStore
from dlcontainer.build.cache.step_cache import StepCache
from dlcontainer.engines.oci import OciImage
from dlcontainer.errors import EngineError
from dlcontainer.system import file_locks, foreign_files, guarded_files
from dlcontainer.system.guarded_files import name_of

Kind = Literal["steps", "docker", "podman", "bases", "locked", "twins", "notes"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheEntry:
    """One thing that is kept: bytes on disk, last use in s since 1970, the user who made it."""

    kind: Kind
    key: str
    name: str
    size: int
    used: float
    maker: str


class Store(Protocol):
    """Where things of one kind are kept."""

    @property
    def kind(self) -> Kind:
        """What is kept there."""

    @property
    def place(self) -> str:
        """Where that is, for people."""

    def entries(self) -> list[CacheEntry]:
        """List what is there."""

    def remove(self, entry: CacheEntry) -> bool:
        """Take an entry out, unless it is in use or belongs to others; tell whether it is gone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepStore:
    """Apptainer's kept steps; one that is just being unpacked stays."""

    cache: StepCache
    kind: Kind = "steps"

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.cache.folder)

    def entries(self) -> list[CacheEntry]:
        """List the kept steps."""
        return [_of_kept(self.kind, kept, used) for kept, used in self.cache.entries()]

    def remove(self, entry: CacheEntry) -> bool:
        """Take a step out."""
        return entry.maker == name_of(os.getuid()) and self.cache.drop(entry.key)


@dataclass(frozen=True, kw_only=True, slots=True)
class Images:
    """The kept steps and bases in the store of Docker or Podman; what a container uses stays."""

    store: OciStore

    @property
    def kind(self) -> Kind:
        """The engine."""
        return self.store.client.daemon.kind

    @property
    def place(self) -> str:
        """The engine's store."""
        return str(self.store.client.daemon.storage)

    def entries(self) -> list[CacheEntry]:
        """List them; the layers of one that others stand on are used as long as these."""
        images = self.store.images()
        return [
            _of_kept(
                self.kind,
                self.store.kept(key, image),
                max(
                    _moment(descendant.created)
                    for _, descendant in images
                    if _stands_on(descendant, image)
                ),
            )
            for key, image in images
        ]

    def remove(self, entry: CacheEntry) -> bool:
        """Take an image out; the engine refuses where a container uses it."""
        try:
            self.store.drop(entry.key)
        except EngineError:
            return False
        return True


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderStore:
    """Folders of a cache, one a thing; `note` is the file that is written at each use."""

    kind: Kind
    folder: Path
    note: str

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.folder)

    def entries(self) -> list[CacheEntry]:
        """List the folders."""
        folders = [path for path in _children(self.folder) if _is_folder(path)]
        return _of_paths(self.kind, [(path, path / self.note) for path in folders])

    def remove(self, entry: CacheEntry) -> bool:
        """Remove a folder; first the note, without which it counts for nothing."""
        path = self.folder / entry.key
        return _removed(path / self.note) and _removed(path)


@dataclass(frozen=True, kw_only=True, slots=True)
class MiscStore:
    """Everything else in a cache's folder: what was found out here, and what was left there."""

    folder: Path
    foreign: frozenset[str]
    kind: Kind = "notes"

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.folder)

    def entries(self) -> list[CacheEntry]:
        """List what is in the folder and belongs to no other kind."""
        rest = [path for path in _children(self.folder) if path.name not in self.foreign]
        return _of_paths(self.kind, [(path, path) for path in rest])

    def remove(self, entry: CacheEntry) -> bool:
        """Remove a file or a folder."""
        return _removed(self.folder / entry.key)


def of_cache(cache: Path, steps: StepCache, engines: Iterable[OciStore]) -> list[Store]:
    """List the stores of a user: the folders of a cache, and the engines' that answer."""
    folders: list[Store] = [
        FolderStore(kind="bases", folder=cache / "bases", note="base.json"),
        FolderStore(kind="locked", folder=cache / "locked", note="lock.json"),
        FolderStore(kind="twins", folder=cache / "twins", note="ready.json"),
    ]
    foreign = frozenset({"steps", "bases", "locked", "twins", file_locks.ALL})
    notes = MiscStore(folder=cache, foreign=foreign)
    return [
        StepStore(cache=steps),
        *(Images(store=engine_store) for engine_store in engines),
        *folders,
        notes,
    ]


def entries(stores: Sequence[Store]) -> list[CacheEntry]:
    """List all that is kept, the last used first."""
    return sorted((stored for store in stores for stored in store.entries()), key=_age)


def prune(
    stores: Sequence[Store], max_bytes: int, cache: Path, on_note: Callable[[str], None]
) -> list[CacheEntry]:
    """Take out what was used longest ago until the rest fits; return what was taken out.

    While something builds from the cache only kept steps go, those that it does not use; what
    belongs to others stays, and counts.
    """
    with file_locks.alone(cache, on_note) as alone:
        if not alone:
            on_note("a build is running: pruning only those Apptainer steps that it does not use")
        gone: list[CacheEntry] = []
        stay = 0
        by_kind = {store.kind: store for store in stores}
        kept = entries(stores)
        rest = sum(entry.size for entry in kept)
        for entry in reversed(kept):
            if rest <= max_bytes and max_bytes > 0:
                break
            if not alone and entry.kind != "steps":
                continue
            if by_kind[entry.kind].remove(entry):
                rest -= entry.size
                gone.append(entry)
            else:
                stay += 1
        if stay:
            on_note(
                f"not removed: {stay} entries, which are in use, belong to another user, or are "
                "on a failing disk"
            )
    return gone


def shown(moment: float) -> str:
    """Show a time as UTC."""
    return time.strftime(_TIME, time.gmtime(moment))


def _age(entry: CacheEntry) -> tuple[float, str]:
    return -entry.used, entry.key


def _of_kept(kind: Kind, kept: CachedStep, used: float) -> CacheEntry:
    return CacheEntry(
        kind=kind,
        key=kept.key,
        name=kept.name or "base",
        size=kept.size,
        used=used,
        maker=kept.maker,
    )


def _of_paths(kind: Kind, paths: Iterable[tuple[Path, Path]]) -> list[CacheEntry]:
    """Describe folders or files, each with the note that tells of its last use."""
    kept = []
    for path, note in paths:
        with contextlib.suppress(OSError):  # gone since
            info = (note if note.exists() else path).lstat()
            name = path.name if note == path else _named(note)
            kept.append(
                CacheEntry(
                    kind=kind,
                    key=path.name,
                    name=name,
                    size=_size(path),
                    used=info.st_mtime,
                    maker=name_of(info.st_uid),
                )
            )
    return kept


def _named(note: Path) -> str:
    """Return what a folder is, as far as its note says so."""
    try:
        body = foreign_files.loads(guarded_files.read_own(note))
        return str(body.get("name") or note.parent.name)
    except (OSError, ValueError, AttributeError, RecursionError):
        return "not whole"


def _size(path: Path) -> int:
    """Return the bytes on disk, those of a hard link once."""
    if not _is_folder(path):
        return path.lstat().st_size
    inodes: dict[tuple[int, int], int] = {}
    for folder, _, files in os.walk(path):
        for file in files:
            with contextlib.suppress(OSError):
                info = Path(folder, file).lstat()
                inodes[info.st_dev, info.st_ino] = info.st_size
    return sum(inodes.values())


def _is_folder(path: Path) -> bool:
    """Return whether a path is a folder, and no link to one somewhere else."""
    return path.is_dir() and not path.is_symlink()


def _children(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted(folder.iterdir())
    return []


def _removed(path: Path) -> bool:
    if _is_folder(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
    return not os.path.lexists(path)


def _moment(created: str) -> float:
    # Engines add fractions of a second, or a zone that is always UTC's.
    return calendar.timegm(time.strptime(created[:19], "%Y-%m-%dT%H:%M:%S"))


def _stands_on(image: OciImage, descendant: OciImage) -> bool:
    return image.layers[: len(descendant.layers)] == descendant.layers
