"""The content of a release: its digest, its description, and whether it is as it was published.

The digest covers (path, mode, SHA-256) of image, wrappers, launch files, job and modulefiles. These
and the job's script name their own folder, which the digest names: they are counted with
PLACEHOLDER in its place, so the same release has the same digest below every root. Record, bill,
log and checks lie beside, held by SHA256SUMS.
"""

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dlcontainer.errors import PublishError
from dlcontainer.image import published_as
from dlcontainer.publish import checksums, modulefiles, tree_lock
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import layout
from dlcontainer.publish.unpacked import listing
from dlcontainer.system import digests, foreign_files, guarded_files
from dlcontainer.system.process import quote

# The folder that modulefiles and jobs name until the digest is known; no language quotes it.
PLACEHOLDER = Path("/@release@")
_ROOT = Path("/@root@")
FILE = published_as.FILE
IMAGE = "image.sif"
# An unpacked image, in its place.
TREE = layout.UNPACKED
SCHEMA = "dlcontainer/release/1"
_MOST_BYTES = 256_000_000
_QUOTED: Mapping[str, Callable[[object], str]] = {
    "module.lua": modulefiles.lua,
    "module.tcl": modulefiles.tcl,
    modulefiles.JOB: modulefiles.shell,
}
# Of a benchmark, put there after publishing.
_LATER = {"report.html", "report.json"}
_ALONE = (tree_lock.MARK, checksums.FILE, FILE, listing.CATALOG)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseDescription:
    """What a release says of itself; `folder` is the one that its modulefiles name.

    `number` is None where it was published before releases had numbers.
    """

    name: str
    version: str
    image: str
    folder: Path
    number: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseFault:
    """Something that is not as it was published; `module` is the one that users load of it."""

    where: str
    why: str
    module: str = ""


def digest_of(sums: Mapping[str, str]) -> str:
    """Return a release's digest, of the SHA-256 of each path; others than the covered are
    ignored.
    """
    lines = [f"{mode_of(path):04o} {sums[path]} {path}\n" for path in sorted(sums) if covers(path)]
    return hashlib.sha256(("dlcontainer/release/1\n" + "".join(lines)).encode()).hexdigest()


def covers(path: str) -> bool:
    """Return whether a file's content is part of the digest."""
    return path in (IMAGE, listing.FILE, *_QUOTED) or path.startswith(("bin/", "job/", "launch/"))


def mode_of(path: str) -> int:
    """Return the mode of a published file."""
    return 0o755 if path.startswith("bin/") else 0o644


def moved(path: str, data: bytes, old: Path, new: Path) -> bytes:
    """Let a modulefile or a job name another folder, quoted as the file's language does."""
    quote = _QUOTED.get(path)
    if quote is None:
        return data
    for before, after in ((old, new), (catalogue_of(old), catalogue_of(new))):
        data = data.replace(quote(before)[1:-1].encode(), quote(after)[1:-1].encode())
    return data


def catalogue_of(release: Path) -> Path:
    """Name the catalogue of the tree that a release's folder lies in, through what is live."""
    root = _ROOT if release == PLACEHOLDER else release.parent.parent
    return root / layout.CURRENT / "catalogue.html"


def described(release: Folder) -> ReleaseDescription:
    """Read what a release says of itself; raises PublishError for what is no release."""
    try:
        with release.open(FILE) as file:
            body = foreign_files.loads(foreign_files.content(file, 1_000_000))
        if body["schema"] != SCHEMA:
            raise ValueError(f"its schema is not {SCHEMA}")
        texts = {key: str(body[key]) for key in ("name", "version", "image")}
        number = body.get("number")
        if number is not None and type(number) is not int:
            raise TypeError("its number is not a whole number")
        return ReleaseDescription(folder=Path(str(body["folder"])), number=number, **texts)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise PublishError(
            f"{release.path / FILE} is damaged: {error}", where=str(release.path / FILE)
        ) from None


def require_sound(releases: Folder, digest: str, module: str) -> None:
    """Read all of a release; raises PublishError with the first fault."""
    for fault in faults(releases, digest):
        raise damaged(releases, digest, module, fault)


def damaged(releases: Folder, digest: str, module: str, fault: ReleaseFault) -> PublishError:
    """Return the error of a module whose release is damaged, and how to repair it."""
    hide = layout.typed(releases.path.parent, "unpublish", module)
    remove = quote(["rm", "-r", str(releases.path / digest)])
    return PublishError(
        f"the published release of {module} is damaged",
        where=fault.where,
        why=f"{fault.why}; nothing was changed, since jobs may be using it",
        next_step=f"hide it: {hide}\n        when no job uses it any more: {remove}\n"
        "        then publish again",
    )


def faults(releases: Folder, digest: str) -> Iterator[ReleaseFault]:
    """Compare a release with its checksums, modes and digest; all bytes of it are read."""
    path = releases.path / digest
    try:
        with releases.sub(digest) as release:
            yield from _faults(release, digest)
    except (OSError, PublishError) as error:
        yield unreadable(path, error)


def unreadable(path: Path, error: Exception) -> ReleaseFault:
    """Return what can't be read, and why."""
    why = getattr(error, "strerror", None) or getattr(error, "what", None) or error
    return ReleaseFault(where=str(getattr(error, "filename", None) or path), why=str(why))


def _faults(release: Folder, digest: str) -> Iterator[ReleaseFault]:
    description = described(release)
    try:
        with release.open(checksums.FILE) as file:
            sums = checksums.read(foreign_files.content(file, 1_000_000))
    except (OSError, ValueError) as error:
        yield unreadable(release.path / checksums.FILE, error)
        return
    present = dict(files(release))
    counted = {}
    for name, sha256 in sums.items():
        path = str(release.path / name)
        if name not in present:
            yield ReleaseFault(where=path, why="it is missing")
            continue
        if stat.S_IMODE(present[name].st_mode) != mode_of(name):
            yield ReleaseFault(
                where=path, why=f"its mode is {stat.S_IMODE(present[name].st_mode):04o}"
            )
        is_text = name in _QUOTED
        try:
            with opened(release, name) as file:
                data = foreign_files.content(file, _MOST_BYTES) if is_text else b""
                actual = hashlib.sha256(data).hexdigest() if is_text else digests.of_open(file)
        except OSError as error:
            yield unreadable(release.path / name, error)
            continue
        if actual != sha256:
            yield ReleaseFault(where=path, why=f"its SHA-256 is not the one in {checksums.FILE}")
        counted[name] = actual
        if is_text:
            original = moved(name, data, description.folder, PLACEHOLDER)
            counted[name] = hashlib.sha256(original).hexdigest()
    for name in sorted(present.keys() - sums.keys() - set(_ALONE) - _LATER):
        yield ReleaseFault(where=str(release.path / name), why="it was not published")
    yield from _image(release, description, sums)
    if digest_of(counted) != digest:
        yield ReleaseFault(where=str(release.path), why="its content does not match its digest")


def _image(
    release: Folder, description: ReleaseDescription, sums: Mapping[str, str]
) -> Iterator[ReleaseFault]:
    """Compare the image's name with its checksum, or an unpacked one with its listing."""
    if listing.FILE not in sums:
        if sums.get(IMAGE) != description.image:
            yield ReleaseFault(where=str(release.path), why="its content does not match its digest")
        return
    path = release.path / TREE
    try:
        with release.open(listing.FILE) as file, release.sub(TREE) as tree:
            listed = foreign_files.content(file, _MOST_BYTES)
            for why in listing.differences(listed, tree.number):
                name, _, reason = why.rpartition(": ")
                yield ReleaseFault(where=str(path / name), why=reason)
    except (OSError, ValueError, PublishError) as error:
        yield unreadable(path, error)


def files(release: Folder) -> Iterator[tuple[str, os.stat_result]]:
    """List all that lies in a release, one folder deep; an unpacked image has its own listing."""
    for name in guarded_files.names(release.number):
        if name == TREE:
            continue
        info = release.info(name)
        if info is not None and stat.S_ISDIR(info.st_mode):
            with release.sub(name) as folder:
                for inner in guarded_files.names(folder.number):
                    within = folder.info(inner)
                    if within is not None:
                        yield f"{name}/{inner}", within
        elif info is not None:
            yield name, info


@contextlib.contextmanager
def opened(release: Folder, path: str) -> Iterator[BinaryIO]:
    """Open a file of a release, in its folder or one below."""
    within, _, name = path.rpartition("/")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(release.sub(within)) if within else release
        yield stack.enter_context(folder.open(name))
