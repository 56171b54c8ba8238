"""/proc as `process_watch.py` reads it: processes, their open files, and the file systems of these.

A process may end between two reads, and some files are not ours to read: then there is None.
Nothing here follows a path to a file of the program: that would wait for its file system.

Standard library only, Python >= 3.6.
"""

import contextlib
import os
import time

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_PAGE = 4096
_MOST_PATH = 4096
_MOST_NAME = 60
_MOST_TEXT = 200
_MOST_POINTS = 4
# Mounts that are not known are looked for again.
_AGAIN_S = 2.0


def content(path, most=65536):
    """Return what a file of /proc holds; None where it is gone or closed to us."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        parts = [os.read(number, most)]
        # /proc gives at most a page at a time of some files.
        while parts[-1] and sum(map(len, parts)) < most:
            parts.append(os.read(number, most))
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(number)


def line(path):
    """Return what a short file of /proc holds, in one read; None as for `content`."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(number, 2048)
    except OSError:
        return None
    finally:
        os.close(number)


def link(path):
    """Return where a link of /proc leads, without going there."""
    with contextlib.suppress(OSError):
        return os.readlink(path)
    return None


class Stat:
    """/proc/PID/stat: times are seconds of the processor; `begun` tells a pid's turns apart."""

    __slots__ = ("begun", "children", "comm", "parent", "state", "system", "threads", "user")

    def __init__(self, text):
        # A name may hold anything, brackets and line ends too.
        begin, end = text.index(b"("), text.rindex(b")")
        self.comm = text[begin + 1 : end]
        words = text[end + 2 :].split()
        self.state = words[0].decode()
        self.parent = int(words[1])
        self.user, self.system = int(words[11]) * TICK_S, int(words[12]) * TICK_S
        self.children = (int(words[13]) + int(words[14])) * TICK_S
        self.threads, self.begun = int(words[17]), int(words[19])


def stat(pid):
    """Return a process's state; None where it is gone."""
    text = line(f"/proc/{pid}/stat")
    return Stat(text) if text else None


def fields(text):
    """Return a file of `name: value` lines as numbers and texts."""
    pairs = [part.split(b":", 1) for part in (text or b"").split(b"\n") if b":" in part]
    return {name.strip(): value.strip() for name, value in pairs}


def numbers(path, *names):
    """Return values of a file of /proc as numbers (units are left out); None where it is closed."""
    values = fields(content(path))
    try:
        return [int(values[name].split()[0]) for name in names]
    except (KeyError, IndexError, ValueError):
        return None


def name(pid, comm):
    """Return a process's name: its program's, as it was started; no other word of its command."""
    words = (line(f"/proc/{pid}/cmdline") or b"").split(b"\0")
    # Some write their own title there, with more behind a colon.
    text = words[0].split(b": ")[0].rsplit(b"/", 1)[-1] or comm
    return printed(text, _MOST_NAME)


def script(pid):
    """Return the file name of what an interpreter runs: the second word of its command."""
    words = (line(f"/proc/{pid}/cmdline") or b"").split(b"\0")
    return words[1].rsplit(b"/", 1)[-1] if len(words) > 1 else b""


def queued(pid):
    """Return how long a process's first thread was ready and had no processor, s; None: not told."""
    words = (line(f"/proc/{pid}/schedstat") or b"").split()
    return int(words[1]) * 1e-9 if len(words) == 3 else None


def printed(text, most=_MOST_TEXT):
    """Return a text of others as one line that a terminal may show."""
    shown = text.decode("utf-8", "replace")
    return "".join(mark if mark.isprintable() else "?" for mark in shown[:most])


def children(pid, tid):
    """Return the children of a thread; none where the kernel does not list them."""
    return [int(word) for word in (line(f"/proc/{pid}/task/{tid}/children") or b"").split()]


def threads(pid):
    """Return a process's threads."""
    try:
        return [int(entry) for entry in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def parents():
    """Return all processes of the machine with their parents: for kernels that list no children."""
    pairs = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            seen = stat(int(entry))
            if seen is not None:
                pairs[int(entry)] = seen.parent
    return pairs


def path_at(pid, address):
    """Return the path that a call of a process points to; None where it can't be read."""
    text, place = b"", address
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        while b"\0" not in text and len(text) < _MOST_PATH:
            # Not beyond a page: the next need not be there.
            part = os.pread(memory, _PAGE - place % _PAGE, place)
            if not part:
                break
            text, place = text + part, place + len(part)
    except (OSError, OverflowError):
        return None
    finally:
        os.close(memory)
    return os.fsdecode(text.split(b"\0", 1)[0])


class OpenFile:
    """An open file by /proc/PID/fdinfo: its position, how it was opened, its mount, its number."""

    __slots__ = ("flags", "inode", "mount", "position")

    def __init__(self, text):
        values = fields(text)
        self.position = int(values[b"pos"])
        self.flags = int(values[b"flags"], 8)
        self.mount = int(values.get(b"mnt_id", b"-1"))
        self.inode = values.get(b"ino")


def open_file(pid, fd):
    """Return an open file of a process; None where it is closed, or closed to us."""
    text = line(f"/proc/{pid}/fdinfo/{fd}")
    try:
        return OpenFile(text) if text else None
    except (KeyError, ValueError):
        return None


def _unescaped(word):
    """Return a word of mountinfo as it is: blanks are octal there."""
    parts = word.split(b"\\")
    text = parts[0]
    for part in parts[1:]:
        text += bytes([int(part[:3], 8) & 255]) + part[3:] if part[:3].isdigit() else b"\\" + part
    return text


class FileSystem:
    """A file system by its device: its type and source, and where it is mounted.

    `point` is the node's own view; `within` are points of other views: those of containers.
    """

    def __init__(self, device, kind, source):
        self.device, self.kind, self.source = device, kind, source
        self.point, self.is_whole = None, False
        self.within = []


class Mounts:
    """The mounts that processes see, by their numbers; a file system is told by its device."""

    def __init__(self):
        self.file_systems = {}
        self.forget()

    def forget(self):
        """Read mounts again from now on: some come and go."""
        self.by_mount, self.trees, self.read_at, self.refused = {}, {}, {}, {}
        self.node = self._view("self")
        self._read("self", self.node)

    @staticmethod
    def _view(pid):
        """Return what tells a process's view of mounts from others': it may change its root."""
        root = None
        with contextlib.suppress(OSError):
            number = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_CLOEXEC)
            try:
                root = open_file("self", number).mount
            finally:
                os.close(number)
        return link(f"/proc/{pid}/ns/mnt"), root

    def _read(self, pid, view):
        points, self.read_at[view] = {}, time.monotonic()
        for row in (content(f"/proc/{pid}/mountinfo", 1 << 22) or b"").split(b"\n"):
            words = row.split()
            if b"-" not in words[5:]:
                continue
            rest = [*words[words.index(b"-", 5) + 1 :], b"", b""]
            device, point = words[2].decode(), _unescaped(words[4])
            system = self.file_systems.get(device)
            if system is None:
                system = FileSystem(device, printed(rest[0]), printed(_unescaped(rest[1])))
                self.file_systems[device] = system
            self.by_mount[int(words[0])] = device
            # Of several at a point the last one is seen.
            points[os.fsdecode(point)] = device
            self._name(system, printed(point), is_whole=words[3] == b"/", is_node=view == self.node)
        self.trees[view] = sorted(points.items(), key=lambda pair: -len(pair[0]))

    @staticmethod
    def _name(system, point, *, is_whole, is_node):
        if is_node:
            if system.point is None or (is_whole and not system.is_whole):
                system.point, system.is_whole = point, is_whole
        elif point not in system.within and len(system.within) < _MOST_POINTS:
            system.within.append(point)

    def of_mount(self, pid, mount):
        """Return the device of a mount that a process has a file on; None for pipes and sockets."""
        now = time.monotonic()
        if mount not in self.by_mount and self.refused.get(mount, 0.0) < now:
            view = self._view(pid)
            if now - self.read_at.get(view, -_AGAIN_S) >= _AGAIN_S:
                self._read(pid, view)
            if mount not in self.by_mount:
                self.refused[mount] = now + _AGAIN_S
        return self.by_mount.get(mount)

    def of_path(self, pid, path):
        """Return the device that a path of a process lies on by its words: links aren't followed."""
        view = self._view(pid)
        if view not in self.trees:
            self._read(pid, view)
        for point, device in self.trees[view]:
            if path == point or path.startswith(point.rstrip("/") + "/"):
                return device
        return None
