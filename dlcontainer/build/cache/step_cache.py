"""The kept results of steps: packed trees by key, whole, checked, of trusted makers."""

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dlcontainer.build.backends.backend import DamagedError, SaveTask
from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.cache import step_folders, step_notes, unfinished
from dlcontainer.build.cache.cached_step import CachedStep, Packages
from dlcontainer.build.cache.step_folders import NOTE, TREE, MakerFolder, StepEntry
from dlcontainer.build.cache.unfinished import PACKED, StagedResult
from dlcontainer.errors import BuildError
from dlcontainer.system import digests, file_locks, guarded_files


@dataclass(frozen=True, kw_only=True, slots=True)
class StepCache:
    """A folder of kept results; a group may share it.

    A checksum finds a damaged entry, but not one that somebody planted: an entry is used only if
    tree and note belong to this user or to one of `builders` (names of users), and what others
    could swap is used as a private copy of what was checked.
    """

    folder: Path
    builders: tuple[str, ...]
    on_note: Callable[[str], None]
    # (maker, key) of what is not used again by this build: else it would be found for ever
    _refused: set[tuple[str, str]] = field(default_factory=set, repr=False)
    # makers of whom was said that they are not trusted
    _strangers: set[int] = field(default_factory=set, repr=False)

    def recall(self, key: str) -> CachedStep | None:
        """Return what is noted of a key's result; None where there is none that may be used."""
        makers = step_folders.makers(self.folder)
        for maker in self._trusted(makers, key):
            try:
                with step_folders.opened(self.folder, maker, key) as entry:
                    return entry.kept
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                self._refuse(maker, key, f"is not used: {_why(error)}")
        self._tell_strangers(makers, key)
        return None

    def _trusted(self, makers: list[MakerFolder], key: str) -> list[MakerFolder]:
        """Return the makers whose entry of a key may be used, this user first."""
        names = (guarded_files.name_of(os.getuid()), *self.builders)
        ranking = []
        for maker in makers:
            name = guarded_files.name_of(maker.uid)
            rank = 0 if maker.uid == os.getuid() else 1
            if (name in names or not rank) and (name, key) not in self._refused:
                ranking.append((rank, maker.name, maker))
        return [maker for _, _, maker in sorted(ranking, key=lambda ranked: ranked[:2])]

    def _tell_strangers(self, makers: list[MakerFolder], key: str) -> None:
        for maker in makers:
            name = guarded_files.name_of(maker.uid)
            if maker.uid in (os.getuid(), *self._strangers) or name in self.builders:
                continue
            # By name: nothing of a stranger's is opened.
            if os.path.lexists(step_folders.shelf_path(self.folder, maker, key) / (key + TREE)):
                self._strangers.add(maker.uid)
                self.on_note(
                    f"ignoring cache entry {key[:12]}: {name} made it; to trust this user, "
                    "add the name to engine.builders of the site"
                )

    def _refuse(self, maker: MakerFolder, key: str, why: str) -> None:
        name = guarded_files.name_of(maker.uid)
        self._refused.add((name, key))
        self.on_note(f"cache entry {key[:12]} of {name} {why}")

    @contextlib.contextmanager
    def taken(self, kept: CachedStep, target: Path) -> Iterator[Callable[[], bool]]:
        """Hand out a kept result as `target`, a new name in a private folder, for a while.

        Gives what tells whether it has its checksum, which may take long; nothing of it may be
        used before. Raises DamagedError where it is no longer there.
        """
        with contextlib.ExitStack() as stack:
            opened_entry = self._opened_again(kept, stack)
            if opened_entry is None:
                self._refused.add((kept.maker, kept.key))
                raise DamagedError(kept.key)
            maker, entry = opened_entry
            try:
                yield self._handed(maker, entry, target)
            finally:
                target.unlink(missing_ok=True)

    def _opened_again(
        self, kept: CachedStep, stack: contextlib.ExitStack
    ) -> tuple[MakerFolder, StepEntry] | None:
        for maker in self._trusted(step_folders.makers(self.folder), kept.key):
            with contextlib.suppress(OSError, ValueError):
                entry = stack.enter_context(step_folders.opened(self.folder, maker, kept.key))
                if entry.kept == kept:
                    return maker, entry
        return None

    def _handed(self, maker: MakerFolder, entry: StepEntry, target: Path) -> Callable[[], bool]:
        key = entry.kept.key
        shelf = step_folders.shelf_path(self.folder, maker, key)
        if self._is_ours_alone(maker, shelf, entry):
            target.symlink_to(shelf / (key + TREE))
            return lambda: self._is_whole(maker, entry, digests.of_open(entry.tree))
        try:
            with guarded_files.created(target) as copy:
                sha256 = guarded_files.copy(entry.tree, copy)
        except OSError as error:
            # Not taken out: it is this folder's disk that is full, or the cache's that is ill.
            self._refuse(maker, key, f"cannot be copied: {_why(error)}")
            raise DamagedError(key) from None
        if not self._is_whole(maker, entry, sha256):
            raise DamagedError(key)
        return lambda: True

    def _is_ours_alone(self, maker: MakerFolder, shelf: Path, entry: StepEntry) -> bool:
        # Without a copy the engine opens the entry once more, by its path. That is safe where
        # nobody but this user and root can put another file there, on the whole way down from
        # the root of the file system; and while it is locked this user's own builds leave it.
        return (
            maker.uid == os.getuid()
            and guarded_files.is_private(shelf)
            and file_locks.share(entry.tree)
            and os.fstat(entry.tree).st_nlink > 0
        )

    def _is_whole(self, maker: MakerFolder, entry: StepEntry, sha256: str) -> bool:
        if sha256 == entry.sha256:
            with contextlib.suppress(OSError):  # another maker's
                os.utime(entry.note)  # used: pruned last
            return True
        self._refuse(maker, entry.kept.key, "is damaged: building it again")
        file_locks.release(entry.tree)
        self.drop(entry.kept.key)
        return False

    def keep(
        self, step: BuildStep, packages: Packages, work: Path, make: Callable[[Path], None]
    ) -> SaveTask:
        """Let `make` write a packed tree, and return what keeps it: it appears whole or not at all.

        `work` is a private folder on a disk with room. Both raise BuildError where it can't be
        kept.
        """
        with self._kept_here():
            result = self._begin(work)
        try:
            make(result.packed)
        except BaseException:
            self._remove(result)
            raise
        return lambda: self._settle(step, packages, result)

    def _begin(self, work: Path) -> StagedResult:
        self.folder.mkdir(parents=True, exist_ok=True)
        with step_folders.own(self.folder, self.on_note) as (maker, mine):
            return unfinished.begin(step_folders.resolved(self.folder) / maker.name, mine, work)

    def _settle(self, step: BuildStep, packages: Packages, result: StagedResult) -> None:
        try:
            with (
                self._kept_here(),
                step_folders.own(self.folder, self.on_note) as (_, mine),
                guarded_files.folder(result.name, mine) as handle,
            ):
                size, sha256 = unfinished.complete(result, handle)
                kept = CachedStep(
                    key=step.key,
                    name=step.name,
                    maker=guarded_files.name_of(os.getuid()),
                    made_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                    size=size,
                    packages=packages,
                )
                with guarded_files.created("note", handle, 0o644) as note:
                    step_notes.write(note, kept, sha256)
                with step_folders.own_shelf(mine, step.key) as shelf:
                    # The tree first: a note without one is no entry, and a wrong pair fails its
                    # checksum.
                    for name, suffix in ((PACKED, TREE), ("note", NOTE)):
                        os.rename(name, step.key + suffix, src_dir_fd=handle, dst_dir_fd=shelf)
                    os.fsync(shelf)
            self._refused.discard((kept.maker, kept.key))
        finally:
            self._remove(result)

    def _remove(self, result: StagedResult) -> None:
        if result.is_copied:
            shutil.rmtree(result.packed.parent, ignore_errors=True)
        with (
            contextlib.suppress(OSError),
            step_folders.own(self.folder, self.on_note) as (_, mine),
        ):
            unfinished.remove(mine, result.name)

    @contextlib.contextmanager
    def _kept_here(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise BuildError(
                f"cannot write steps to the cache {self.folder}: {_why(error)}",
                next_step="name another cache: engine.cache of the site, or XDG_CACHE_HOME",
            ) from None

    def drop(self, key: str) -> bool:
        """Take out what this user made of a key, unless it is in use; tell whether it is gone.

        What belongs to others stays.
        """
        gone = True
        for shelf in step_folders.shelves(self.folder, key[:2]):
            try:
                with guarded_files.file(key + TREE, shelf.handle) as tree:
                    # Held until it is gone: who wants it meanwhile finds it without a name.
                    if os.fstat(tree).st_uid == os.getuid() and file_locks.claim(tree):
                        # The note first: one that stays on a disk that is ill has its tree.
                        names = (key + NOTE, key + TREE)
                        gone = all(step_folders.unlink_own(shelf, name) for name in names) and gone
                    else:
                        gone = gone and os.fstat(tree).st_uid != os.getuid()
            except OSError:
                # No tree, or no regular file: what is left of this user's goes.
                for name in (key + NOTE, key + TREE):
                    gone = step_folders.unlink_own(shelf, name) and gone
        return gone

    def entries(self) -> list[tuple[CachedStep, float]]:
        """List all entries with their last use (s since 1970), the last first; those of others too.

        An entry's maker is its owner, whatever its note says. Halves of this user's are among them:
        they take up room too.
        """
        kept = [
            entry
            for shelf in step_folders.shelves(self.folder)
            for key in step_folders.keys(shelf)
            if (entry := step_folders.listed(shelf, key) or step_folders.half(shelf, key))
        ]
        return sorted(kept, key=lambda step_use: step_use[1], reverse=True)

    def prune(self, max_bytes: int) -> list[CachedStep]:
        """Take out what was used longest ago until the rest fits; return what was taken out.

        What belongs to others stays, and counts.
        """
        total, gone, me = 0, [], guarded_files.name_of(os.getuid())
        for kept, _ in self.entries():
            total += kept.size
            if total > max_bytes and kept.maker == me and self.drop(kept.key):
                gone.append(kept)
        return gone


def _why(error: OSError | ValueError) -> str:
    strerror = error.strerror if isinstance(error, OSError) else None
    return {errno.ELOOP: "it is a link"}.get(getattr(error, "errno", 0), strerror or str(error))
