"""An unpacked image: made the same for every publisher, and listed, so that a digest covers it.

Owners become the publisher's, modes 0755 or 0644, setuid bits go. Hard links stay; each name is
listed with its content. Devices, sockets and pipes go: only root could make them, and the engine
shows its own /dev. An empty `.cvmfscatalog` starts a catalogue of CernVM-FS where a folder has
many entries below it; its documents advise 1,000 to 200,000 a catalogue
(cvmfs.readthedocs.io, cpt-repo, "Managing Nested Catalogs").
"""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from dlcontainer.publish.ownership import Ownership
from dlcontainer.system import atomic_files, digests, guarded_files

FILE = "tree.list"
CATALOG = ".cvmfscatalog"
MOST_ENTRIES = 10_000


def settle(tree: Path, ownership: Ownership, most: int = MOST_ENTRIES) -> tuple[str, ...]:
    """Normalise an unpacked image and bring it to the disk; return what was left out.

    Nothing else has its folder open: it is private until its release has its name.
    """
    left_out: list[str] = []
    counts: dict[str, int] = {}
    for folder, below, names, number in os.fwalk(tree, topdown=False):
        os.fchmod(number, 0o755)
        os.fchown(number, os.geteuid(), ownership.group)
        for name in (*names, *below):
            kind = stat.S_IFMT(os.stat(name, dir_fd=number, follow_symlinks=False).st_mode)
            if kind == stat.S_IFREG:
                _file(name, number, ownership)
            elif kind == stat.S_IFLNK:
                own_id = os.geteuid()
                os.chown(name, own_id, ownership.group, dir_fd=number, follow_symlinks=False)
            elif kind != stat.S_IFDIR:
                os.unlink(name, dir_fd=number)
                left_out.append(str(Path(folder, name).relative_to(tree)))
        inner = sum(counts.pop(str(Path(folder, name)), 0) for name in below)
        count = inner + len(names) + len(below)
        if count > most and CATALOG not in names:
            os.close(os.open(CATALOG, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=number))
            count = 0
        counts[folder] = count
        atomic_files.sync_folder(number)
    return tuple(sorted(left_out))


def _file(name: str, folder: int, ownership: Ownership) -> None:
    # Of a file without a read bit too: the publisher owns it by then.
    os.chown(name, os.geteuid(), ownership.group, dir_fd=folder, follow_symlinks=False)
    before = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    os.chmod(name, 0o755 if before & 0o111 else 0o644, dir_fd=folder)
    number = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def text(tree: Path) -> bytes:
    """List a tree, sorted: kind, mode, SHA-256 or target, path; one JSON list a line."""
    with guarded_files.folder(str(tree)) as number:
        rows = list(_lines(number))
    lines = sorted(rows, key=lambda line: line[-1])
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def _lines(tree: int) -> Iterator[list[str]]:
    """List an open folder: its name may lead elsewhere by then."""
    hard_links: dict[int, str] = {}
    for folder, below, names, number in os.fwalk(".", dir_fd=tree):
        for name in (*names, *below):
            info = os.stat(name, dir_fd=number, follow_symlinks=False)
            path, mode = str(Path(folder, name)), f"{info.st_mode & 0o7777:04o}"
            if stat.S_ISDIR(info.st_mode):
                yield ["d", mode, "", path]
            elif stat.S_ISLNK(info.st_mode):
                yield ["l", "", os.readlink(name, dir_fd=number), path]
            elif stat.S_ISREG(info.st_mode):
                if info.st_ino not in hard_links:
                    hard_links[info.st_ino] = _sha256(name, number)
                yield ["f", mode, hard_links[info.st_ino], path]
            else:
                yield ["?", mode, "", path]


def _sha256(name: str, folder: int) -> str:
    number = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(number, "rb") as file:
        return digests.of_open(file)


def differences(listing: bytes, tree: int) -> Iterator[str]:
    """Name the entries of an open tree that are not as they are listed, each with the reason."""
    listed = {line[-1]: line for line in map(json.loads, listing.decode().splitlines())}
    present = {line[-1]: line for line in _lines(tree)}
    for path in sorted(listed.keys() | present.keys()):
        if path not in present:
            yield f"{path}: it is missing"
        elif path not in listed:
            yield f"{path}: it was not published"
        elif listed[path] != present[path]:
            kinds = ("its kind", "its mode", "its content")
            changed = [
                word
                for word, a, b in zip(kinds, listed[path], present[path], strict=False)
                if a != b
            ]
            yield f"{path}: {', '.join(changed)} changed"
