"""What would harm this host while an image is unpacked: refused before the engine touches it.

The engine writes files of its own into a tree, and so does the layer: through a link of the image's
they would land on this host. An image may also unpack to more than any disk holds.
"""

import gzip
import io
import posixpath
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from dlcontainer.adopt import links as links_
from dlcontainer.adopt.links import EnginePaths, LinkReplacement
from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import layout
from dlcontainer.image.contents import TreeEntry
from dlcontainer.image.contents.following import LeavesError, follow
from dlcontainer.system import foreign_tars

# The engine and the layer write in these: folders, or links that stay in the tree.
FOLDERS = (
    *("/bin", "/dev", "/etc", "/home", "/lib", "/lib64", "/mnt", "/opt", "/proc", "/root", "/run"),
    *("/sbin", "/sys", "/tmp", "/usr", "/var", "/var/tmp"),  # noqa: S108
)
# Written into by name: no link at all, in no place below.
OWN = ("/.singularity.d", "/opt")
# The engine makes these where they are missing, and empties what they lead to.
_FILES = ("/etc/hosts", "/etc/resolv.conf", "/etc/passwd", "/etc/group")
_OUTSIDE = "an engine writes to this path, and would write outside the image"
_WRITTEN = EnginePaths(folders=FOLDERS, files=_FILES)
_MOST_ENTRIES = 10_000_000
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


def require_harmless(entries: Sequence[TreeEntry], most: int, where: object) -> None:
    """Refuse a tree by its entries; raises ChecksFailedError."""
    require_writable(entries, most, where)
    if any(entry.path == layout.FOLDER for entry in entries):
        raise ChecksFailedError(
            f"{where} already has a {layout.FOLDER}",
            why="dlcontainer made the image, or another program wrote to this path; `adopt` "
            "replaces nothing",
            next_step="publish this image with its record beside it (of a published module: "
            "record.json of the release's folder); to add packages to it: dlcontainer extend",
        )


def require_writable(entries: Sequence[TreeEntry], most: int, where: object) -> None:
    """Refuse a tree that the engine can't unpack and write to; raises ChecksFailedError."""
    total = sum(entry.size for entry in entries)
    if total > most:
        raise _too_large(where, most)
    links = {entry.path: entry.target for entry in entries if entry.kind == "l"}
    require_links(links, where)
    shared = [path for path in FOLDERS if path not in links]
    for entry in entries:
        if entry.path in shared and entry.kind != "d":
            raise _link(where, entry.path, "it is not a folder")


def require_links(links: Mapping[str, str], where: object) -> None:
    """Refuse links where the engine or the layer writes; raises ChecksFailedError.

    An absolute link to a folder that this host has too is none: nothing is made there.
    """
    for path in (*_require_inside(links, where), *FOLDERS, *_FILES):
        first = links_.absolute(path, links)
        if first and not (path in FOLDERS and Path(_on_host(first, path, links)).is_dir()):
            raise _link(
                where,
                path,
                f"{first} is a link to {links[first]!r}; {_OUTSIDE}",
                "give the image that this SIF was made from, as docker://NAME or as an OCI "
                "archive: `adopt` then redirects such links into the image",
            )


def _require_inside(links: Mapping[str, str], where: object) -> list[str]:
    """Refuse what leads out of the tree, or where no link may be; return the engine's own links."""
    engine_links = [path for path in links if path.startswith(f"{OWN[0]}/")]
    for path in (*OWN, *engine_links, *FOLDERS, *_FILES):
        if path in OWN and path in links:
            raise _link(where, path, f"it is a link to {links[path]!r}; {_OUTSIDE}")
        try:
            follow(path, links)
        except LeavesError as error:
            raise _link(where, path, f"it leads {error}; {_OUTSIDE}") from None
    return engine_links


def _on_host(first: str, path: str, links: Mapping[str, str]) -> str:
    """Return where this host ends up on a path of a tree: at its first absolute link."""
    rest = path.removeprefix(first) if path.startswith(f"{first}/") else ""
    return links[first] + rest


@dataclass(slots=True, kw_only=True)
class _LimitedStream(io.RawIOBase):
    """A stream that ends with a refusal once it gave all that is left of an allowance."""

    source: BinaryIO
    remaining: int
    most: int
    where: object

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self.source.read(size)
        self.remaining -= len(data)
        if self.remaining < 0:
            raise _too_large(self.where, self.most)
        return data


def require_layers(
    folder: Path, manifest: Mapping[str, Any], most: int, where: object
) -> list[LinkReplacement]:
    """Read the layers of a layout through once, without unpacking them to disk.

    Gives what must take the place of links that the engine would follow to this host. Raises
    ChecksFailedError for links that leave the image and for more than `most` bytes unpacked.
    """
    links: dict[str, str] = {}
    folders: set[str] = set()
    remaining = most
    for layer in manifest["layers"]:
        path = folder / "blobs" / "sha256" / layer["digest"].removeprefix("sha256:")
        with path.open("rb") as file:
            counted = _LimitedStream(
                source=_unpacked(file, where), remaining=remaining, most=most, where=where
            )
            try:
                for kind, name, target in _members(counted):
                    # A later layer's file takes the place of a link, and the other way round.
                    links.pop(name, None)
                    folders.discard(name)
                    if kind == "l":
                        links[name] = target
                    above = name if kind == "d" else posixpath.dirname(name)
                    while above not in folders:  # "/" leads to itself
                        folders.add(above)
                        above = posixpath.dirname(above)
                    if name in OWN and kind == "-":
                        raise _link(where, name, "it is not a folder")
                engine_links = _require_inside(links, where)
            except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
                raise ChecksFailedError(
                    f"{where}: a layer can't be read",
                    why=f"{layer['digest']}: {error}",
                    next_step="copy the image again",
                ) from None
            remaining = counted.remaining
    for path in engine_links:
        if path in links and links_.absolute(path, links):
            raise _link(where, path, f"it is a link to {links[path]!r}; {_OUTSIDE}")
    return links_.fixes(_WRITTEN, links, folders)


def _unpacked(file: BinaryIO, where: object) -> BinaryIO:
    head = file.read(4)
    file.seek(0)
    if head[:2] == _GZIP:
        return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]
    if head == _ZSTD:
        raise ChecksFailedError(
            f"{where} has layers compressed with zstd",
            why="their unpacked size is not known before they are unpacked",
            next_step="copy it: skopeo copy --dest-compress-format gzip --dest-force-compress-"
            "format SOURCE oci-archive:FILE; or convert it to a SIF",
        )
    return file


def _members(stream: _LimitedStream) -> Iterator[tuple[str, str, str]]:
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=foreign_tars.Member) as tar:
        for number, member in enumerate(tar):
            if number > _MOST_ENTRIES:
                raise tarfile.ReadError(f"it lists more than {_MOST_ENTRIES} files")
            name = posixpath.normpath("/" + member.name.lstrip("/"))
            # It removes the name in the layers below.
            folder, base = posixpath.split(name)
            if base.startswith(".wh."):
                name = posixpath.join(folder, base[4:])
                yield "removed", name, ""
            elif member.issym():
                yield "l", name, member.linkname
            else:
                yield ("d" if member.isdir() else "-"), name, ""
            tar.members.clear()  # type: ignore[attr-defined]  # typeshed leaves it out
    # What stands behind the end of the tar is unpacked too.
    while stream.read(1 << 20):
        pass


def _link(where: object, path: str, why: str, next_step: str | None = None) -> ChecksFailedError:
    return ChecksFailedError(
        f"{where}: {path} can't be unpacked here",
        why=why,
        next_step=next_step
        or "choose an image that has a folder there, or a link within the image",
    )


def _too_large(where: object, most: int) -> ChecksFailedError:
    return ChecksFailedError(
        f"{where} unpacks to more than {most / 1e9:.0f} GB",
        why="this is more than the limit, or more than the free disk space",
        next_step="use a larger disk (--tmpdir DIR), or raise the limit: --most-gb N",
    )
