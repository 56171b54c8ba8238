"""Reads and waits by file system, for `process_watch.py`.

Bytes are how far positions of open files moved between two looks, and never more than the process
read or wrote in all: reads at a place, mapped memory and files that came and went between are not
in them. Waits are looks at which a thread was in a call about a file of that file system.

Standard library only, Python >= 3.6.
"""

import os

import watch_calls
import watch_proc

_MOST_FILES = 256
_COUNTS = (b"rchar", b"wchar", b"read_bytes", b"write_bytes")


class FileTally:
    """What was read, written and waited for, by device."""

    def __init__(self):
        self.mounts = watch_proc.Mounts()
        # By device: bytes read and written; and by device and call: looks, seconds, of threads too.
        self.moved, self.waits = {}, {}
        self.opened, self.told = {}, {}

    def placed(self, record, call):
        """Return what a thread is at, with the device of its file where that is told."""
        if call.kind not in watch_calls.OF_FILES:
            return call.kind, None
        if call.address is not None:
            return call.kind, self._of_path(record.pid, call)
        if call.fd is None or call.fd < 0:
            return call.kind, None
        file = watch_proc.open_file(record.pid, call.fd)
        if file is None:
            return call.kind, None
        device = self.mounts.of_mount(record.pid, file.mount)
        if device is not None:
            return call.kind, device
        place = watch_proc.link(f"/proc/{record.pid}/fd/{call.fd}") or ""
        if place.startswith("pipe:"):
            return watch_calls.PIPE, None
        return (watch_calls.SOCKET if place.startswith("socket:") else call.kind), None

    def _of_path(self, pid, call):
        path = watch_proc.path_at(pid, call.address)
        if path is None:
            return None
        if path.startswith("/"):
            return self.mounts.of_path(pid, path)
        if call.fd >= 0:
            file = watch_proc.open_file(pid, call.fd)
            return file and self.mounts.of_mount(pid, file.mount)
        folder = watch_proc.link(f"/proc/{pid}/cwd")
        return folder and self.mounts.of_path(pid, folder)

    def count(self, waited, passed):
        """Count a look: `waited` has the processes of the threads at each device and call."""
        for key, pids in waited.items():
            looks = self.waits.setdefault(key, [0, 0.0, 0.0])
            looks[0] += 1
            looks[1] += passed
            looks[2] += passed * len(pids)

    def figures(self, record):
        """Read a process's memory and bytes, and how far its files moved."""
        before = record.bytes
        files = self._positions(record.pid)
        counts = watch_proc.numbers(f"/proc/{record.pid}/io", *_COUNTS)
        status = watch_proc.fields(watch_proc.content(f"/proc/{record.pid}/status"))
        resident, peak, inner = (
            status.get(name, b"").split() for name in (b"VmRSS", b"VmHWM", b"NSpid")
        )
        first, record.queued = record.is_new, watch_proc.queued(record.pid)
        record.figures(
            int(resident[0]) if resident else None,
            int(peak[0]) if peak else None,
            int(inner[-1]) if inner else None,
            counts,
        )
        self._move(record, files, first, before)

    @staticmethod
    def last_bytes(record):
        """Take the bytes of a process that has ended; its files are closed."""
        record.bytes = watch_proc.numbers(f"/proc/{record.pid}/io", *_COUNTS) or record.bytes

    @staticmethod
    def _positions(pid):
        files = {}
        try:
            numbers = os.listdir(f"/proc/{pid}/fdinfo")
        except OSError:
            return files
        for number in numbers[:_MOST_FILES]:
            file = watch_proc.open_file(pid, number)
            if file is not None:
                files[number] = file
        return files

    def _move(self, record, files, first, before):
        """Add how far files moved since the last look; a new file began at 0."""
        key = (record.pid, record.begun)
        old = self.opened.get(key, {})
        told = self.told.setdefault(key, [0, 0])
        grown = record.bytes and before and record.bytes[1] - before[1] > record.bytes[0] - before[0]
        kept = {}
        for number, file in files.items():
            device = self.mounts.of_mount(record.pid, file.mount)
            if device is None:
                continue
            identity = (number, file.mount, file.inode)
            kept[identity] = file.position
            # What a process inherited, others moved before.
            start = old.get(identity, file.position if first else 0)
            way = file.flags & os.O_ACCMODE
            is_write = way == os.O_WRONLY or (way == os.O_RDWR and bool(grown))
            moved = max(0, file.position - start)
            if record.bytes is not None:
                moved = min(moved, max(0, record.bytes[is_write] - told[is_write]))
            told[is_write] += moved
            self.moved.setdefault(device, [0, 0])[is_write] += moved
        self.opened[key] = kept

    def forget(self, record):
        """Drop what is only needed while a process is there."""
        self.opened.pop((record.pid, record.begun), None)
        self.told.pop((record.pid, record.begun), None)

    def body(self):
        """Return it as it is written: a row for each device that was read, written or waited for."""
        devices = {*self.moved, *(device for device, _ in self.waits)}
        return [self._row(device) for device in sorted(devices, key=str)]

    def _row(self, device):
        system = self.mounts.file_systems.get(device)
        read, written = self.moved.get(device, (0, 0))
        return {
            "device": device,
            "point": system and system.point,
            "within": system.within if system else [],
            "type": system.kind if system else "",
            "source": system.source if system else "",
            "read_bytes": read,
            "written_bytes": written,
            "waits": {doing: looks for (of, doing), looks in self.waits.items() if of == device},
        }
