"""The system calls that change a file system, as strace writes them."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from tests.faults.zygote import ASKED

_OPENING = ("open", "openat", "openat2", "creat")
_WRITING = ("write", "pwrite64", "writev", "pwritev", "pwritev2", "copy_file_range", "sendfile")
CHANGING = (
    *_OPENING,
    *_WRITING,
    *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat"),
    *("unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "mknod", "mknodat"),
    *("chmod", "fchmod", "fchmodat", "chown", "fchown", "lchown", "fchownat"),
    *("fsync", "fdatasync", "sync_file_range", "truncate", "ftruncate", "fallocate"),
    *("utime", "utimes", "futimesat", "utimensat", "setxattr", "fsetxattr", "lsetxattr"),
    *("removexattr", "fremovexattr", "lremovexattr"),
)
READING = ("openat", "read", "pread64", "newfstatat", "fstat", "statx", "getdents64", "readlinkat")

_LINE = re.compile(r"(\w+)\((.*)")
# strace -y: a descriptor with the path behind it, or a name.
_PART = re.compile(r'(?:\d+|AT_FDCWD)<((?:[^>\\]|\\.)*)>|"((?:[^"\\]|\\.)*)"')
_RANDOM = (
    (re.compile(r"(dlcontainer-[a-z]+-)[a-z0-9_]{8}"), r"\1*"),
    (re.compile(r"^(tmp/)[a-z0-9_]{8}$"), r"\1*"),
    (re.compile(r"\.[0-9a-f]{8}(?=$|/)"), ".*"),
    (re.compile(r"(?<=/)tmp[a-z0-9_]{8}(?=$|/)"), "tmp*"),
    (re.compile(r"-\d+-[0-9a-f]{8}(?=$|/)"), "-*"),
    # A rank's stamp, with its process.
    (re.compile(r"(?<=/rank-0-)\d+(?=\.json$)"), "*"),
    (re.compile(r"(?<=/watch-0-)[^/]*-\d+(?=\.(?:runs|watch|figures)$)"), "*"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call of a process: its name, which one of that name it is, and the path it is about.

    `nth` counts the calls of that name and path: it stays where a run opens one file more.
    """

    name: str
    at: int
    path: str
    nth: int
    changes: bool

    @property
    def kind(self) -> tuple[str, str, int]:
        """Tell which call it is, in every run of the command."""
        return self.name, self.path, self.nth

    def __str__(self) -> str:
        return f"{self.name} {self.at} of {self.path}"


def parsed(trace: str, folder: PurePath) -> list[Call]:
    """Read a trace of `strace -y`; give the calls about files below a folder."""
    counts: Counter[str] = Counter()
    places: Counter[tuple[str, str]] = Counter()
    calls = []
    for line in trace.splitlines():
        match = _LINE.match(line)
        if match is None or match[1] == ASKED:
            continue
        name, rest = match[1], match[2]
        counts[name] += 1
        path = _path(name, rest)
        if path.startswith(f"{folder}/"):
            within = named(path.removeprefix(f"{folder}/"))
            places[name, within] += 1
            calls.append(
                Call(
                    name=name,
                    at=counts[name],
                    path=within,
                    nth=places[name, within],
                    changes=_changes(name, rest),
                )
            )
    return calls


def _path(name: str, rest: str) -> str:
    """Give the last path that a call names: of two the new one."""
    path, base = "", ""
    for part in _PART.finditer(rest.rpartition(") = ")[0]):
        if part[2] is None:
            path = base = part[1]
        elif part[2] and name not in _WRITING and (name != "symlinkat" or base):
            path = part[2] if part[2].startswith("/") else f"{base}/{part[2]}"
    return path


def _changes(name: str, rest: str) -> bool:
    if name in _OPENING:
        return re.search(r"\bO_(CREAT|TRUNC|WRONLY|RDWR)\b", rest) is not None or name == "creat"
    return name in CHANGING


def named(path: str) -> str:
    """Give a path with random parts of names alike."""
    for pattern, name in _RANDOM:
        path = pattern.sub(name, path)
    return path


def changing(calls: Sequence[Call]) -> list[Call]:
    """Keep those that change something."""
    return [call for call in calls if call.changes]


def place(path: str) -> str:
    """Give the kind of place that a path is in: digests, numbers and versions are alike."""
    path = re.sub(r"[0-9a-f]{16,64}", "DIGEST", path)
    parts = [re.sub(r"\d+(\.\d+)*", "N", part) for part in path.split("/")]
    return "/".join(parts[:4])


def one_a_kind(calls: Sequence[Call]) -> list[Call]:
    """Keep the first call of each name and kind of place."""
    return list({(call.name, place(call.path)): call for call in reversed(calls)}.values())[::-1]
