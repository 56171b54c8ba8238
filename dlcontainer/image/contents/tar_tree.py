"""A tree in a tar: an image in the making, in an engine's store."""

import shutil
import stat
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from dlcontainer.image.contents.model import TreeEntry
from dlcontainer.system import foreign_tars


@dataclass(frozen=True, kw_only=True, slots=True)
class TarTree:
    """The tree in a tar."""

    path: Path

    def entries(self) -> Sequence[TreeEntry]:
        """List all entries."""
        with tarfile.open(self.path, tarinfo=foreign_tars.Member) as tar:
            return sorted(map(_entry, tar), key=lambda entry: entry.path)

    def fetch(self, paths: Iterable[str], folder: Path) -> Mapping[str, Path]:
        """Lay regular files out in a private folder, by number: no name of the tar is used."""
        missing, files = set(paths), {}
        with tarfile.open(self.path, tarinfo=foreign_tars.Member) as tar:
            for number, member in enumerate(tar):
                path = _path(member)
                source = tar.extractfile(member) if path in missing and member.isreg() else None
                if source is not None:
                    files[path] = folder / f"file-{number}"
                    with source, files[path].open("wb") as target:
                        shutil.copyfileobj(source, target)
        return files

    def each_file(
        self,
        look: Callable[[str, BinaryIO], None],
        most: int,
        since_ns: int,  # noqa: ARG002 - a tar has no clock of its inodes
    ) -> None:
        """Show each regular file; see `search.Searched`."""
        with tarfile.open(self.path) as tar:
            for member in tar:
                source = tar.extractfile(member) if member.isreg() else None
                if source is not None and member.size <= most:
                    with source:
                        look(_path(member), cast("BinaryIO", source))


def _path(member: tarfile.TarInfo) -> str:
    return "/" + member.name.removeprefix("./").strip("/")


def _entry(member: tarfile.TarInfo) -> TreeEntry:
    kinds = ((member.isreg, "-"), (member.isdir, "d"), (member.issym, "l"), (member.islnk, "-"))
    kind = next((letter for is_it, letter in kinds if is_it()), "c")
    return TreeEntry(
        path=_path(member),
        kind=kind,
        size=member.size if member.isreg() else 0,
        mode=stat.filemode(member.mode)[1:],
        owner=f"{member.uid}/{member.gid}",
        target=member.linkname if member.issym() else "",
    )
