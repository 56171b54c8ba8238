"""What is mounted, and by how many processes, while a launch runs: read from /proc, on this node.

Only processes below this one are looked at: mounts of an engine are in namespaces of their own.
"""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import JsonValue

from dlcontainer.system.supervisor import processes

# Seldom enough to cost a hundredth of a processor, often enough for a launch of half a second.
_EVERY_S = 0.05
_PATIENCE_S = 5.0
_SERVERS = frozenset({"squashfuse", "squashfuse_ll", "squashfuse3", "squashfuse_ll3", "fuse2fs"})


class MountWatch:
    """Looks again and again, in a thread of its own, as long as it is entered.

    Of the mounts that all of this machine see, those below `work` are ours.
    """

    def __init__(self, work: Path) -> None:
        self._work = work.resolve()
        self._most_mounts = self._most_servers = self._looks = 0
        self._names: set[str] = set()
        self._last: set[int] = set()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dlcontainer-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join(_PATIENCE_S)

    def seen(self) -> Mapping[str, JsonValue]:
        """Return the most at a time: mounts of images, processes that serve them, and how often."""
        servers: list[JsonValue] = [*sorted(self._names)]
        return {
            "image_mounts": self._most_mounts,
            "fuse_processes": self._most_servers,
            "servers": servers,
            "looks": self._looks,
        }

    def _run(self) -> None:
        while not self._end.wait(_EVERY_S):
            self._look()

    def _look(self) -> None:
        children = processes()
        under = list(_below(os.getpid(), children))
        named = {pid: name for pid in under if (name := _name(pid)) in _SERVERS}
        # Engines ask these programs for their version too: then they hold no device.
        serving = served_by(
            {pid: name for pid, name in named.items() if _holds_fuse(pid)}, children
        )
        served = [name for pid, name in serving.items() if pid in self._last]
        self._last = set(serving)
        mounts: set[str] = set()
        current: set[str] = set()
        for pid in under:
            space = _namespace(pid)
            if space and space not in current:
                current.add(space)
                mounts |= set(image_mounts(pid))
        everyones = image_mounts(os.getpid())
        foreign = {device for device, at in everyones.items() if not at.is_relative_to(self._work)}
        self._most_servers = max(self._most_servers, len(served))
        self._most_mounts = max(self._most_mounts, len(mounts - foreign))
        self._names |= set(served)
        self._looks += 1


def _below(pid: int, children: Mapping[int, list[int]]) -> Iterator[int]:
    for child in children.get(pid, []):
        yield child
        yield from _below(child, children)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""


def served_by(named: Mapping[int, str], children: Mapping[int, list[int]]) -> dict[int, str]:
    """Leave out a server that has forked and waits for its child, which serves in its place."""
    return {
        pid: name
        for pid, name in named.items()
        if not any(child in named for child in children.get(pid, []))
    }


def _holds_fuse(pid: int) -> bool:
    """Return whether a process has the FUSE device open; also where that may not be seen."""
    try:
        files = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return True
    for file in files:
        with suppress(OSError):
            # Another mount namespace may have the device under another folder.
            if file.readlink().name == "fuse":
                return True
    return False


def _namespace(pid: int) -> str:
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/mnt").readlink())
    return ""


def image_mounts(pid: int | str) -> dict[str, Path]:
    """Return the devices of SquashFS mounts that a process sees, and where they are."""
    try:
        text = Path(f"/proc/{pid}/mountinfo").read_text(errors="replace")
    except OSError:
        return {}
    return images(text)


def images(mountinfo: str) -> dict[str, Path]:
    """Read the mounts of images from a mountinfo(5): device and place."""
    images_at = {}
    for line in mountinfo.splitlines():
        # 36 35 98:0 /root /point options ... - kind source options
        before, _, right = line.partition(" - ")
        fields, kinds = before.split(" "), right.split(" ")
        if len(fields) > 4 and is_image(kinds[0]):
            images_at[fields[2]] = Path(fields[4])
    return images_at


def is_image(kind: str) -> bool:
    """Return whether a file system's kind is that of an image, however it is served."""
    return kind == "squashfs" or kind == "fuse" or kind.startswith("fuse.squashfuse")
