"""What contents are made of: entries of a tree, packages, libraries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from dlcontainer.image.licensing.package_license import PackageLicense

Kind = Literal["deb", "rpm", "pypi", "conda"]

# No package database comes near it; a file beyond is left unread, for it is no database.
MOST_BYTES = 256_000_000
# Nor a text that lists packages or a package's files: Debian's with everything in it has 5 MB.
MOST_TEXT_BYTES = 16_000_000
_LONGEST_SIZE = 18


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeEntry:
    """One file of a tree, by its path in the image; `kind` as `ls -l` shows it: -, d, l …"""

    path: str
    kind: str
    size: int
    # permissions as `ls -l` shows them, "user/group" by number, a link's target, the time to the
    # minute where a listing has it
    mode: str = ""
    owner: str = ""
    target: str = ""
    time: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class InstalledPackage:
    """One installed package as its database says; size in bytes, as installed, where known.

    `places` are the folders of the environments that have it; `details` what the database says
    beside: an installer, a build, a channel. `sha256` is of the package's file, or, where
    `sha256_of` names one, of that list of installed files. `needs` are as its database writes
    them, None where it tells none; `provides` are further names that others may need.
    """

    kind: Kind
    name: str
    version: str
    arch: str = ""
    size: int | None = None
    places: tuple[str, ...] = ()
    details: tuple[tuple[str, str], ...] = ()
    sha256: str = ""
    sha256_of: str = ""
    license: PackageLicense | None = None
    needs: tuple[str, ...] | None = None
    provides: tuple[str, ...] = ()
    # of an image that was extended: which part of it has the package, "base" or "layer"
    part: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Library:
    """A shared library: its own name (DT_SONAME) and those that it needs (DT_NEEDED)."""

    path: str
    soname: str
    needed: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeContents:
    """What was found in a tree; sizes in bytes, unpacked, by folder."""

    packages: tuple[InstalledPackage, ...]
    # ID and VERSION_ID of os-release
    distribution: str
    release: str
    files: int
    size: int
    folders: Mapping[str, int]
    # what could not be read, and why
    notes: tuple[str, ...] = ()
    # files whose names are those of libraries with terms of their own
    vendor_files: tuple[str, ...] = ()


class FileTree(Protocol):
    """The files of an image, wherever they lie."""

    def entries(self) -> Sequence[TreeEntry]:
        """List all entries; paths are absolute, as in the image."""

    def fetch(self, paths: Iterable[str], folder: Path) -> Mapping[str, Path]:
        """Lay regular files out in a private folder, by path; what can't be read is left out."""


def is_plain(path: Path, root: Path) -> bool:
    """Return whether a path is a file of a tree; through a link, in any part of it, it may not
    be.
    """
    return path.is_file() and not path.is_symlink() and path.resolve().is_relative_to(root)


def size_of(text: object) -> int | None:
    """Read a size that a database says; None for what can't be one, however long it is."""
    if isinstance(text, str) and len(text) <= _LONGEST_SIZE and text.isdecimal():
        text = int(text)
    # A bool is an int for Python.
    return text if type(text) is int and 0 <= text < 10**_LONGEST_SIZE else None
