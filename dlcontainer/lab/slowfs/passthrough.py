"""A read-only view of a folder that counts every request, and answers late."""

import errno
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dlcontainer.lab.slowfs import fuse_protocol
from dlcontainer.lab.slowfs.cache_profiles import Profile
from dlcontainer.lab.slowfs.counters import Counters, Operation
from dlcontainer.lab.slowfs.fuse_protocol import Opcode, Request
from dlcontainer.lab.slowfs.server_queue import ServerQueue

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, kw_only=True, slots=True)
class Delay:
    """What each operation and each read takes beside the queue, s."""

    operation_s: float = 0.0
    read_s: float = 0.0


@dataclass(slots=True)
class _Nodes:
    """Numbers for paths; a path keeps its number for good."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    paths: list[bytes] = field(default_factory=lambda: [b"", b"."])
    numbers: dict[bytes, int] = field(default_factory=lambda: {b".": fuse_protocol.ROOT})

    def number(self, path: bytes) -> int:
        with self.lock:
            number = self.numbers.get(path)
            if number is None:
                number = self.numbers[path] = len(self.paths)
                self.paths.append(path)
            return number


class PassThrough:
    """Answers requests; any number of threads may ask at a time.

    `root` is a descriptor of the folder, closed by `close`: it stays what it is when something is
    mounted over it.
    """

    def __init__(
        self, root: int, profile: Profile, delay: Delay, queue: ServerQueue, counters: Counters
    ) -> None:
        self._root = root
        self._profile = profile
        self._delay = delay
        self._queue = queue
        self._counters = counters
        self._nodes = _Nodes()
        self._listed: dict[int, list[tuple[int, bytes, int]]] = {}
        self._next_listing = 1
        self._lock = threading.Lock()
        self._hurried = threading.Event()
        self._answers: dict[int, Callable[[Request], bytes]] = {
            Opcode.INIT: lambda request: fuse_protocol.init(request.body),
            Opcode.DESTROY: lambda _: b"",
            Opcode.LOOKUP: self._lookup,
            Opcode.GETATTR: self._getattr,
            Opcode.READLINK: self._readlink,
            Opcode.OPEN: self._open,
            Opcode.READ: self._read,
            Opcode.STATFS: self._statfs,
            Opcode.RELEASE: self._release,
            Opcode.OPENDIR: self._opendir,
            Opcode.READDIR: self._readdir,
            Opcode.RELEASEDIR: self._releasedir,
        }

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._root)

    def hurry(self) -> None:
        """Answer without delay from now on: nobody waits for the answers any more."""
        self._hurried.set()

    def answer(self, request: Request) -> bytes | None:
        """Answer one request, after its time; None where none is wanted."""
        if request.opcode in fuse_protocol.NO_ANSWER:
            return None
        todo = self._answers.get(request.opcode)
        if todo is None:
            return fuse_protocol.refusal(request.unique, errno.ENOSYS)
        try:
            return fuse_protocol.answer(request.unique, todo(request))
        except OSError as error:
            return fuse_protocol.refusal(request.unique, error.errno or errno.EIO)

    def _reached(self, operation: Operation, request: Request, path: bytes) -> None:
        """Count a metadata operation and wait for its turn."""
        self._counters.add(operation, request.client, path)
        self._until(self._queue.operation() + self._delay.operation_s)

    def _until(self, moment: float) -> None:
        """Wait for a moment of the monotonic clock: work already done for it is inside."""
        remaining_s = moment - time.monotonic()
        while remaining_s > 0 and not self._hurried.wait(remaining_s):
            remaining_s = moment - time.monotonic()

    def _path(self, request: Request) -> bytes:
        return self._nodes.paths[request.node]

    def _lookup(self, request: Request) -> bytes:
        path = os.path.join(self._path(request), fuse_protocol.name(request.body))  # noqa: PTH118 - bytes
        try:
            info = os.stat(path, dir_fd=self._root, follow_symlinks=False)
        except FileNotFoundError:
            self._reached("failed_lookup", request, path)
            if not self._profile.negative_s:
                raise
            return fuse_protocol.absent(self._profile.negative_s)
        self._reached("lookup", request, path)
        node = self._nodes.number(path)
        return fuse_protocol.entry(node, info, self._profile.entry_s, self._kept(info))

    def _kept(self, info: os.stat_result) -> float:
        folder = (info.st_mode & 0o170000) == 0o040000
        return self._profile.folder_attr_s if folder else self._profile.attr_s

    def _getattr(self, request: Request) -> bytes:
        path = self._path(request)
        info = os.stat(path, dir_fd=self._root, follow_symlinks=False)
        self._reached("getattr", request, path)
        return fuse_protocol.attributes(info, self._kept(info))

    def _readlink(self, request: Request) -> bytes:
        path = self._path(request)
        target = os.readlink(path, dir_fd=self._root)
        self._reached("readlink", request, path)
        return target

    def _open(self, request: Request) -> bytes:
        if fuse_protocol.open_flags(request.body) & os.O_ACCMODE != os.O_RDONLY:
            raise OSError(errno.EROFS, "read-only")
        path = self._path(request)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        number = os.open(path, flags, dir_fd=self._root)
        self._reached("open", request, path)
        return fuse_protocol.opened(number)

    def _read(self, request: Request) -> bytes:
        number, offset, size = fuse_protocol.reading(request.body)
        data = os.pread(number, size, offset)
        self._counters.add("read", request.client, self._path(request), len(data))
        with self._counters.reading():
            self._until(self._queue.transfer(len(data)) + self._delay.read_s)
        return data

    def _release(self, request: Request) -> bytes:
        os.close(fuse_protocol.handle(request.body))
        return b""

    def _opendir(self, request: Request) -> bytes:
        path = self._path(request)
        number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._root)
        try:
            # By descriptor the names come as text; the bytes are the same.
            with os.scandir(number) as scan:
                listed = [(child.inode(), os.fsencode(child.name), _kind(child)) for child in scan]
        finally:
            os.close(number)
        self._reached("opendir", request, path)
        with self._lock:
            handle, self._next_listing = self._next_listing, self._next_listing + 1
            self._listed[handle] = listed
        return fuse_protocol.opened(handle, folder=True)

    def _readdir(self, request: Request) -> bytes:
        handle, offset, size = fuse_protocol.reading(request.body)
        listed = self._listed[handle]
        # FUSE asks again to hear that there is no more; a server says so with the last entry.
        if offset < len(listed) or offset == 0:
            self._reached("readdir", request, self._path(request))
        return fuse_protocol.entries(listed[offset:], offset, size)

    def _releasedir(self, request: Request) -> bytes:
        self._listed.pop(fuse_protocol.handle(request.body), None)
        return b""

    def _statfs(self, request: Request) -> bytes:
        self._reached("statfs", request, self._path(request))
        return fuse_protocol.statfs(os.fstatvfs(self._root))


def _kind(child: os.DirEntry[str]) -> int:
    if child.is_symlink():
        return 0o120000
    return 0o040000 if child.is_dir(follow_symlinks=False) else 0o100000


def open_root(source: Path) -> int:
    """Open the folder that is shown."""
    return os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
