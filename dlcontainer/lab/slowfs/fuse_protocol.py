"""The kernel's side of FUSE: as much of the protocol as a read-only file system needs. Pure.

Source: Linux, include/uapi/linux/fuse.h, protocol 7.31; newer kernels speak it on request.
"""

import errno
import os
import stat
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

MAJOR, MINOR = 7, 31
ROOT = 1
MAX_READ = 1 << 20

_IN = struct.Struct("<IIQQIIIHH")
_OUT = struct.Struct("<IiQ")
_INIT_IN = struct.Struct("<IIII")
_INIT_OUT = struct.Struct("<IIIIHHIIHHI28x")
_ATTR = struct.Struct("<QQQQQQIIIIIIIIII")
_ENTRY = struct.Struct("<QQQQII")
_ATTR_OUT = struct.Struct("<QII")
_OPEN_OUT = struct.Struct("<QII")
_READ_IN = struct.Struct("<QQIIQII")
_DIRENT = struct.Struct("<QQII")
_STATFS = struct.Struct("<QQQQQIIII24x")

# What the kernel may do: read ahead, look up in parallel, ask for 1 MiB at once, keep links.
_ASYNC_READ, _PARALLEL_DIROPS, _MAX_PAGES, _CACHE_SYMLINKS = 1 << 0, 1 << 18, 1 << 22, 1 << 23
_WANTED = _ASYNC_READ | _PARALLEL_DIROPS | _MAX_PAGES | _CACHE_SYMLINKS
_KEEP_CACHE, _CACHE_DIR = 1 << 1, 1 << 3
_BACKGROUND = 128


class Opcode(IntEnum):
    """The requests that are answered; all others get ENOSYS, which the kernel remembers."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    READLINK = 5
    OPEN = 14
    READ = 15
    STATFS = 17
    RELEASE = 18
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    DESTROY = 38
    BATCH_FORGET = 42


NO_ANSWER = frozenset({Opcode.FORGET, Opcode.BATCH_FORGET})


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One request of the kernel's; `client` is the number of the asking thread."""

    opcode: int
    unique: int
    node: int
    client: int
    body: bytes


def request(message: bytes) -> Request:
    """Read what came from /dev/fuse."""
    _, opcode, unique, node, _, _, client, _, _ = _IN.unpack_from(message)
    return Request(opcode=opcode, unique=unique, node=node, client=client, body=message[_IN.size :])


def answer(unique: int, body: bytes) -> bytes:
    """Return a reply."""
    return _OUT.pack(_OUT.size + len(body), 0, unique) + body


def refusal(unique: int, errno: int) -> bytes:
    """Return a reply that says no."""
    return _OUT.pack(_OUT.size, -errno, unique)


def init(body: bytes) -> bytes:
    """Settle the protocol; raises OSError (EPROTO) for a kernel that is too old."""
    major, minor, readahead, flags = _INIT_IN.unpack_from(body)
    if major != MAJOR or minor < MINOR:
        raise OSError(errno.EPROTO, f"FUSE {major}.{minor} is too old")
    return _INIT_OUT.pack(
        MAJOR,
        MINOR,
        readahead,
        flags & _WANTED,
        _BACKGROUND,
        _BACKGROUND * 3 // 4,
        4096,
        1,
        MAX_READ // 4096,
        0,
        0,
    )


def name(body: bytes) -> bytes:
    """Read the name that a look-up asks for."""
    return body[: body.index(b"\0")]


def _attributes(info: os.stat_result) -> bytes:
    times = (info.st_atime_ns, info.st_mtime_ns, info.st_ctime_ns)
    return _ATTR.pack(
        info.st_ino,
        info.st_size,
        info.st_blocks,
        *(moment // 10**9 for moment in times),
        *(moment % 10**9 for moment in times),
        info.st_mode,
        info.st_nlink,
        info.st_uid,
        info.st_gid,
        info.st_rdev & 0xFFFFFFFF,
        min(info.st_blksize, MAX_READ),
        0,
    )


def _span(seconds: float) -> tuple[int, int]:
    whole = int(seconds)
    return whole, int((seconds - whole) * 10**9)


def entry(node: int, info: os.stat_result, entry_s: float, attr_s: float) -> bytes:
    """Answer a look-up: the node, and for how many s its name and attributes may be kept."""
    (entry_whole, entry_ns), (attr_whole, attr_ns) = _span(entry_s), _span(attr_s)
    head = _ENTRY.pack(node, 0, entry_whole, attr_whole, entry_ns, attr_ns)
    return head + _attributes(info)


def absent(negative_s: float) -> bytes:
    """Answer a look-up that found nothing, which may be kept for so many s."""
    whole, rest = _span(negative_s)
    return _ENTRY.pack(0, 0, whole, 0, rest, 0) + bytes(_ATTR.size)


def attributes(info: os.stat_result, attr_s: float) -> bytes:
    """Answer a stat."""
    whole, rest = _span(attr_s)
    return _ATTR_OUT.pack(whole, rest, 0) + _attributes(info)


def opened(handle: int, *, folder: bool = False) -> bytes:
    """Answer an open; what was read before stays in the client's memory."""
    return _OPEN_OUT.pack(handle, _KEEP_CACHE | (_CACHE_DIR if folder else 0), 0)


def open_flags(body: bytes) -> int:
    """Read the flags of an open."""
    return int(struct.unpack_from("<I", body)[0])


def reading(body: bytes) -> tuple[int, int, int]:
    """Read handle, offset and size of a read."""
    handle, offset, size, *_ = _READ_IN.unpack_from(body)
    return handle, offset, size


def handle(body: bytes) -> int:
    """Read the handle of a release."""
    return int(struct.unpack_from("<Q", body)[0])


def entries(listed: Iterable[tuple[int, bytes, int]], first: int, size: int) -> bytes:
    """Answer a readdir with as many of (inode, name, mode) as fit; `first` is their offset."""
    packed = bytearray()
    for offset, (inode, text, mode) in enumerate(listed, first + 1):
        record = _DIRENT.pack(inode, offset, len(text), stat.S_IFMT(mode) >> 12) + text
        record += bytes(-len(record) % 8)
        if len(packed) + len(record) > size:
            break
        packed += record
    return bytes(packed)


def statfs(info: os.statvfs_result) -> bytes:
    """Answer a statfs."""
    return _STATFS.pack(
        info.f_blocks,
        info.f_bfree,
        info.f_bavail,
        info.f_files,
        info.f_ffree,
        info.f_bsize,
        info.f_namemax,
        info.f_frsize,
        0,
    )
