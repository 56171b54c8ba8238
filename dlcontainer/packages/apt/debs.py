"""A .deb read without dpkg: an ar archive of two tars (deb(5))."""

import io
import lzma
import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from dlcontainer.errors import BuildError
from dlcontainer.system import foreign_tars

_MAGIC = b"!<arch>\n"
_HEAD = 60
# Beyond this a control file or a keyring is none.
_MOST = 4_000_000
_PACKING = (zlib.error, lzma.LZMAError)
_READABLE = ("", ".gz", ".xz", ".bz2")


def control(path: Path) -> str:
    """Return a package's control fields; raises BuildError for one that can't be read."""
    return _member(path, "control.tar", "control").decode(errors="replace").strip("\n")


def content(path: Path, name: str) -> bytes:
    """Return one file of a package, by its path from the root; raises BuildError."""
    return _member(path, "data.tar", name)


def _member(path: Path, part: str, name: str) -> bytes:
    try:
        packed = {name.removesuffix("/"): body for name, body in _parts(path)}
        with _tar(packed, part) as tar:
            for entry in tar:
                if PurePosixPath(entry.name) == PurePosixPath(name) and entry.isreg():
                    file = tar.extractfile(entry)
                    if file is not None and entry.size <= _MOST:
                        return file.read()
    # Each way of packing has errors of its own, which tarfile hands on.
    except (OSError, ValueError, EOFError, OverflowError, tarfile.TarError, *_PACKING) as error:
        raise _refused(path, str(error)) from None
    raise _refused(path, f"it has no {name}")


def _tar(packed: Mapping[str, bytes], part: str) -> tarfile.TarFile:
    for suffix in _READABLE:
        if f"{part}{suffix}" in packed:
            return tarfile.open(
                fileobj=io.BytesIO(packed[f"{part}{suffix}"]), tarinfo=foreign_tars.Member
            )
    names = ", ".join(sorted(packed))
    raise ValueError(f"no {part} in a compression that this Python can unpack; it has {names}")


def _parts(path: Path) -> Iterator[tuple[str, bytes]]:
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("it is not an ar archive")
        while head := file.read(_HEAD):
            if len(head) < _HEAD or head[58:] != b"`\n":
                raise ValueError("its list of members is truncated or damaged")
            size = int(head[48:58])
            if not 0 <= size <= os.fstat(file.fileno()).st_size:
                raise ValueError("it is truncated")
            body = file.read(size)
            if len(body) < size:
                raise ValueError("it is truncated")
            file.read(size % 2)
            yield head[:16].decode(errors="replace").strip(), body


def _refused(path: Path, why: str) -> BuildError:
    return BuildError(
        f"cannot read {path.name} as a Debian package",
        why=why,
        next_step="fetch the package again: dlcontainer fetch",
    )
