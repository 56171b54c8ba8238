"""The kept results of steps: packed trees by key, whole, checked, of trusted makers."""

import contextlib
import hashlib
import json
import os
import pwd
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dlcontainer import inuse
from dlcontainer.errors import BuildError
from dlcontainer.stepwork import StepWork
from dlcontainer.workbench import Keeping, Kept, Packages
from dlcontainer.workspace import settle

_PACKED = ".sqfs"
_NOTE = ".json"


@dataclass(frozen=True, kw_only=True, slots=True)
class StepCache:
    """A folder of kept results; a group may share it.

    A checksum finds a damaged entry, but not one that somebody planted: an entry is used only if
    its file belongs to this user or to one of `builders` (names of users).
    """

    folder: Path
    builders: tuple[str, ...]
    on_note: Callable[[str], None]

    def path(self, key: str) -> Path:
        """Name the packed tree of a key."""
        return self.folder / key[:2] / f"{key}{_PACKED}"

    def recall(self, key: str) -> Kept | None:
        """Give what is noted of a key's result; None where there is none that may be used."""
        try:
            body = json.loads(self.path(key).with_suffix(_NOTE).read_text())
            info = self.path(key).stat()
            kept = _read(body)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            self.on_note(f"the cache's entry {key[:12]} can't be read: not used")
            return None
        maker = name_of(info.st_uid)
        if info.st_uid != os.getuid() and maker not in self.builders:
            self.on_note(
                f"the cache's entry {key[:12]} ({kept.name}) was made by {maker}: not used; to "
                "trust that user add them to engine.builders of the site"
            )
            return None
        return replace(kept, key=key, maker=maker, size=info.st_size)

    def fetch(self, key: str, work: Path) -> Path | None:
        """Give a key's packed tree, for `is_whole` to check; None for one that can't be had.

        What another user made is copied into `work`, a private folder, first: it can't change
        between the check and its use.
        """
        path = self.path(key)
        try:
            if path.stat().st_uid != os.getuid():
                path = Path(shutil.copyfile(path, work / path.name))
                _require_owner(self.path(key), path)
        except OSError:
            self._damaged(key)
            return None
        return path

    def is_whole(self, key: str, path: Path) -> bool:
        """Tell whether what `fetch` gave has its checksum; a damaged entry is taken out."""
        try:
            body = json.loads(self.path(key).with_suffix(_NOTE).read_text())
            with path.open("rb") as file:
                same = hashlib.file_digest(file, "sha256").hexdigest() == body["sha256"]
        except (OSError, ValueError, KeyError, TypeError):
            same = False
        if not same:
            self._damaged(key)
            return False
        with contextlib.suppress(OSError):
            os.utime(self.path(key).with_suffix(_NOTE))  # used: pruned last
        return True

    def _damaged(self, key: str) -> None:
        self.on_note(f"the cache's entry {key[:12]} is damaged: made anew")
        self.drop(key)

    def keep(self, step: StepWork, packages: Packages, make: Callable[[Path], None]) -> Keeping:
        """Let `make` write a packed tree, and give what keeps it: it appears whole or not at all.

        Both raise BuildError where it can't be kept.
        """
        aside = self._beside(self.path(step.key))
        try:
            make(aside)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        return lambda: self._settle(step, packages, aside)

    def _settle(self, step: StepWork, packages: Packages, aside: Path) -> None:
        path, note = self.path(step.key), aside.with_suffix(_NOTE)
        try:
            with aside.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            kept = Kept(
                key=step.key,
                name=step.name,
                maker=name_of(os.getuid()),
                made=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                size=aside.stat().st_size,
                packages=packages,
            )
            note.write_text(json.dumps({**asdict(kept), "sha256": sha256}) + "\n")
            # Where a group shares the folder, its other members read them.
            for made in (aside, note):
                made.chmod(0o644)
            # The tree first: a note without one is no entry, and a wrong pair fails its checksum.
            settle(aside, path)
            settle(note, path.with_suffix(_NOTE))
        finally:
            for left in (aside, note):
                left.unlink(missing_ok=True)

    def drop(self, key: str) -> None:
        """Take an entry out; what belongs to others stays."""
        for path in (self.path(key).with_suffix(_NOTE), self.path(key)):
            with contextlib.suppress(OSError):
                path.unlink()

    def entries(self) -> list[Kept]:
        """List all entries, the last used first; those of others too."""
        found = []
        for note in self.folder.glob(f"??/*{_NOTE}"):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                body = json.loads(note.read_text())
                size = note.with_suffix(_PACKED).stat().st_size
                found.append((note.stat().st_mtime, replace(_read(body), size=size)))
        return [kept for _, kept in sorted(found, key=lambda one: one[0], reverse=True)]

    def prune(self, max_bytes: int) -> list[Kept]:
        """Take out what was used longest ago until the rest fits; give what was taken out.

        What belongs to others stays, and counts.
        """
        total, gone = 0, []
        for kept in self.entries():
            total += kept.size
            if total > max_bytes and inuse.is_free(self.path(kept.key)):
                self.drop(kept.key)
                gone += [] if self.path(kept.key).exists() else [kept]
        return gone

    def _beside(self, path: Path) -> Path:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _reap(path.parent)
        except OSError as error:
            raise BuildError(
                f"can't keep steps in {self.folder}: {error.strerror}",
                next_step="give another cache: --cache DIR",
            ) from None
        return path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}{_PACKED}")


def _read(body: dict[str, Any]) -> Kept:
    fields = {name: body[name] for name in Kept.__dataclass_fields__}
    return Kept(**{**fields, "packages": tuple(fields["packages"])})


def _reap(folder: Path) -> None:
    """Remove what builds of this host left that are no more."""
    for left in folder.glob(f".*.{os.uname().nodename}.*"):
        number = left.stem.rsplit(".", 1)[-1]
        if number.isdigit() and not Path("/proc", number).exists():
            with contextlib.suppress(OSError):
                left.unlink()


def _require_owner(there: Path, copy: Path) -> None:
    # Between the copy and now nobody swapped the entry for one of another owner.
    if there.stat().st_size != copy.stat().st_size:
        raise OSError("it changed while it was copied")


def name_of(uid: int) -> str:
    """Give a user's name; the number for one without."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
